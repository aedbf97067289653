/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knobs, the rules that carry them, and their file form, the plan.
 *
 * Plain C without any NCCL include, so that the one parser serves libnccl, the bindings and the tests. Nothing here is
 * exported from libnccl: whoever needs the parser compiles src/nccl_plan.c, a few hundred lines that need only libc.
 *
 * A plan is a CSV text, a superset of the file that NCCL's example tuner reads:
 *
 *   collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff,threads,chunk_bytes,call
 *
 * Names are lower case, -1 means "not set" in every column but `collective`. The columns after nRanks may be left out
 * and are then -1. Lines that start with '#' are comments; a first line that repeats the column names is accepted.
 * The first rule that matches a call wins.
 */
#ifndef NCCL_PLAN_H_
#define NCCL_PLAN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef NCCL_PLAN_API
#define NCCL_PLAN_API __attribute__((visibility("hidden")))
#endif

#define NCCL_KNOBS_VERSION 1
#define NCCL_KNOB_RULE_VERSION 1
#define NCCL_KNOB_UNSET (-1)
#define NCCL_KNOB_MAX_CHANNELS 64

/* Same numbers as NCCL's own ncclFunc_t, NCCL_ALGO_* and NCCL_PROTO_*. */
enum {
  ncclKnobBroadcast = 0,
  ncclKnobReduce = 1,
  ncclKnobAllGather = 2,
  ncclKnobReduceScatter = 3,
  ncclKnobAllReduce = 4,
  ncclKnobNumCollectives = 5
};
enum {
  ncclKnobTree = 0,
  ncclKnobRing = 1,
  ncclKnobCollnetDirect = 2,
  ncclKnobCollnetChain = 3,
  ncclKnobNvls = 4,
  ncclKnobNvlsTree = 5,
  ncclKnobPat = 6,
  ncclKnobNumAlgorithms = 7
};
enum { ncclKnobLL = 0, ncclKnobLL128 = 1, ncclKnobSimple = 2, ncclKnobNumProtocols = 3 };

/* What one collective is to run with. Every member may be NCCL_KNOB_UNSET: NCCL then chooses as it would have. */
typedef struct ncclKnobs {
  size_t size;        /* sizeof(ncclKnobs) of the caller */
  uint32_t version;   /* NCCL_KNOBS_VERSION */
  int32_t algorithm;  /* ncclKnobTree .. ncclKnobPat */
  int32_t protocol;   /* ncclKnobLL .. ncclKnobSimple */
  int32_t nChannels;  /* CTAs that run the collective, 1..NCCL_KNOB_MAX_CHANNELS */
  int32_t nThreads;   /* threads of a CTA that enter the collective, a multiple of 32 */
  int32_t chunkBytes; /* bytes a rank passes on at once in a channel, a multiple of the protocol's grain */
} ncclKnobs;

#define NCCL_KNOBS_INITIALIZER \
  { sizeof(ncclKnobs), NCCL_KNOBS_VERSION, NCCL_KNOB_UNSET, NCCL_KNOB_UNSET, NCCL_KNOB_UNSET, NCCL_KNOB_UNSET, \
    NCCL_KNOB_UNSET }

/* Calls that match get the knobs. Bytes are element size x count of the larger of the two buffers: for all-gather and
 * reduce-scatter that is the total over ranks. A rule whose knobs are all unset leaves its calls to NCCL and still
 * ends the search. */
typedef struct ncclKnobRule {
  size_t size;         /* sizeof(ncclKnobRule) of the caller */
  uint32_t version;    /* NCCL_KNOB_RULE_VERSION */
  int32_t collective;  /* ncclKnobBroadcast .. ncclKnobAllReduce */
  int64_t minBytes;    /* inclusive; NCCL_KNOB_UNSET: no lower end */
  int64_t maxBytes;    /* inclusive; NCCL_KNOB_UNSET: no upper end */
  int32_t nNodes;      /* NCCL_KNOB_UNSET: any */
  int32_t nRanks;      /* NCCL_KNOB_UNSET: any */
  int32_t callIndex;   /* with callPeriod, the calls k with k % callPeriod == callIndex. */
  int32_t callPeriod;  /* Both must be NCCL_KNOB_UNSET in this version. */
  int32_t line;        /* line of the plan it came from, 0 where it came from no file; never compared */
  int32_t reserved;    /* 0 */
  ncclKnobs knobs;
} ncclKnobRule;

