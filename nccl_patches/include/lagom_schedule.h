/* SPDX-License-Identifier: Apache-2.0 */
/* Puts a collective with a chosen number of channels into a plan. Part of enqueue.cc, whose helpers it uses. */
#ifndef LAGOM_SCHEDULE_H_
#define LAGOM_SCHEDULE_H_

/* Channels 0 to n-1, whatever else is in the plan. Sets *full, and nothing else, where the plan has no room left. */
static ncclResult_t lagomScheduleExact(
    struct ncclComm* comm, struct ncclKernelPlan* plan, struct ncclKernelPlanBudget* budget,
    struct ncclTaskColl* task, struct ncclWorkList* workNode, bool* full
  ) {
  struct ncclDevWorkColl* work = (struct ncclDevWorkColl*)(workNode+1);
  int nChannels = lagomScheduledChannels(task);
  *full = !ncclTestBudget(budget, plan->nWorkBatches + nChannels, plan->workBytes + workNode->size);
  if (*full) return ncclSuccess;

  size_t elementSize = ncclTypeSize(task->datatype);
  size_t countEach, countLast;
  lagomParts(task->count, elementSize, nChannels, &countEach, &countLast);
  bool alone = nChannels == 1;
  task->nChannels = (uint8_t)nChannels;
  work->channelLo = 0;
  work->channelHi = nChannels-1;
  /* The device takes a lone channel for the first one. */
  work->cbd.countLo = alone ? countLast : countEach;
  work->cbd.countMid = nChannels > 2 ? countEach : 0;
  work->cbd.countHi = alone ? 0 : countLast;

  /* Also for parts without data: the chunk is what was asked, and the proxy operation is whole for the profiler. */
  size_t globalBytesPerElement = elementSize*ncclFuncMaxSendRecvCount(task->func, comm->nRanks, 1);
  size_t grainSize = ncclProtoGrainSize(task->protocol);
  struct ncclProxyOp proxyOps[3];
  uint32_t chunkSize[3], directFlags = 0;
  size_t counts[3] = {work->cbd.countLo, work->cbd.countMid, work->cbd.countHi};
  for (int part=0; part < 3; part++) {
    NCCLCHECK(calcCollChunking(comm, task, /*nChannels=*/1, globalBytesPerElement*counts[part], &chunkSize[part], &directFlags, &proxyOps[part]));
  }
  work->cbd.chunkGrainsLo = chunkSize[0]/grainSize;
  work->cbd.chunkGrainsMid = chunkSize[1]/grainSize;
  work->cbd.chunkGrainsHi = chunkSize[2]/grainSize;
  work->direct = directFlags;

  uint64_t proxyOpId = uint64_t(plan->collOpCount++)<<1 | 0;
  for (int c=0; c < nChannels; c++) {
    int part = c == 0 ? 0 : c == nChannels-1 ? 2 : 1;
    struct ncclProxyOp* op = &proxyOps[part];
    op->loopOffset = c*countEach*elementSize;
    op->channelSize = counts[part]*elementSize;
    op->channelId = c;
    op->opCount = proxyOpId;
    op->task.coll = task;
    op->rank = comm->rank;
    op->ringAlgo = NULL; /* only registered buffers have one, and tuned collectives do not use them */
    op->eActivationMask = task->eActivationMask;
    op->incWorkCounter = true;
    op->nChannels = nChannels;
    ncclAddWorkBatchToPlan(comm, plan, c, workNode->workType, task->devFuncId, plan->workBytes);
    /* A proxy operation without steps would never end. */
    if (counts[part] != 0) NCCLCHECK(ncclAddProxyOpIfNeeded(comm, plan, op));
    NCCLCHECK(addProfilerProxyOpIfNeeded(comm, plan, op));
  }
  return ncclSuccess;
}

#endif
