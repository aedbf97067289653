// SPDX-License-Identifier: Apache-2.0
// What callers ask about contexts and streams, and a thread's stack of contexts.
#include "driver/driver.h"

using namespace hostcuda;
using namespace hostcuda::driver;
using rt::t_state;

HC_EXPORT CUresult cuCtxPushCurrent(CUcontext context) {
  const rt::Device* device = device_of(context);
  if (device == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (t_state.pushed == rt::kMostPushedContexts) {
    rt::complain("cuCtxPushCurrent: a thread can push %d contexts", rt::kMostPushedContexts);
    return CUDA_ERROR_INVALID_VALUE;
  }
  t_state.below[t_state.pushed++] = static_cast<std::int16_t>(t_state.device);
  t_state.device = device->number;
  return CUDA_SUCCESS;
}

HC_EXPORT CUresult cuCtxPopCurrent(CUcontext* context) {
  if (rt::machine() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (t_state.pushed == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = context_of(rt::current_device());
  t_state.device = t_state.below[--t_state.pushed];
  return CUDA_SUCCESS;
}

HC_EXPORT CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return quietly([&] { return cudaDeviceGetStreamPriorityRange(least, greatest); });
}

HC_EXPORT CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  int number = 0;
  const CUresult result = quietly([&] { return cudaStreamGetDevice(stream, &number); });
  if (result == CUDA_SUCCESS) *context = context_of(rt::device(number));
  return result;
}

HC_EXPORT CUresult cuStreamGetDevice(CUstream stream, CUdevice* device) {
  return quietly([&] { return cudaStreamGetDevice(stream, device); });
}
HC_EXPORT CUresult cuStreamGetFlags(CUstream stream, unsigned* flags) {
  return quietly([&] { return cudaStreamGetFlags(stream, flags); });
}
HC_EXPORT CUresult cuStreamGetPriority(CUstream stream, int* priority) {
  return quietly([&] { return cudaStreamGetPriority(stream, priority); });
}
HC_EXPORT CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
  return quietly([&] { return cudaStreamGetId(stream, id); });
}
