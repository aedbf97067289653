// SPDX-License-Identifier: Apache-2.0
// cudaIpcMemHandle: an allocation of one process shown in another.
#pragma once

#include <cuda_runtime_api.h>

namespace hostcuda::rt {

cudaError_t export_ipc(const void* address, cudaIpcMemHandle_t* handle);
cudaError_t import_ipc(const cudaIpcMemHandle_t& handle, void** address);
cudaError_t close_ipc(void* address);

}  // namespace hostcuda::rt
