// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's calls about kernels.
#include "runtime/attributes.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/launch.h"

using namespace hostcuda::rt;

HC_EXPORT cudaError_t cudaLaunchKernel(const void* symbol, dim3 grid, dim3 block, void** params, size_t shared_bytes,
                                       cudaStream_t stream) {
  LaunchRequest request;
  request.symbol = symbol;
  request.grid = {grid.x, grid.y, grid.z};
  request.block = {block.x, block.y, block.z};
  request.dynamic_shared_bytes = shared_bytes;
  request.stream = stream;
  request.params = params;
  return launch(request);
}

HC_EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* symbol, void** params) {
  if (config == nullptr) return report(cudaErrorInvalidValue);
  LaunchRequest request;
  request.symbol = symbol;
  request.grid = {config->gridDim.x, config->gridDim.y, config->gridDim.z};
  request.block = {config->blockDim.x, config->blockDim.y, config->blockDim.z};
  request.dynamic_shared_bytes = config->dynamicSmemBytes;
  request.stream = config->stream;
  request.params = params;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id == cudaLaunchAttributeLaunchCompletionEvent) {
      request.started = config->attrs[i].val.launchCompletionEvent.event;
    }
  }
  return launch(request);
}

HC_EXPORT cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
  if (function == nullptr) return report(cudaErrorInvalidValue);
  if (find_kernel(symbol) == nullptr) {
    complain("kernel %s is not known: it was not compiled for hostcuda", kernel_name(symbol).c_str());
    return report(cudaErrorInvalidDeviceFunction);
  }
  *function = reinterpret_cast<cudaFunction_t>(const_cast<void*>(symbol));
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* symbol) {
  HC_DEVICE(here);
  (void)here;
  if (attributes == nullptr) return report(cudaErrorInvalidValue);
  const Kernel* kernel = find_kernel(symbol);
  if (kernel == nullptr || kernel->entry == nullptr) return report(cudaErrorInvalidDeviceFunction);
  if (!runs_here(*kernel)) return report(cudaErrorNoKernelImageForDevice);
  const GpuInfo& gpu = machine()->gpu;
  *attributes = {};
  attributes->sharedSizeBytes = kernel->static_shared_bytes;
  attributes->maxThreadsPerBlock = kernel->max_threads != 0 ? static_cast<int>(kernel->max_threads) : 1024;
  attributes->numRegs = static_cast<int>(kernel->registers);
  attributes->ptxVersion = attributes->binaryVersion = gpu.major * 10 + gpu.minor;
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(gpu.shared_bytes_per_cta - kernel->static_shared_bytes);
  return cudaSuccess;
}

// Carveouts and limits of shared memory are hints to the driver; what does not fit is refused at the launch.
HC_EXPORT cudaError_t cudaFuncSetAttribute(const void* symbol, cudaFuncAttribute attribute, int value) {
  HC_DEVICE(here);
  (void)here;
  const Kernel* kernel = find_kernel(symbol);
  if (kernel == nullptr) return report(cudaErrorInvalidDeviceFunction);
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize &&
      (value < 0 ||
       kernel->static_shared_bytes + static_cast<std::uint64_t>(value) > machine()->gpu.shared_bytes_per_cta)) {
    return report(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