#define NCCL_KNOB_RULE_INITIALIZER \
  { sizeof(ncclKnobRule), NCCL_KNOB_RULE_VERSION, 0, NCCL_KNOB_UNSET, NCCL_KNOB_UNSET, NCCL_KNOB_UNSET, \
    NCCL_KNOB_UNSET, NCCL_KNOB_UNSET, NCCL_KNOB_UNSET, 0, 0, NCCL_KNOBS_INITIALIZER }

/* What a rule is matched against. */
typedef struct ncclPlanCall {
  int32_t collective;
  int32_t nNodes;
  int32_t nRanks;
  uint64_t bytes;
} ncclPlanCall;

typedef struct ncclPlan {
  ncclKnobRule* rules; /* in file order */
  int nRules;
  uint64_t digest;     /* ncclPlanDigest(rules, nRules) */
} ncclPlan;

/* Where a text is wrong and why. line and column count from 1; 0 where the fault has no place (an unreadable file). */
typedef struct ncclPlanError {
  int line;
  int column;
  char file[512];
  char reason[512];
} ncclPlanError;

/* Parses `length` bytes. `file` names them in errors. 0: *plan is filled and must be freed. -1: *error is filled. */
NCCL_PLAN_API int ncclPlanParse(const char* text, size_t length, const char* file, ncclPlan* plan,
                                ncclPlanError* error);
/* Reads the whole file once and parses it; a file that changes while it is read is an error. */
NCCL_PLAN_API int ncclPlanRead(const char* path, ncclPlan* plan, ncclPlanError* error);
NCCL_PLAN_API void ncclPlanFree(ncclPlan* plan);

/* Index of the first rule that matches, -1 where none does. */
NCCL_PLAN_API int ncclPlanMatch(const ncclKnobRule* rules, int nRules, const ncclPlanCall* call);

/* Everything that can be said of a rule without a communicator. 0: fine; -1: `reason` says what is wrong and what is
 * allowed, and *field (may be NULL) is the index of the plan column at fault. */
NCCL_PLAN_API int ncclPlanCheckRule(const ncclKnobRule* rule, int* field, char* reason, size_t reasonBytes);

/* Threads and chunk that an algorithm and protocol can run at all; buffer sizes of a communicator may allow less. */
NCCL_PLAN_API int ncclPlanCheckThreads(int algorithm, int protocol, int nThreads, char* reason, size_t reasonBytes);
NCCL_PLAN_API int ncclPlanCheckChunk(int algorithm, int protocol, int64_t chunkBytes, int64_t maxChunkBytes,
                                     char* reason, size_t reasonBytes);
/* Grain of a protocol in bytes, and the largest chunk with NCCL's default buffer sizes. 0 where there is none. */
NCCL_PLAN_API int64_t ncclPlanChunkGrain(int protocol);
NCCL_PLAN_API int64_t ncclPlanChunkMax(int algorithm, int protocol);

/* One CSV line without newline, every field written. Returns its length as snprintf does. */
NCCL_PLAN_API int ncclPlanFormatRule(const ncclKnobRule* rule, char* out, size_t outBytes);
/* The column names as the writer puts them into a comment, and one by one; NULL past the last. */
NCCL_PLAN_API const char* ncclPlanHeader(void);
NCCL_PLAN_API const char* ncclPlanColumn(int index);

/* A number that two lists of rules share when they mean the same, whatever the text they came from. */
NCCL_PLAN_API uint64_t ncclPlanDigest(const ncclKnobRule* rules, int nRules);

/* Names as plans spell them. NULL / -1 for what is not known. */
NCCL_PLAN_API const char* ncclPlanCollectiveName(int collective);
NCCL_PLAN_API const char* ncclPlanAlgorithmName(int algorithm);
NCCL_PLAN_API const char* ncclPlanProtocolName(int protocol);
NCCL_PLAN_API int ncclPlanCollective(const char* name);
NCCL_PLAN_API int ncclPlanAlgorithm(const char* name);
NCCL_PLAN_API int ncclPlanProtocol(const char* name);

#ifdef __cplusplus
}
#endif

#endif
