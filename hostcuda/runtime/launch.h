// SPDX-License-Identifier: Apache-2.0
// Kernels that hostcuda knows, and their launch; behind both the runtime's and the driver's calls.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "hostcuda.h"
#include "simt/grid.h"

namespace hostcuda::rt {

struct Kernel {
  const void* symbol = nullptr;
  std::string name;
  void (*entry)(const void* args) = nullptr;  // null: known by name only, left out of this build or for a GPU only
  bool gpu_code = false;
  std::size_t args_bytes = 0;
  unsigned max_threads = 0, registers = 0;
  unsigned arch = 0;  // compute capability x 100 that it was compiled for; 0: any
  std::size_t static_shared_bytes = 0;
};

// The kernel of an address that programs launch, or nullptr.
const Kernel* find_kernel(const void* symbol);
// A kernel that nvcc compiled: known by name, so that its launch can be refused.
void register_gpu_code(const void* symbol, std::string name);
// Whether this machine's GPUs run what `kernel` was compiled for; where they do not, says so once.
bool runs_here(const Kernel& kernel);
// What to call an address in a message, known or not.
std::string kernel_name(const void* symbol);

struct LaunchRequest {
  const void* symbol = nullptr;
  simt::Dim3 grid, block;
  std::size_t dynamic_shared_bytes = 0;
  cudaStream_t stream = nullptr;
  const void* args = nullptr;  // packed parameters
  std::size_t args_bytes = 0;
  void** params = nullptr;     // or one pointer a parameter: used where args is null
  cudaEvent_t started = nullptr;  // recorded once the grid has started
};

// Reads packed parameters from `extra`, the driver's list of markers and values; false where it is none.
bool read_extra(void** extra, LaunchRequest* request);

struct KernelTask;
// The launch's task, with a copy of its parameters; checks that the kernel is there and the launch possible.
cudaError_t kernel_task(const LaunchRequest& request, KernelTask* task);

cudaError_t launch(const LaunchRequest& request);

}  // namespace hostcuda::rt
