// SPDX-License-Identifier: Apache-2.0
// Force-included first in every device unit: makes CUDA device code compile with g++ for the simulator.
// HOSTCUDA_ARCH is the compute capability that the code believes in, as in __CUDA_ARCH__ (800, 900 or 1000).
#pragma once

#ifndef HOSTCUDA_ARCH
#error "say -DHOSTCUDA_ARCH=800, 900 or 1000"
#endif

// CUDA's headers come first and see an ordinary host compiler, so that they bring their host versions of half,
// bfloat16 and fp8 arithmetic.
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <cuda/atomic>

#include "shim/intrinsics.h"
#include "shim/nccl.h"
#include "shim/ptx.h"
#include "shim/register.h"
#include "shim/warp.h"

#define __CUDA_ARCH__ HOSTCUDA_ARCH

#define threadIdx (hostcuda_device_thread->thread_index)
#define blockIdx (hostcuda_device_thread->view->block_index)
#define blockDim (hostcuda_device_thread->view->block_dim)
#define gridDim (hostcuda_device_thread->view->grid_dim)

// Shared variables belong to a CTA; plain globals would be shared by all of them. The rewriter knows the ones that
// NCCL has, any other one stops here.
#undef __shared__
#define __shared__ hostcuda_needs_a_rewriter_anchor_for_this_shared_variable
#undef __grid_constant__
#define __grid_constant__
#undef __launch_bounds__
#define __launch_bounds__(...)
