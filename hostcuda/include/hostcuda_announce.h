/* SPDX-License-Identifier: Apache-2.0 */
/* Included by the rewriter into NCCL's enqueue.cc: what NCCL tells the clock about the grid that it launches next. */
#ifndef HOSTCUDA_ANNOUNCE_H
#define HOSTCUDA_ANNOUNCE_H

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "hostcuda.h"

/* Weak: the library must also load beside another CUDA runtime. */
extern "C" cudaError_t hostcudaAnnounceLaunch(const hostcudaLaunchInfo_t* info) __attribute__((weak));

namespace {

/* FIFO bytes of one collective that are on their way at a time: a chunk a channel, flags included, and never more than
 * the channel's part of the message. */
uint64_t hostcudaCollBytesInFlight(const ncclTaskColl* task, const ncclDevWorkColl* work) {
  if (task->isCollnet || task->isNvls) return 0;
  const uint64_t grain = ncclProtoGrainSize(task->protocol);
  const uint64_t element = ncclTypeSize(task->datatype);
  uint64_t sum = 0;
  for (uint32_t channel = work->channelLo; channel <= work->channelHi; channel++) {
    const bool low = channel == work->channelLo, high = channel == work->channelHi;
    const uint64_t count = low ? work->cbd.countLo : high ? work->cbd.countHi : work->cbd.countMid;
    const uint64_t grains = low    ? work->cbd.chunkGrainsLo
                            : high ? work->cbd.chunkGrainsHi
                                   : work->cbd.chunkGrainsMid;
    uint64_t bytes = std::min(grains * grain, count * element);
    if (task->protocol == NCCL_PROTO_LL) bytes *= 2;
    if (task->protocol == NCCL_PROTO_LL128) bytes = bytes / NCCL_LL128_DATAELEMS * NCCL_LL128_LINEELEMS;
    sum += bytes;
  }
  return sum;
}

void hostcudaAnnounce(ncclComm* comm, ncclKernelPlan* plan, int channels) {
  if (hostcudaAnnounceLaunch == nullptr) return;
  uint64_t in_flight = 0;
  char name[96] = "ncclKernel";
  if (plan->isSymColl) {
    name[0] = 0; /* the kernel's own says it all: collective, algorithm, operation and type */
  } else {
    const ncclTaskColl* task = ncclIntruQueueHead(&plan->collTaskQueue);
    const int collectives = plan->collOpCount;
    if (task != nullptr)
      snprintf(name, sizeof name, collectives > 1 ? "%s %s %s +%d" : "%s %s %s", ncclFuncToString(task->func),
               ncclAlgoToString(task->algorithm), ncclProtoToString(task->protocol), collectives - 1);
    else if (!ncclIntruQueueEmpty(&plan->p2pTaskQueue))
      snprintf(name, sizeof name, "SendRecv");
    else if (!ncclIntruQueueEmpty(&plan->bcastTaskQueue))
      snprintf(name, sizeof name, "AllGatherV");
    /* Works of one grid run one after the other on a channel: the largest counts, not the sum. */
    for (ncclWorkList* node = ncclIntruQueueHead(&plan->workQueue); node != nullptr; node = node->next) {
      if (node->workType == ncclDevWorkTypeP2p) {
        in_flight = std::max<uint64_t>(in_flight, uint64_t(channels) * uint64_t(comm->p2pChunkSize));
      } else if (node->workType == ncclDevWorkTypeColl || node->workType == ncclDevWorkTypeCollReg) {
        if (task == nullptr) break;
        /* Both kinds of work begin with ncclDevWorkColl. */
        in_flight =
            std::max(in_flight, hostcudaCollBytesInFlight(task, reinterpret_cast<const ncclDevWorkColl*>(node + 1)));
        task = task->next;
      }
    }
  }
  hostcudaLaunchInfo_t info = {};
  info.size = sizeof info;
  info.version = HOSTCUDA_LAUNCH_INFO_VERSION;
  info.group_key = comm->commHash;
  info.ctas = uint32_t(channels);
  info.bytes_in_flight = in_flight;
  info.name = name;
  hostcudaAnnounceLaunch(&info);
}

}  // namespace

#endif
