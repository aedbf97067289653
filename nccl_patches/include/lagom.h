/* SPDX-License-Identifier: Apache-2.0 */
/* What NCCL's own files call. Every hook of the patch series ends in one of these functions. */
#ifndef LAGOM_H_
#define LAGOM_H_

#include "nccl_knobs.h"

#include <stddef.h>
#include <stdint.h>

struct ncclComm;
struct ncclInfo;
struct ncclTaskColl;
struct ncclKernelPlan;
struct ncclDevRedOpFull;
struct ncclDevWorkColl;

/* Per communicator: rules, what was agreed, counters. */
struct lagomComm;

/* Travels with a collective from the API call to its launch. All zero: nothing is known of it (not a collective that
 * passed collTaskAppend). */
struct lagomTask {
  bool known;
  bool tuned;         /* a rule matched that sets at least one knob */
  bool exactChannels; /* ... and the number of channels is one of them */
  int rule;           /* -1: none matched */
  int planLine;
  uint64_t planId;
  ncclKnobs asked;
  int algorithm;      /* what `asked` came to when the call was checked; valid where tuned */
  int protocol;
  /* As the caller passed them: NCCL rewrites its own copies. */
  ncclDataType_t datatype;
  ncclRedOp_t redOp;
  int root;
  size_t count;
  uint64_t bytes;
  /* Set when the collective is put into a plan. */
  int channelLo, channelHi;
};

/* ---- life of a communicator ---- */

/* Reads the plan and the environment. Never fails for what is wrong with them: that must be told to all ranks first. */
ncclResult_t lagomCommInit(struct ncclComm* comm);
/* The version a rank sends to its peers. It differs from NCCL's own, so that stock and patched ranks refuse each other
 * in stock's own check. */
int lagomTagVersion(int ncclVersion);
/* All ranks, right after that check: everything that must be the same on all of them, or init fails on all of them. */
ncclResult_t lagomAgree(struct ncclComm* comm);
/* Once the device's copy of the communicator is there. */
ncclResult_t lagomCommReady(struct ncclComm* comm);
ncclResult_t lagomCommFree(struct ncclComm* comm);

/* What became of a change of rules, for ncclCommGetAsyncError: a refusal once, on a communicator that does not block; a
 * lost agreement for ever. */
ncclResult_t lagomAsyncError(struct ncclComm* comm);

/* ---- a collective, from call to launch ---- */

/* At the API call, whatever its count: collectives are numbered in program order. */
ncclResult_t lagomCountCall(struct ncclComm* comm, struct ncclInfo* info);
/* At the API call: matches the rules, checks that what is asked can run here, fills info->lagom. */
ncclResult_t lagomMatchCall(struct ncclComm* comm, struct ncclInfo* info, struct ncclDevRedOpFull const* opDev);
/* In ncclGetAlgoInfo: takes out of the cost table what the rule excludes; it never adds to it. */
ncclResult_t lagomFilterPairs(struct ncclComm* comm, struct ncclTaskColl* task, float** collCostTable);
/* In ncclGetAlgoInfo, at its end: channels and threads of the rule. */
ncclResult_t lagomApplyKnobs(struct ncclComm* comm, struct ncclTaskColl* task);
/* In calcCollChunking: true where the rule sets the chunk. */
bool lagomForcedChunk(struct ncclTaskColl const* task, int* chunkSize);
/* The parts of nChannels channels, in elements: all but the last get *countEach, the last (or only) one *countLast. */
void lagomParts(size_t count, size_t elementBytes, int nChannels, size_t* countEach, size_t* countLast);
/* How many channels to schedule an exact one on: what was asked, unless a test falsifies it. */
int lagomScheduledChannels(struct ncclTaskColl const* task);
/* The function must be in this build: NCCL maps those that are not to a kernel that does nothing. */
ncclResult_t lagomCheckBuilt(int devFuncId, const char* func, const char* redOp, const char* type, const char* algo,
                             const char* proto);
ncclResult_t lagomCheckBuilt(struct ncclTaskColl const* task);
/* Once the descriptor is final. */
void lagomTaskScheduled(struct ncclTaskColl* task, struct ncclDevWorkColl* work);
/* Before the kernel's arguments are used. */
void lagomPlanLaunched(struct ncclComm* comm, struct ncclKernelPlan* plan);

/* Written by generate.py: the function that stands for all that were left out, negative where none was. */
extern int const ncclDevFuncNopId;

#endif
