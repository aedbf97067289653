/* SPDX-License-Identifier: Apache-2.0 */
/* From a rule to the knobs a collective runs with: match, check, apply. */
#include "lagom_comm.h"

#include "collectives.h"
#include "core.h"
#include "enqueue.h"
#include "info.h"

#include <cstdio>

static_assert((int)ncclKnobBroadcast == ncclFuncBroadcast && (int)ncclKnobReduce == ncclFuncReduce &&
              (int)ncclKnobAllGather == ncclFuncAllGather && (int)ncclKnobReduceScatter == ncclFuncReduceScatter &&
              (int)ncclKnobAllReduce == ncclFuncAllReduce, "collectives of rules are numbered as NCCL's");
static_assert(ncclKnobTree == NCCL_ALGO_TREE && ncclKnobRing == NCCL_ALGO_RING && ncclKnobPat == NCCL_ALGO_PAT &&
              ncclKnobNumAlgorithms == NCCL_NUM_ALGORITHMS, "algorithms of rules are numbered as NCCL's");
static_assert(ncclKnobLL == NCCL_PROTO_LL && ncclKnobSimple == NCCL_PROTO_SIMPLE &&
              ncclKnobNumProtocols == NCCL_NUM_PROTOCOLS, "protocols of rules are numbered as NCCL's");
static_assert(NCCL_KNOB_MAX_CHANNELS == MAXCHANNELS, "as many channels as NCCL has");

static bool setsAnything(ncclKnobs const& k) {
  return k.algorithm != NCCL_KNOB_UNSET || k.protocol != NCCL_KNOB_UNSET || k.nChannels != NCCL_KNOB_UNSET ||
         k.nThreads != NCCL_KNOB_UNSET || k.chunkBytes != NCCL_KNOB_UNSET;
}

/* "rule 3 (plan line 7)": where the knob comes from, for messages. */
static std::string origin(lagomTask const& t) {
  std::string text = "rule " + std::to_string(t.rule);
  if (t.planLine > 0) text += " (plan line " + std::to_string(t.planLine) + ")";
  return text;
}

/* Algorithms whose channels, threads and chunk reach the device as asked. */
static bool isControlled(int algorithm) { return algorithm == NCCL_ALGO_RING || algorithm == NCCL_ALGO_TREE; }

static std::string listPairs(float (*table)[NCCL_NUM_PROTOCOLS]) {
  std::string list;
  for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++) {
    for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
      if (table[a][p] < 0 || !isControlled(a)) continue;
      list += std::string(list.empty() ? "" : ", ") + ncclPlanAlgorithmName(a) + "/" + ncclPlanProtocolName(p);
    }
  }
  return list.empty() ? "none" : list;
}

ncclResult_t lagomFilterPairs(struct ncclComm* comm, struct ncclTaskColl* task, float** collCostTable) {
  lagomTask const& t = task->lagom;
  if (!t.tuned) return ncclSuccess;
  float (*table)[NCCL_NUM_PROTOCOLS] = (float (*)[NCCL_NUM_PROTOCOLS])collCostTable;
  bool left = false;
  std::string possible = listPairs(table);
  for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++) {
    for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
      bool asked = (t.algorithm == NCCL_KNOB_UNSET || t.algorithm == a) &&
                   (t.protocol == NCCL_KNOB_UNSET || t.protocol == p);
      if (!asked) table[a][p] = NCCL_ALGO_PROTO_IGNORE;
      left |= asked && table[a][p] >= 0;
    }
  }
  if (left) return ncclSuccess;
  const char* algorithm = ncclPlanAlgorithmName(t.asked.algorithm);
  const char* protocol = ncclPlanProtocolName(t.asked.protocol);
  WARN("%s of %s: algorithm=%s protocol=%s is not possible for it on this communicator of %d ranks; possible: %s",
       origin(t).c_str(), ncclFuncToString(task->func), algorithm ? algorithm : "-1", protocol ? protocol : "-1",
       comm->nRanks, possible.c_str());
  return ncclInvalidUsage;
}

