/* SPDX-License-Identifier: Apache-2.0 */
/* Work descriptors and batches, as the device will read them. */
#include "nccl_dump_line.h"

#include "enqueue.h"
#include "sym_kernels.h"

#include <cstring>

namespace ncclDump {
namespace {

/* What an operation that has no argument would find there is whatever was on NCCL's stack, and so are the bytes beyond
 * the type of a caller's scalar: neither is ever looked at. */
void addRedOpArg(Line& line, struct ncclDevWorkColl const& w, struct ncclTaskColl const* task) {
  if (task->opDev.op == ncclDevSum || task->opDev.op == ncclDevProd) return;
  int bits = 8*ncclTypeSize(task->datatype);
  bool scalar = task->opDev.op == ncclDevPreMulSum;
  if (w.redOpArgIsPtr) line.pointer("redOpArg", (void*)w.redOpArg);
  else line.field("redOpArg", scalar ? w.redOpArg & (uint64_t(-1) >> (64-bits)) : w.redOpArg);
}

void addColl(Line& line, struct ncclDevWorkColl const& w, struct ncclTaskColl const* task) {
  line.field("channelLo", w.channelLo);
  line.field("channelHi", w.channelHi);
  line.field("nWarps", w.nWarps);
  line.field("redOpArgIsPtr", w.redOpArgIsPtr);
  line.field("regUsed", w.regUsed);
  line.field("netRegUsed", w.netRegUsed);
  line.field("oneNode", w.oneNode);
  line.field("direct", w.direct);
  line.field("isOneRPN", w.isOneRPN);
  line.field("profilerEnabled", w.profilerEnabled);
  line.field("root", w.root);
  line.pointer("recvbuff", w.recvbuff);
  line.pointer("sendbuff", w.sendbuff);
  line.field("sendbuffOffset", w.sendbuffOffset);
  line.field("recvbuffOffset", w.recvbuffOffset);
  line.pointer("sendbuffRmtAddrs", w.sendbuffRmtAddrs);
  line.pointer("recvbuffRmtAddrs", w.recvbuffRmtAddrs);
  if (task->isCollnet) {
    line.field("count", w.collnet.count);
    line.field("chunkCount", w.collnet.chunkCount);
  } else {
    line.field("countLo", w.cbd.countLo);
    line.field("countMid", w.cbd.countMid);
    line.field("countHi", w.cbd.countHi);
    line.field("chunkGrainsLo", w.cbd.chunkGrainsLo);
    line.field("chunkGrainsMid", w.cbd.chunkGrainsMid);
    line.field("chunkGrainsHi", w.cbd.chunkGrainsHi);
  }
  addRedOpArg(line, w, task);
}

void addCollReg(Line& line, struct ncclDevWorkCollReg const& w, struct ncclTaskColl const* task) {
  addColl(line, w.coll, task);
  line.pointers("dnInputs", w.dnInputs, NCCL_MAX_DIRECT_ARITY+1);
  line.pointers("dnOutputs", w.dnOutputs, NCCL_MAX_DIRECT_ARITY+1);
  line.pointers("upOutputs", w.upOutputs, NCCL_MAX_DIRECT_ARITY+1);
}

void addP2p(Line& line, struct ncclDevWorkP2p const& w) {
  line.pointer("sendAddr", w.sendAddr);
  line.pointer("recvAddr", w.recvAddr);
  line.field("sendBytes", w.sendBytes);
  line.field("recvBytes", w.recvBytes);
  line.field("sendRank", w.sendRank);
  line.field("recvRank", w.recvRank);
  line.field("nP2pChannels", w.nP2pChannels);
  line.field("channelBase", w.channelBase);
  line.field("nSendChannels", w.nSendChannels);
  line.field("nRecvChannels", w.nRecvChannels);
  line.field("sendChunkSize_u32fp8", w.sendChunkSize_u32fp8);
  line.field("recvChunkSize_u32fp8", w.recvChunkSize_u32fp8);
  line.field("sendProtoLL", w.sendProtoLL);
  line.field("recvProtoLL", w.recvProtoLL);
  line.field("sendNetReg", w.sendNetReg);
  line.field("recvNetReg", w.recvNetReg);
  line.field("sendIpcReg", w.sendIpcReg);
  line.field("recvIpcReg", w.recvIpcReg);
  line.field("profilerEnabled", w.profilerEnabled);
}

void addBcast(Line& line, struct ncclDevWorkBcast const& w) {
  line.field("ringDepth", w.ringDepth);
  line.field("chunkSize", w.chunkSize);
  line.pointer("sendbuff", w.sendbuff);
  line.pointer("recvbuff", w.recvbuff);
  line.field("bytes", w.bytes);
  line.field("bytes_done", w.bytes_done);
}

/* Whether the bytes that the device will read are those of the list that is written here. */
bool uploaded(struct ncclComm* comm, struct ncclKernelPlan* plan, struct ncclWorkList* node, uint32_t offset) {
  if (plan->workStorageType == ncclDevWorkStorageTypePersistent) return true; /* copied by the graph's own memcpy */
  bool args = plan->workStorageType == ncclDevWorkStorageTypeArgs;
  const char* base = args ? (const char*)plan->kernelArgs : (const char*)comm->workFifoBuf;
  for (int at = 0; at < node->size; at += 16) {
    if (memcmp(base + ((offset + at) & plan->kernelArgs->workMask), (const char*)(node+1) + at, 16) != 0) return false;
  }
  return true;
}

void addWorks(Line& line, struct ncclComm* comm, struct ncclKernelPlan* plan) {
  struct ncclDevWorkBatch* batches = (struct ncclDevWorkBatch*)(plan->kernelArgs+1);
  line.openList("batches");
  for (int b = 0; b < plan->nWorkBatches; b++) {
    line.openItem();
    line.field("nextJump", batches[b].nextJump);
    line.field("nextExtends", batches[b].nextExtends);
    line.field("workType", batches[b].workType);
    line.field("funcId", batches[b].funcId);
    line.field("offsetBase", batches[b].offsetBase);
    line.field("offsetBitset", batches[b].offsetBitset);
    line.closeItem();
  }
  line.closeList();

  uint32_t offset = sizeof(struct ncclDevKernelArgs) + plan->nWorkBatches*sizeof(struct ncclDevWorkBatch);
  if (plan->workStorageType == ncclDevWorkStorageTypeFifo) offset = comm->workFifoProduced - (uint32_t)plan->workBytes;
  struct ncclTaskColl* task = ncclIntruQueueHead(&plan->collTaskQueue);
  line.openList("works");
  for (struct ncclWorkList* node = ncclIntruQueueHead(&plan->workQueue); node != nullptr; node = node->next) {
    bool isColl = node->workType == ncclDevWorkTypeColl || node->workType == ncclDevWorkTypeCollReg;
    line.openItem();
    line.field("workType", (int)node->workType);
    line.field("uploaded", (int)uploaded(comm, plan, node, offset));
    switch (node->workType) {
    case ncclDevWorkTypeP2p: addP2p(line, *(struct ncclDevWorkP2p*)(node+1)); break;
    case ncclDevWorkTypeColl: addColl(line, *(struct ncclDevWorkColl*)(node+1), task); break;
    case ncclDevWorkTypeCollReg: addCollReg(line, *(struct ncclDevWorkCollReg*)(node+1), task); break;
    case ncclDevWorkTypeBcast: addBcast(line, *(struct ncclDevWorkBcast*)(node+1)); break;
    }
    line.closeItem();
    offset += node->size;
    if (isColl) task = task->next; /* collectives of both lists are in the same order */
  }
  line.closeList();
}

void addOrdinary(Line& line, struct ncclComm* comm, struct ncclKernelPlan* plan) {
  struct ncclDevKernelArgs const& args = *plan->kernelArgs;
  line.field("args.comm", args.comm == comm->devComm ? 1 : 0);
  line.field("args.channelMask", args.channelMask);
  line.field("args.workStorageType", (int)args.workStorageType);
  line.field("args.workMask", args.workMask);
  line.string("args.workBuf", args.workBuf == nullptr ? "none" :
                              args.workBuf == comm->workFifoBufDev ? "fifo" :
                              args.workBuf == plan->workBufPersistent ? "persistent" : "something else");
  /* In a patched tree the launch number of the counters, in stock padding. */
  uint32_t word;
  memcpy(&word, (const char*)&args.channelMask + sizeof(args.channelMask), sizeof(word));
  line.field("args.padding", word >> 8);
  addWorks(line, comm, plan);
}

void addSymmetric(Line& line, struct ncclKernelPlan* plan) {
  struct ncclSymkDevWorkArgs* args = (struct ncclSymkDevWorkArgs*)plan->kernelSymArgs;
  line.field("nMaxChannels", args->nMaxChannels);
  line.field("maxDynamicSmem", args->maxDynamicSmem);
  int nWorks = 0;
  line.openList("ranges");
  for (int c = 0; c < args->nMaxChannels; c++) {
    struct ncclSymkChannelWorkRange const& range = args->getWorkRange()[c];
    if (range.workHi >= nWorks) nWorks = range.workHi + 1;
    line.openItem();
    line.field("workHi", range.workHi);
    line.field("fracHi", range.fracHi);
    line.closeItem();
  }
  line.closeList();
  line.openList("works");
  for (int i = 0; i < nWorks; i++) {
    struct ncclSymkDevWork const& w = args->getWorks(args->nMaxChannels)[i];
    line.openItem();
    line.field("redOpArg", w.redOpArg);
    line.field("nElts", w.nElts);
    line.pointer("inputWin", w.inputWin);
    line.pointer("outputWin", w.outputWin);
    line.field("inputOff", w.inputOff);
    line.field("outputOff", w.outputOff);
    line.field("rootRank", w.rootRank);
    line.field("sChannelId", w.sChannelId);
    line.field("nChannels", w.nChannels);
    line.closeItem();
  }
  line.closeList();
}

}  // namespace

void addArguments(Line& line, struct ncclComm* comm, struct ncclKernelPlan* plan) {
  if (plan->isSymColl) addSymmetric(line, plan);
  else addOrdinary(line, comm, plan);
}

}  // namespace ncclDump
