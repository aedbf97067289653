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
 * before the first poll, not after it failed: on a modelled clock a poll that succeeds may still have waited.
 *
 * These loops have no register to spare on a GPU, and any that is taken here shows as spills even where nothing is
 * counted. Hence a sum modulo 2^32, from which the time of day is subtracted first and added to later, by instructions
 * that work on shared memory without a register for the result. */
struct lagomWaitWatch {
  __device__ __forceinline__ void start(int nelem = 0) {
    if (threadIdx.x == 0 && lagomCounts()) {
      if (nelem != 0) atomicMax((int*)&ncclShmem.lagom.maxCount, nelem);
      atomicSub(&ncclShmem.lagom.waitNs, (uint32_t)globaltimer());
    }
  }
  __device__ __forceinline__ void stop() {
    if (threadIdx.x == 0 && lagomCounts()) atomicAdd(&ncclShmem.lagom.waitNs, (uint32_t)globaltimer());
  }
};

__device__ __forceinline__ volatile struct lagomOutcome* lagomOutcomeOf(struct ncclDevWorkColl* work) {
  static_assert(offsetof(struct ncclDevWorkColl, sendbuffRmtAddrs) - offsetof(struct ncclDevWorkColl, recvbuff) >=
                    sizeof(struct lagomOutcome) && offsetof(struct ncclDevWorkColl, recvbuff)%8 == 0,
                "the outcome fits where the buffers' addresses were");
  return (volatile struct lagomOutcome*)&work->recvbuff;
}

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

/* All threads of the block, after collective `w` of the batch. Little is done here, since what is done in the collective's
 * own function costs it registers; lagomBatchStop() does the rest. */
template<ncclFunc_t Fn, int Algo, int Proto>
__device__ __forceinline__ void lagomWorkStop(int w, int elementBytes) {
  if (!lagomCounts()) return;
  __syncthreads();
  if (threadIdx.x == 0) {
    struct ncclDevWorkColl* work = (struct ncclDevWorkColl*)(ncclShmem.workStorage + w*ncclShmem.workSize);
    volatile struct lagomOutcome* o = lagomOutcomeOf(work);
    o->stopNs = globaltimer();
    o->startNs = ncclShmem.lagom.startNs;
    o->waitNs = ncclShmem.lagom.waitNs;
    o->threads = ncclShmem.lagom.threads;
    o->maxCount = ncclShmem.lagom.maxCount;
    o->algorithm = Algo;
    o->protocol = Proto;
    o->collective = Fn;
    o->elementBytes = elementBytes;
  }
}

/* The whole wait of a collective that took `totalNs`, from its last 32 bits: the longest one that fits. Below 4.29 s there
 * is one only; a longer collective has waited for a rank that came late. */
__device__ __forceinline__ uint64_t lagomWholeWait(uint32_t waitNs, uint64_t totalNs) {
  return totalNs < waitNs ? waitNs : waitNs + ((totalNs - waitNs) & ~(uint64_t)0xffffffff);
}

/* By the thread that wrote the outcomes: an entry for each collective of the batch that has just run. */
__device__ __forceinline__ void lagomBatchStop() {
  if (threadIdx.x != 0 || !lagomCounts()) return;
  if (ncclShmem.workType != ncclDevWorkTypeColl && ncclShmem.workType != ncclDevWorkTypeCollReg) return;
  struct lagomCounterRings* rings = ncclShmem.comm.lagomRings;
  int channel = ncclShmem.channelId;
  for (int w = 0; w < ncclShmem.nWorks; w++) {
    struct ncclDevWorkColl* work = (struct ncclDevWorkColl*)(ncclShmem.workStorage + w*ncclShmem.workSize);
    volatile struct lagomOutcome* o = lagomOutcomeOf(work);
    uint64_t n = rings->next[channel];
    volatile struct lagomEntry* e = rings->entries + (size_t)channel*rings->depth + n%rings->depth;
    e->sequence = 0;
    __threadfence_system();
    /* Part of a collective is no record of it: what was aborted belongs to no launch, and the host counts it as lost. */
    e->launch = ncclShmem.aborted ? 0 : ncclShmem.args.lagomLaunch;
    e->ordinal = ncclShmem.lagom.ordinal;
    e->smId = lagomSmId();
    e->threads = o->threads;
    int algorithm = o->algorithm;
    e->algorithm = algorithm;
    e->protocol = o->protocol;
    e->collective = o->collective;
    e->elementBytes = o->elementBytes;
    size_t partCount = 0;
    uint32_t grains = 0;
    if (algorithm == NCCL_ALGO_RING || algorithm == NCCL_ALGO_TREE || algorithm == NCCL_ALGO_PAT) {
      bool lo = channel == (int)work->channelLo, hi = channel == (int)work->channelHi;
      partCount = lo ? work->cbd.countLo : hi ? work->cbd.countHi : work->cbd.countMid;
      if (partCount != 0) grains = lo ? work->cbd.chunkGrainsLo : hi ? work->cbd.chunkGrainsHi : work->cbd.chunkGrainsMid;
    }
    e->partBytes = partCount*o->elementBytes;
    e->chunkBytes = grains*ncclProtoGrainSize(o->protocol);
    e->maxCount = o->maxCount;
    uint64_t startNs = o->startNs, stopNs = o->stopNs;
    e->startNs = startNs;
    e->stopNs = stopNs;
    e->waitNs = lagomWholeWait(o->waitNs, stopNs - startNs);
    e->sequenceEnd = n + 1;
    __threadfence_system();
    e->sequence = n + 1;
    rings->next[channel] = n + 1;
    ncclShmem.lagom.ordinal += 1;
  }
}

#endif