/* The chunk that calcCollChunking starts from, in whole grains: nothing larger fits the buffers. */
static int64_t maxChunkBytes(struct ncclComm* comm, int algorithm, int protocol, int chunkSteps) {
  int64_t step = comm->buffSizes[protocol]/NCCL_STEPS;
  int64_t chunk = step*(protocol == NCCL_PROTO_SIMPLE && algorithm == NCCL_ALGO_RING ? chunkSteps : 1);
  if (protocol == NCCL_PROTO_LL) chunk /= 2;
  if (protocol == NCCL_PROTO_LL128) chunk = chunk/NCCL_LL128_LINEELEMS*NCCL_LL128_DATAELEMS;
  return chunk/ncclProtoGrainSize(protocol)*ncclProtoGrainSize(protocol);
}

ncclResult_t lagomApplyKnobs(struct ncclComm* comm, struct ncclTaskColl* task) {
  lagomTask const& t = task->lagom;
  if (!t.tuned) return ncclSuccess;
  int a = task->algorithm, p = task->protocol;
  const char* func = ncclFuncToString(task->func);
  char reason[256];
  /* A tuner plug-in or a CTA policy may have gone its own way after the table was filtered. */
  if ((t.algorithm != NCCL_KNOB_UNSET && t.algorithm != a) || (t.protocol != NCCL_KNOB_UNSET && t.protocol != p)) {
    WARN("%s of %s: asked for algorithm=%s protocol=%s, but a tuner plug-in or the CTA policy chose %s/%s",
         origin(t).c_str(), func, t.algorithm == NCCL_KNOB_UNSET ? "-1" : ncclPlanAlgorithmName(t.algorithm),
         t.protocol == NCCL_KNOB_UNSET ? "-1" : ncclPlanProtocolName(t.protocol), ncclPlanAlgorithmName(a),
         ncclPlanProtocolName(p));
    return ncclInvalidUsage;
  }
  if (!isControlled(a)) {
    WARN("%s of %s: algorithm=%s%s takes no knobs in this version; allowed: algorithm=ring or tree", origin(t).c_str(),
         func, ncclPlanAlgorithmName(a), t.asked.algorithm == NCCL_KNOB_UNSET ? " (NCCL's choice)" : "");
    return ncclInvalidUsage;
  }
  if (t.asked.nChannels != NCCL_KNOB_UNSET) {
    if (t.asked.nChannels > comm->nChannels) {
      WARN("%s of %s: channels=%d, but this communicator has %d connected; allowed: 1 to %d", origin(t).c_str(), func,
           t.asked.nChannels, comm->nChannels, comm->nChannels);
      return ncclInvalidUsage;
    }
    task->nMaxChannels = t.asked.nChannels;
  }
  if (t.asked.nThreads != NCCL_KNOB_UNSET) {
    if (ncclPlanCheckThreads(a, p, t.asked.nThreads, reason, sizeof(reason)) != 0) {
      WARN("%s of %s: %s", origin(t).c_str(), func, reason);
      return ncclInvalidUsage;
    }
    task->nWarps = t.asked.nThreads/WARP_SIZE;
  }
  if (t.asked.chunkBytes != NCCL_KNOB_UNSET &&
      ncclPlanCheckChunk(a, p, t.asked.chunkBytes, maxChunkBytes(comm, a, p, task->chunkSteps), reason,
                         sizeof(reason)) != 0) {
    WARN("%s of %s: %s", origin(t).c_str(), func, reason);
    return ncclInvalidUsage;
  }
  return ncclSuccess;
}

/* Runs NCCL's own choice with the rule's restrictions once, so that whatever cannot run is refused at the API call,
 * before the call has left a trace in a group. What it comes to stays fixed until the launch. */
