/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the patched NCCL offers beyond nccl.h: knobs that one collective runs with, and counters that say what ran.
 *
 * Knobs are exact or refused. A collective whose rule asks for something that cannot run returns ncclInvalidUsage
 * before anything is launched, ncclGetLastError names the knob, its value and what is allowed, and the communicator
 * stays usable. Structs begin with their size and version; callers fill both in.
 */
#ifndef NCCL_KNOBS_H_
#define NCCL_KNOBS_H_

/* Whoever looks the functions up by name can do without nccl.h. */
#ifdef NCCL_KNOBS_WITHOUT_NCCL_H
typedef struct ncclComm* ncclComm_t;
typedef int ncclResult_t;
#else
#include "nccl.h"
#endif
#include "nccl_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NCCL_KNOBS_INFO_VERSION 1
#define NCCL_OP_RECORD_VERSION 1
#define NCCL_COUNTERS_STATUS_VERSION 1

/* ---- which library is this ---- */

typedef struct ncclKnobsInfo {
  size_t size;       /* in: sizeof(ncclKnobsInfo) */
  uint32_t version;  /* in: NCCL_KNOBS_INFO_VERSION */
  int32_t ncclVersion;
  char build[72];    /* digest of sources and build options; "unknown" where the build gave none */
} ncclKnobsInfo;

/* A library without this symbol is not patched. */
ncclResult_t ncclGetKnobsInfo(ncclKnobsInfo* info);

/* ---- rules ---- */

/* Replaces all rules, from the next collective on; nRules 0 removes them. The first rule that matches a call wins.
 *
 * Called by all ranks, like ncclCommSplit: it returns when all agree, may be grouped (it is done when the group ends; no
 * collective of this communicator may follow it in the group), and is ncclInProgress on a communicator that does not
 * block. Where ranks differ in rules, in the number of collectives called before, or one has a rule that no communicator
 * could run or is capturing a stream, all of them get ncclInvalidUsage (a group too; without blocking, the first
 * ncclCommGetAsyncError or next call), ncclGetLastError names rank and field, and the old rules stay. Where a rank does
 * not come within LAGOM_TIMEOUT_S seconds, those that did get ncclRemoteError, now and from every later call: such a
 * communicator can only be aborted. Work that was called before goes on in all cases. */
ncclResult_t ncclCommSetKnobRules(ncclComm_t comm, const ncclKnobRule* rules, int nRules);

/* Copies up to `capacity` rules in force, the plan's included, and says in *nRules how many there are. */
ncclResult_t ncclCommGetKnobRules(ncclComm_t comm, ncclKnobRule* rules, int capacity, int* nRules);

/* ---- counters ---- */

/* One channel of one operation, written by the CTA that ran it. Times in ns on the device clock. */
typedef struct ncclOpChannel {
  int32_t channel;
  int32_t smId;             /* %smid */
  int32_t threads;          /* threads that entered the work, counted by themselves */
  int32_t chunkBytes;       /* chunk decoded from the descriptor; 0 for a part without data */
  uint64_t bytes;           /* of this channel's part, in the collective's own count (see ncclOpRecord.count) */
  uint64_t maxElementCount; /* largest element count passed to a primitive */
  uint64_t startNs;
  uint64_t stopNs;
  uint64_t waitNs;          /* of the CTA's first thread: for peers' data and for room in their buffers */
  uint64_t moveNs;          /* stopNs - startNs - waitNs */
} ncclOpChannel;

/* One operation of one rank. */
typedef struct ncclOpRecord {
  size_t size;              /* in: sizeof(ncclOpRecord) in the first element */
  uint32_t version;         /* in: NCCL_OP_RECORD_VERSION in the first element */
  int32_t collective;       /* ncclKnobBroadcast ... */
  uint64_t opIndex;         /* operations of this communicator in launch order, from 0 */
  uint64_t commHash;
  int32_t rank;
  int32_t nRanks;
  int32_t nNodes;
  int32_t datatype;         /* ncclDataType_t as the caller passed it */
  int32_t redOp;            /* ncclRedOp_t, -1 where the collective has none */
  int32_t root;             /* -1 where the collective has none */
  uint64_t count;           /* elements as the caller passed them */
  uint64_t bytes;           /* what rules are matched with, see ncclKnobRule */
  ncclKnobs asked;          /* of the rule that matched, or all unset */
  ncclKnobs used;           /* as the device saw them; a knob that differs between channels is NCCL_KNOB_UNSET */
  int32_t rule;             /* index of the rule that matched, -1: none */
  int32_t planLine;         /* its line in the plan, 0: not from a plan */
  uint64_t planId;          /* digest of the rules in force at the call */
  uint64_t replay;          /* 0; counts replays of a captured graph */
  int32_t exact;            /* 1: used equals asked in every knob that was set, 0: it does not */
  int32_t nChannels;        /* entries of channels[] that are filled */
  int32_t elementBytes;     /* of the element the device counts in (1 for all-gather and broadcast) */
  int32_t reserved;
  ncclOpChannel channels[NCCL_KNOB_MAX_CHANNELS];
} ncclOpRecord;

typedef struct ncclCountersStatus {
  size_t size;              /* in: sizeof(ncclCountersStatus) */
  uint32_t version;         /* in: NCCL_COUNTERS_STATUS_VERSION */
  int32_t enabled;
  uint64_t issued;          /* operations launched while counters were on */
  uint64_t read;            /* records handed out by ncclCommCountersRead */
  uint64_t lost;            /* overwritten before they were read */
  uint64_t pending;         /* not finished on the device, or not read yet */
} ncclCountersStatus;

/* Turns counting on or off for operations launched from now on. Records already made can still be read. */
ncclResult_t ncclCommCountersEnable(ncclComm_t comm, int enable);

/* Hands out, in launch order, up to `capacity` records of operations that have finished. Never waits for the device: an
 * operation still running ends the list. After a stream synchronization all its operations are there. */
ncclResult_t ncclCommCountersRead(ncclComm_t comm, ncclOpRecord* records, int capacity, int* nRecords);

ncclResult_t ncclCommCountersStatus(ncclComm_t comm, ncclCountersStatus* status);

#ifdef __cplusplus
}
#endif

#endif
