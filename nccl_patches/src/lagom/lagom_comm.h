/* SPDX-License-Identifier: Apache-2.0 */
/* What a communicator keeps for knobs and counters. Private to src/lagom. */
#ifndef LAGOM_COMM_H_
#define LAGOM_COMM_H_

#include "lagom.h"

#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

struct lagomCounters;
struct lagomRing;

struct lagomComm {
  std::mutex mutex; /* what follows up to `refusal`: jobs that set rules against calls of other threads */
  std::vector<ncclKnobRule> rules;
  uint64_t planId = 0;   /* ncclPlanDigest of rules; 0 without any */
  uint64_t calls = 0;    /* collectives called, see lagomCountCall */
  uint64_t epoch = 0;    /* changes of the rules that all ranks agreed to */
  int settingNow = 0;    /* changes that have been called for and are not through */
  bool lost = false;     /* an agreement did not come about in time */
  ncclResult_t refusal = ncclSuccess; /* not yet told, see lagomAsyncError */

  lagomRing* ring = nullptr;
  int limitSeconds = 60; /* LAGOM_TIMEOUT_S */
  std::string planPath;  /* LAGOM_PLAN, empty where it is not set */
  std::string fault;     /* what is wrong with plan or environment on this rank, empty where nothing is */
  bool required = false; /* LAGOM_REQUIRE */
  FILE* csv = nullptr;   /* LAGOM_COUNTERS_FILE; closed when the process ends */
  lagomCounters* counters = nullptr;
};

/* Environment of the process, read as NCCL reads its own. */
bool lagomEnvFlag(const char* name);

/* counters.cc */
ncclResult_t lagomCountersFree(struct ncclComm* comm);
/* Opens, or finds open, the file that LAGOM_COUNTERS_FILE names. False: *fault says why it cannot be written. */
bool lagomCsvOpen(const char* pattern, int rank, FILE** file, std::string* fault);

/* falsify.cc: breaks descriptors on purpose, see docs/knobs.md, "Proof that the proof works". */
enum lagomFalsehood { lagomHonest, lagomFalseChannels, lagomFalseThreads, lagomFalseChunk };
lagomFalsehood lagomFalsify();
bool lagomFalsehoodKnown(const char* name);

const char* lagomBuildDigest();

#endif