static ncclResult_t resolve(struct ncclComm* comm, struct ncclInfo* info, struct ncclDevRedOpFull const* opDev) {
  struct ncclTaskColl task = {};
  task.func = info->coll;
  task.sendbuff = info->sendbuff;
  task.recvbuff = info->recvbuff;
  task.count = info->count;
  task.datatype = info->datatype;
  task.root = info->root;
  if (info->coll == ncclFuncAllGather || info->coll == ncclFuncBroadcast) {
    task.count *= ncclTypeSize(info->datatype);
    task.datatype = ncclInt8;
  }
  task.opHost = info->op;
  task.opDev = *opDev;
  task.chunkSteps = info->chunkSteps;
  task.sliceSteps = info->sliceSteps;
  task.lagom = info->lagom;
  int collNetSupport = 0;
  NCCLCHECK(ncclGetCollNetSupport(comm, &task, &collNetSupport));
  int nvlsSupport = comm->nvlsSupport &&
                    (ncclNvlsSupported(task.opDev.op, task.datatype) || task.func == ncclFuncAllGather);
  NCCLCHECK(ncclGetAlgoInfo(comm, &task, collNetSupport, nvlsSupport, /*numPipeOps=*/1));
  task.devFuncId = ncclDevFuncId(task.func, task.opDev.op, task.datatype, task.algorithm, task.protocol);
  NCCLCHECK(lagomCheckBuilt(&task));
  info->lagom.algorithm = task.algorithm;
  info->lagom.protocol = task.protocol;
  return ncclSuccess;
}

ncclResult_t lagomCountCall(struct ncclComm* comm, struct ncclInfo* info) {
  lagomComm* l = comm->lagom;
  if ((int)info->coll < 0 || (int)info->coll >= ncclKnobNumCollectives || l == nullptr) return ncclSuccess;
  std::lock_guard<std::mutex> lock(l->mutex);
  if (l->settingNow > 0) {
    WARN("%s: this group is setting rules of the communicator; end the group before its next collective",
         ncclFuncToString(info->coll));
    return ncclInvalidUsage;
  }
  l->calls += 1;
  return ncclSuccess;
}

ncclResult_t lagomMatchCall(struct ncclComm* comm, struct ncclInfo* info, struct ncclDevRedOpFull const* opDev) {
  lagomTask& t = info->lagom;
  t = lagomTask{};
  if ((int)info->coll < 0 || (int)info->coll >= ncclKnobNumCollectives) return ncclSuccess;
  t.known = true;
  t.rule = -1;
  t.asked = ncclKnobs NCCL_KNOBS_INITIALIZER;
  t.datatype = info->datatype;
  t.redOp = info->op;
  t.root = info->root;
  t.count = info->count;
  t.bytes = ncclTypeSize(info->datatype)*ncclFuncMaxSendRecvCount(info->coll, comm->nRanks, info->count);
  if (comm->lagom == nullptr) return ncclSuccess;
  {
    std::lock_guard<std::mutex> lock(comm->lagom->mutex);
    t.planId = comm->lagom->planId;
    ncclPlanCall call = {(int32_t)info->coll, comm->nNodes, comm->nRanks, t.bytes};
    t.rule = ncclPlanMatch(comm->lagom->rules.data(), (int)comm->lagom->rules.size(), &call);
    if (t.rule < 0) return ncclSuccess;
    t.asked = comm->lagom->rules[t.rule].knobs;
    t.planLine = comm->lagom->rules[t.rule].line;
  }
  if (!setsAnything(t.asked)) return ncclSuccess;
  if (comm->nRanks == 1) {
    WARN("%s of %s: a communicator of one rank runs no collective that could have knobs; let the rule say nRanks",
         origin(t).c_str(), ncclFuncToString(info->coll));
    return ncclInvalidUsage;
  }
  t.tuned = true;
  t.exactChannels = t.asked.nChannels != NCCL_KNOB_UNSET;
  t.algorithm = t.asked.algorithm;
  t.protocol = t.asked.protocol;
  return resolve(comm, info, opDev);
}

bool lagomForcedChunk(struct ncclTaskColl const* task, int* chunkSize) {
  if (!task->lagom.tuned || task->lagom.asked.chunkBytes == NCCL_KNOB_UNSET) return false;
  *chunkSize = task->lagom.asked.chunkBytes;
  return true;
}

