/* SPDX-License-Identifier: Apache-2.0 */
/* What a communicator keeps for knobs and counters. Private to src/lagom. */
#ifndef LAGOM_COMM_H_
#define LAGOM_COMM_H_

#include "lagom.h"

#include <mutex>
#include <string>
#include <vector>

struct lagomCounters;

struct lagomComm {
  std::mutex mutex; /* rules and planId: the setter against readers of other threads */
  std::vector<ncclKnobRule> rules;
  uint64_t planId = 0;   /* ncclPlanDigest of rules; 0 without any */
  std::string planPath;  /* LAGOM_PLAN, empty where it is not set */
  std::string planFault; /* why that plan cannot be used, empty where it can */
  bool required = false; /* LAGOM_REQUIRE */
  lagomCounters* counters = nullptr;
};

/* Environment of the process, read as NCCL reads its own. */
bool lagomEnvFlag(const char* name);

/* counters.cc */
ncclResult_t lagomCountersFree(struct ncclComm* comm);

/* falsify.cc: breaks descriptors on purpose, see docs/knobs.md, "Proof that the proof works". */
enum lagomFalsehood { lagomHonest, lagomFalseChannels, lagomFalseThreads, lagomFalseChunk };
lagomFalsehood lagomFalsify();

const char* lagomBuildDigest();

#endif
