// SPDX-License-Identifier: Apache-2.0
// The driver's launches, streams and events. A CUfunction is the address under which the kernel was registered.
#include "runtime/launch.h"

#include <cstring>

#include "driver/driver.h"

using namespace hostcuda;

namespace {

// Packed parameters may come through `extra`, a list of markers and values.
CUresult read_extra(void** extra, rt::LaunchRequest* request) {
  const void* buffer = nullptr;
  const std::size_t* bytes = nullptr;
  for (void** at = extra; *at != CU_LAUNCH_PARAM_END; at += 2) {
    if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = at[1];
    } else if (*at == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      bytes = static_cast<const std::size_t*>(at[1]);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (buffer == nullptr || bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  request->args = buffer;
  request->args_bytes = *bytes;
  return CUDA_SUCCESS;
}

CUresult launch(CUfunction function, const rt::LaunchRequest& shape, void** params, void** extra) {
  rt::LaunchRequest request = shape;
  request.symbol = reinterpret_cast<const void*>(function);
  request.params = params;
  if (extra != nullptr) {
    if (params != nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = read_extra(extra, &request); result != CUDA_SUCCESS) return result;
  }
  return rt::to_driver(rt::launch(request));
}

}  // namespace

HC_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                  CUstream stream, void** params, void** extra) {
  rt::LaunchRequest shape;
  shape.grid = {grid_x, grid_y, grid_z};
  shape.block = {block_x, block_y, block_z};
  shape.dynamic_shared_bytes = shared_bytes;
  shape.stream = stream;
  return launch(function, shape, params, extra);
}

// Attributes that only guide a scheduler (clusters, synchronization domains, overlap of a stream's kernels) change
// nothing: kernels of a stream run one after the other here.
HC_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** params, void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  rt::LaunchRequest shape;
  shape.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
  shape.block = {config->blockDimX, config->blockDimY, config->blockDimZ};
  shape.dynamic_shared_bytes = config->sharedMemBytes;
  shape.stream = config->hStream;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT) {
      shape.started = config->attrs[i].value.launchCompletionEvent.event;
    }
  }
  return launch(function, shape, params, extra);
}

HC_EXPORT CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return rt::to_driver(cudaStreamCreateWithFlags(stream, flags));
}
HC_EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return rt::to_driver(cudaStreamCreateWithPriority(stream, flags, priority));
}
HC_EXPORT CUresult cuStreamDestroy(CUstream stream) { return rt::to_driver(cudaStreamDestroy(stream)); }
HC_EXPORT CUresult cuStreamSynchronize(CUstream stream) { return rt::to_driver(cudaStreamSynchronize(stream)); }
HC_EXPORT CUresult cuStreamQuery(CUstream stream) { return rt::to_driver(cudaStreamQuery(stream)); }
HC_EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return rt::to_driver(cudaStreamWaitEvent(stream, event, flags));
}
HC_EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* argument) {
  return rt::to_driver(cudaLaunchHostFunc(stream, function, argument));
}
HC_EXPORT CUresult cuEventCreate(CUevent* event, unsigned flags) {
  return rt::to_driver(cudaEventCreateWithFlags(event, flags));
}
HC_EXPORT CUresult cuEventDestroy(CUevent event) { return rt::to_driver(cudaEventDestroy(event)); }
HC_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) { return rt::to_driver(cudaEventRecord(event, stream)); }
HC_EXPORT CUresult cuEventQuery(CUevent event) { return rt::to_driver(cudaEventQuery(event)); }
HC_EXPORT CUresult cuEventSynchronize(CUevent event) { return rt::to_driver(cudaEventSynchronize(event)); }
HC_EXPORT CUresult cuEventElapsedTime(float* ms, CUevent start, CUevent end) {
  return rt::to_driver(cudaEventElapsedTime(ms, start, end));
}
