/* SPDX-License-Identifier: Apache-2.0 */
#include "op_record.h"

#include "core.h"

#include <algorithm>
#include <set>

uint64_t lagomExpectedMaxCount(int collective, int algorithm, int nRanks, uint64_t partCount, uint64_t chunkCount,
                               int elementBytes) {
  if (collective == ncclKnobAllReduce && algorithm == ncclKnobRing && partCount < nRanks*chunkCount) {
    /* A ring all-reduce deals a loop out to all ranks; a loop that is not full is dealt in units of 16 bytes. */
    uint64_t unit = 16/elementBytes;
    uint64_t share = (partCount + nRanks - 1)/nRanks;
    return std::min((share + unit - 1)/unit*unit, partCount);
  }
  return std::min(chunkCount, partCount);
}

/* The value all channels share, or unset. */
static void unite(int32_t* value, int32_t seen, bool first) {
  if (first) *value = seen;
  else if (*value != seen) *value = NCCL_KNOB_UNSET;
}

static bool chunkIsExact(lagomEntry const& e, ncclKnobs const& asked, int nRanks) {
  if (e.partBytes == 0) return true;
  if ((int32_t)e.chunkBytes != asked.chunkBytes) return false;
  return e.maxCount == lagomExpectedMaxCount(e.collective, e.algorithm, nRanks, e.partBytes/e.elementBytes,
                                             e.chunkBytes/e.elementBytes, e.elementBytes);
}

void lagomFillRecord(lagomOp const& op, lagomOpPlace const& place, ncclOpRecord* r) {
  static const ncclKnobs unset = NCCL_KNOBS_INITIALIZER;
  lagomTask const& t = op.task;
  *r = ncclOpRecord{};
  r->size = sizeof(*r);
  r->version = NCCL_OP_RECORD_VERSION;
  r->collective = op.collective;
  r->opIndex = op.opIndex;
  r->commHash = place.commHash;
  r->rank = place.rank;
  r->nRanks = place.nRanks;
  r->nNodes = place.nNodes;
  r->datatype = t.datatype;
  bool reduces = op.collective != ncclKnobAllGather && op.collective != ncclKnobBroadcast;
  bool rooted = op.collective == ncclKnobBroadcast || op.collective == ncclKnobReduce;
  r->redOp = reduces ? (int32_t)t.redOp : -1;
  r->root = rooted ? t.root : -1;
  r->count = t.count;
  r->bytes = t.bytes;
  r->asked = t.asked;
  r->used = unset;
  r->rule = t.rule;
  r->planLine = t.planLine;
  r->planId = t.planId;
  r->nChannels = (int32_t)std::min<size_t>(op.entries.size(), NCCL_KNOB_MAX_CHANNELS);
  r->used.nChannels = r->nChannels;

  bool chunkExact = true, chunkSeen = false;
  for (int i = 0; i < r->nChannels; i++) {
    lagomEntry const& e = op.entries[i];
    ncclOpChannel* c = &r->channels[i];
    c->channel = t.channelLo + i;
    c->smId = (int32_t)e.smId;
    c->threads = (int32_t)e.threads;
    c->chunkBytes = (int32_t)e.chunkBytes;
    c->bytes = e.partBytes;
    c->maxElementCount = e.maxCount;
    c->startNs = e.startNs;
    c->stopNs = e.stopNs;
    c->waitNs = e.waitNs;
    c->moveNs = e.stopNs - e.startNs > e.waitNs ? e.stopNs - e.startNs - e.waitNs : 0;
    unite(&r->used.algorithm, e.algorithm, i == 0);
    unite(&r->used.protocol, e.protocol, i == 0);
    unite(&r->used.nThreads, (int32_t)e.threads, i == 0);
    if (e.partBytes != 0) {
      unite(&r->used.chunkBytes, (int32_t)e.chunkBytes, !chunkSeen);
      chunkSeen = true;
    }
    chunkExact &= chunkIsExact(e, t.asked, place.nRanks);
    r->elementBytes = e.elementBytes;
  }
  ncclKnobs const& asked = r->asked;
  auto agrees = [](int32_t want, int32_t have) { return want == NCCL_KNOB_UNSET || want == have; };
  r->exact = agrees(asked.algorithm, r->used.algorithm) && agrees(asked.protocol, r->used.protocol) &&
             agrees(asked.nChannels, r->used.nChannels) && agrees(asked.nThreads, r->used.nThreads) &&
             (asked.chunkBytes == NCCL_KNOB_UNSET || chunkExact);
}

const char* lagomCsvHeader() {
  return "op_index,comm,rank,n_ranks,n_nodes,collective,datatype,red_op,root,count,bytes,plan_id,rule,plan_line,"
         "asked_algorithm,asked_protocol,asked_channels,asked_threads,asked_chunk_bytes,"
         "used_algorithm,used_protocol,used_channels,used_threads,used_chunk_bytes,exact,"
         "start_ns,stop_ns,sm_ns,distinct_sms,wait_ns,move_ns,"
         "channel_sm,channel_bytes,channel_start_ns,channel_stop_ns,channel_wait_ns\n";
}

static std::string knobsText(ncclKnobs const& k) {
  const char* a = ncclPlanAlgorithmName(k.algorithm);
  const char* p = ncclPlanProtocolName(k.protocol);
  return std::string(a ? a : "-1") + "," + (p ? p : "-1") + "," + std::to_string(k.nChannels) + "," +
         std::to_string(k.nThreads) + "," + std::to_string(k.chunkBytes);
}

std::string lagomCsvRow(ncclOpRecord const& r) {
  char ids[40];
  std::set<int> sms;
  uint64_t startNs = UINT64_MAX, stopNs = 0, smNs = 0, waitNs = 0, moveNs = 0;
  std::string lists[5];
  for (int i = 0; i < r.nChannels; i++) {
    ncclOpChannel const& c = r.channels[i];
    sms.insert(c.smId);
    startNs = std::min(startNs, c.startNs);
    stopNs = std::max(stopNs, c.stopNs);
    smNs += c.stopNs - c.startNs;
    waitNs += c.waitNs;
    moveNs += c.moveNs;
    uint64_t values[5] = {(uint64_t)c.smId, c.bytes, c.startNs, c.stopNs, c.waitNs};
    for (int l = 0; l < 5; l++) lists[l] += (i == 0 ? "" : ";") + std::to_string(values[l]);
  }
  if (r.nChannels == 0) startNs = 0;
  const char* collective = ncclPlanCollectiveName(r.collective);
  std::string row = std::to_string(r.opIndex);
  auto add = [&row](std::string const& text) { row += "," + text; };
  snprintf(ids, sizeof(ids), "%016llx", (unsigned long long)r.commHash);
  add(ids);
  for (int64_t v : {(int64_t)r.rank, (int64_t)r.nRanks, (int64_t)r.nNodes}) add(std::to_string(v));
  add(collective ? collective : "?");
  for (int64_t v : {(int64_t)r.datatype, (int64_t)r.redOp, (int64_t)r.root}) add(std::to_string(v));
  add(std::to_string(r.count));
  add(std::to_string(r.bytes));
  snprintf(ids, sizeof(ids), "%016llx", (unsigned long long)r.planId);
  add(ids);
  add(std::to_string(r.rule));
  add(std::to_string(r.planLine));
  add(knobsText(r.asked));
  add(knobsText(r.used));
  add(std::to_string(r.exact));
  for (uint64_t v : {startNs, stopNs, smNs, (uint64_t)sms.size(), waitNs, moveNs}) add(std::to_string(v));
  for (std::string const& list : lists) add(list);
  return row + "\n";
}
