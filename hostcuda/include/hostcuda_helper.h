/* SPDX-License-Identifier: Apache-2.0 */
/* Included by the rewriter into NCCL's proxy.cc: its threads say that they work behind the program's back. */
#ifndef HOSTCUDA_HELPER_H
#define HOSTCUDA_HELPER_H

#include "hostcuda.h"

/* Weak: the library must also load beside another CUDA runtime. */
extern "C" cudaError_t hostcudaHelperThread(void) __attribute__((weak));

static inline void hostcudaThisThreadHelps(void) {
  if (hostcudaHelperThread != nullptr) hostcudaHelperThread();
}

#endif
