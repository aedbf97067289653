/* SPDX-License-Identifier: Apache-2.0 */
/* Included by the rewriter into NCCL's host code: threads that work behind the program's back say so, and times that device
 * code stores for the profiler are known once the clock has placed its kernel. */
#ifndef HOSTCUDA_HELPER_H
#define HOSTCUDA_HELPER_H

#include "hostcuda.h"

/* Weak: the library must also load beside another CUDA runtime. */
extern "C" cudaError_t hostcudaHelperThread(void) __attribute__((weak));

extern "C" cudaError_t hostcudaClockRegister(void* base, size_t bytes) __attribute__((weak));

static inline void hostcudaThisThreadHelps(void) {
  if (hostcudaHelperThread != nullptr) hostcudaHelperThread();
}

/* `count` structures of words in which kernels store device times. They leave the clock's books when they are freed. */
template <typename T>
static inline void hostcudaHoldsDeviceTimes(T* structures, size_t count) {
  if (hostcudaClockRegister != nullptr) hostcudaClockRegister(structures, count * sizeof(T));
}

/* False while a stored time still counts from its kernel's start: until the host has synchronized with it. */
static inline bool hostcudaTimeIsKnown(uint64_t device_time) { return device_time >> 63 == 0; }

#endif
