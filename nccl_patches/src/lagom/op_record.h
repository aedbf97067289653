/* SPDX-License-Identifier: Apache-2.0 */
/* One finished operation, from what the host knew and what the device wrote. Private to src/lagom. */
#ifndef LAGOM_OP_RECORD_H_
#define LAGOM_OP_RECORD_H_

#include "lagom.h"
#include "lagom_device.h"

#include <cstdint>
#include <string>
#include <vector>

struct lagomOp {
  lagomTask task;
  int collective;
  uint64_t opIndex;
  uint32_t launch;
  std::vector<uint64_t> sequences; /* by channel from task.channelLo: index of its entry in that channel's ring */
  std::vector<lagomEntry> entries; /* as many, once it has finished */
};

struct lagomOpPlace {
  uint64_t commHash;
  int rank, nRanks, nNodes;
};

/* The largest element count that the loop of an algorithm passes to a primitive for one part. */
uint64_t lagomExpectedMaxCount(int collective, int algorithm, int nRanks, uint64_t partCount, uint64_t chunkCount,
                               int elementBytes);

void lagomFillRecord(lagomOp const& op, lagomOpPlace const& place, ncclOpRecord* record);

/* CSV of LAGOM_COUNTERS_FILE: one row an operation. */
const char* lagomCsvHeader();
std::string lagomCsvRow(ncclOpRecord const& record);

#endif
