/* SPDX-License-Identifier: Apache-2.0 */
/* Device side of the counters. Included by device/common.h once ncclShmem and globaltimer() are known. */
#ifndef LAGOM_RECORD_H_
#define LAGOM_RECORD_H_

__device__ __forceinline__ uint32_t lagomSmId() {
  uint32_t id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  return id;
}

__device__ __forceinline__ bool lagomCounts() { return ncclShmem.args.lagomLaunch != 0; }

/* Times what the CTA's first thread spends waiting for peers, and notes the largest element count that a primitive was
 * given. start() and stop() enclose a wait loop together with the barrier that spreads its outcome. The clock is read
 * before the first poll, not after it failed: on a modelled clock a poll that succeeds may still have waited. Between
 * start() and stop() waitNs is the sum less the time of day; a time kept in a register would be spilled by loops that
 * are short of them. */
struct lagomWaitWatch {
  __device__ __forceinline__ void start(int nelem = 0) {
    if (threadIdx.x == 0 && lagomCounts()) {
      if (nelem > (int)ncclShmem.lagom.maxCount) ncclShmem.lagom.maxCount = nelem;
      ncclShmem.lagom.waitNs -= globaltimer();
    }
  }
  __device__ __forceinline__ void stop() {
    if (threadIdx.x == 0 && lagomCounts()) ncclShmem.lagom.waitNs += globaltimer();
  }
};

/* All threads of the block, before any of them enters the collective. */
__device__ __forceinline__ void lagomWorkStart() {
  if (!lagomCounts()) return;
  if (threadIdx.x == 0) {
    ncclShmem.lagom.waitNs = 0;
    ncclShmem.lagom.threads = 0;
    ncclShmem.lagom.maxCount = 0;
    ncclShmem.lagom.startNs = globaltimer();
  }
  __syncthreads();
}

/* Every thread that enters the collective. */
__device__ __forceinline__ void lagomThreadEnters() {
  if (lagomCounts()) atomicAdd(&ncclShmem.lagom.threads, 1u);
}

/* All threads of the block, after collective `w` of the batch. What the device decoded its part from is looked up again:
 * kept from before, its address would hold registers throughout the collective. */
template<ncclFunc_t Fn, int Algo, int Proto>
__device__ __forceinline__ void lagomWorkStop(int w, int elementBytes) {
  if (!lagomCounts()) return;
  __syncthreads();
  if (threadIdx.x == 0) {
    uint64_t stopNs = globaltimer();
    struct ncclDevWorkColl* work = (struct ncclDevWorkColl*)(ncclShmem.workStorage + w*ncclShmem.workSize);
    struct lagomCounterRings* rings = ncclShmem.comm.lagomRings;
    int channel = ncclShmem.channelId;
    uint64_t n = rings->next[channel];
    volatile struct lagomEntry* e = rings->entries + (size_t)channel*rings->depth + n%rings->depth;
    e->sequence = 0;
    __threadfence_system();
    /* Part of a collective is no record of it: what was aborted belongs to no launch, and the host counts it as lost. */
    e->launch = ncclShmem.aborted ? 0 : ncclShmem.args.lagomLaunch;
    e->ordinal = ncclShmem.lagom.ordinal;
    e->smId = lagomSmId();
    e->threads = ncclShmem.lagom.threads;
    e->algorithm = Algo;
    e->protocol = Proto;
    e->collective = Fn;
    e->elementBytes = elementBytes;
    size_t partCount = 0;
    uint32_t grains = 0;
    if (Algo == NCCL_ALGO_RING || Algo == NCCL_ALGO_TREE || Algo == NCCL_ALGO_PAT) {
      bool lo = channel == (int)work->channelLo, hi = channel == (int)work->channelHi;
      partCount = lo ? work->cbd.countLo : hi ? work->cbd.countHi : work->cbd.countMid;
      if (partCount != 0) grains = lo ? work->cbd.chunkGrainsLo : hi ? work->cbd.chunkGrainsHi : work->cbd.chunkGrainsMid;
    }
    e->partBytes = partCount*elementBytes;
    e->chunkBytes = grains*ncclProtoGrainSize(Proto);
    e->maxCount = ncclShmem.lagom.maxCount;
    e->startNs = ncclShmem.lagom.startNs;
    e->stopNs = stopNs;
    e->waitNs = ncclShmem.lagom.waitNs;
    e->sequenceEnd = n + 1;
    __threadfence_system();
    e->sequence = n + 1;
    rings->next[channel] = n + 1;
    ncclShmem.lagom.ordinal += 1;
  }
}

#endif
