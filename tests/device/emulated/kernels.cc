// SPDX-License-Identifier: Apache-2.0
// lagom/device/kernels/kernels.cu, as it is, for hostcuda's simulator.
#include "kernels.cu"

HOSTCUDA_REGISTER_KERNEL(lagom_gemm_128, GemmArgs, 0)
HOSTCUDA_REGISTER_KERNEL(lagom_gemm_256, GemmArgs, 0)
HOSTCUDA_REGISTER_KERNEL(lagom_gemm_512, GemmArgs, 0)
HOSTCUDA_REGISTER_KERNEL(lagom_stream, StreamArgs, 0)
