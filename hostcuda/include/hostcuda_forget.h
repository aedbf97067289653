/* SPDX-License-Identifier: Apache-2.0 */
/* Included by the rewriter into NCCL's init.cc: a communicator that ends takes the count of its launches with it. A
 * header of its own, because device code has no use for it. */
#ifndef HOSTCUDA_FORGET_H
#define HOSTCUDA_FORGET_H

#include <cuda_runtime_api.h>

#include <stdint.h>

/* `device` launches no more grids that are announced with this `group_key` (hostcuda.h): their count is forgotten.
 * Weak: the library must also load beside another CUDA runtime. */
extern "C" cudaError_t hostcudaForgetGroup(int device, uint64_t group_key) __attribute__((weak));

static inline void hostcudaCommunicatorEnds(int device, uint64_t group_key) {
  if (hostcudaForgetGroup != nullptr) hostcudaForgetGroup(device, group_key);
}

#endif