ncclResult_t lagomCheckBuilt(int devFuncId, const char* func, const char* redOp, const char* type, const char* algo,
                             const char* proto) {
  if (devFuncId != ncclDevFuncNopId) return ncclSuccess;
  std::string name;
  for (const char* word : {func, redOp, type, algo, proto}) {
    if (word[0] != '\0') name += (name.empty() ? "" : " ") + std::string(word);
  }
  WARN("this libnccl was built without the device function %s; build it with all functions, or add this one",
       name.c_str());
  return ncclInvalidUsage;
}

ncclResult_t lagomCheckBuilt(struct ncclTaskColl const* task) {
  bool reduces = task->func != ncclFuncAllGather && task->func != ncclFuncBroadcast;
  return lagomCheckBuilt(task->devFuncId, ncclFuncToString(task->func),
                         reduces ? ncclDevRedOpToString(task->opDev.op) : "",
                         reduces ? ncclDatatypeToString(task->datatype) : "", ncclAlgoToString(task->algorithm),
                         ncclProtoToString(task->protocol));
}

int lagomScheduledChannels(struct ncclTaskColl const* task) {
  return task->nMaxChannels - (lagomFalsify() == lagomFalseChannels && task->nMaxChannels > 1 ? 1 : 0);
}

void lagomTaskScheduled(struct ncclTaskColl* task, struct ncclDevWorkColl* work) {
  task->lagom.channelLo = work->channelLo;
  task->lagom.channelHi = work->channelHi;
  if (!task->lagom.tuned) return;
  switch (lagomFalsify()) {
  case lagomFalseThreads:
    if (work->nWarps > 3) work->nWarps -= task->algorithm == NCCL_ALGO_TREE ? 2 : 1;
    break;
  case lagomFalseChunk: {
    auto fewer = [](uint64_t grains) -> uint64_t { return grains > 1 ? grains-1 : grains; };
    work->cbd.chunkGrainsLo = fewer(work->cbd.chunkGrainsLo);
    work->cbd.chunkGrainsMid = fewer(work->cbd.chunkGrainsMid);
    work->cbd.chunkGrainsHi = fewer(work->cbd.chunkGrainsHi);
    break;
  }
  case lagomFalseChannels: /* scheduling used one fewer already */
  case lagomHonest: break;
  }
}

/* ---- the API ---- */

NCCL_API(ncclResult_t, ncclCommGetKnobRules, ncclComm_t comm, ncclKnobRule* rules, int capacity, int* nRules);
ncclResult_t ncclCommGetKnobRules(ncclComm_t comm, ncclKnobRule* rules, int capacity, int* nRules) {
  NCCLCHECK(CommCheck(comm, "ncclCommGetKnobRules", "comm"));
  NCCLCHECK(ncclCommEnsureReady(comm));
  if (capacity < 0 || (capacity > 0 && rules == nullptr) || nRules == nullptr) {
    WARN("ncclCommGetKnobRules: room for %d rules at %p, number at %p; allowed: 0 or more, not NULL", capacity, rules,
         nRules);
    return ncclInvalidArgument;
  }
  std::lock_guard<std::mutex> lock(comm->lagom->mutex);
  *nRules = (int)comm->lagom->rules.size();
  for (int i = 0; i < capacity && i < *nRules; i++) rules[i] = comm->lagom->rules[i];
  return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclGetKnobsInfo, ncclKnobsInfo* info);
ncclResult_t ncclGetKnobsInfo(ncclKnobsInfo* info) {
  if (info == nullptr || info->size != sizeof(ncclKnobsInfo) || info->version != NCCL_KNOBS_INFO_VERSION) {
    WARN("ncclGetKnobsInfo: info must be there, with size %zu and version %d", sizeof(ncclKnobsInfo),
         NCCL_KNOBS_INFO_VERSION);
    return ncclInvalidArgument;
  }
  NCCLCHECK(ncclGetVersion(&info->ncclVersion));
  snprintf(info->build, sizeof(info->build), "%s", lagomBuildDigest());
  return ncclSuccess;
}
