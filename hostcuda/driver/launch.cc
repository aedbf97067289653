// SPDX-License-Identifier: Apache-2.0
// The driver's launches, streams and events. A CUfunction is the address under which the kernel was registered.
#include "runtime/launch.h"

#include "driver/driver.h"

using namespace hostcuda;
using namespace hostcuda::driver;

namespace {

CUresult launch(CUfunction function, const rt::LaunchRequest& shape, void** params, void** extra) {
  rt::LaunchRequest request = shape;
  request.symbol = reinterpret_cast<const void*>(function);
  request.params = params;
  if (extra != nullptr) {
    if (params != nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!rt::read_extra(extra, &request)) return CUDA_ERROR_INVALID_VALUE;
  }
  return quietly([&] { return rt::launch(request); });
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
  return quietly([&] { return cudaStreamCreateWithFlags(stream, flags); });
}
HC_EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return quietly([&] { return cudaStreamCreateWithPriority(stream, flags, priority); });
}
HC_EXPORT CUresult cuStreamDestroy(CUstream stream) { return quietly([&] { return cudaStreamDestroy(stream); }); }
HC_EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  return quietly([&] { return cudaStreamSynchronize(stream); });
}
HC_EXPORT CUresult cuStreamQuery(CUstream stream) { return quietly([&] { return cudaStreamQuery(stream); }); }
HC_EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return quietly([&] { return cudaStreamWaitEvent(stream, event, flags); });
}
HC_EXPORT CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback function, void* argument, unsigned flags) {
  // The same numbers mean the same errors.
  const auto same = reinterpret_cast<cudaStreamCallback_t>(function);
  return quietly([&] { return cudaStreamAddCallback(stream, same, argument, flags); });
}
HC_EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* argument) {
  return quietly([&] { return cudaLaunchHostFunc(stream, function, argument); });
}
HC_EXPORT CUresult cuEventCreate(CUevent* event, unsigned flags) {
  return quietly([&] { return cudaEventCreateWithFlags(event, flags); });
}
HC_EXPORT CUresult cuEventDestroy(CUevent event) { return quietly([&] { return cudaEventDestroy(event); }); }
HC_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  return quietly([&] { return cudaEventRecord(event, stream); });
}
HC_EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  return quietly([&] { return cudaEventRecordWithFlags(event, stream, flags); });
}
HC_EXPORT CUresult cuEventQuery(CUevent event) { return quietly([&] { return cudaEventQuery(event); }); }
HC_EXPORT CUresult cuEventSynchronize(CUevent event) { return quietly([&] { return cudaEventSynchronize(event); }); }
HC_EXPORT CUresult cuEventElapsedTime(float* ms, CUevent start, CUevent end) {
  return quietly([&] { return cudaEventElapsedTime(ms, start, end); });
}
