// SPDX-License-Identifier: Apache-2.0
// The driver's copies and fills that return when they are done; those in streams are in memory.cc.
#include "driver/driver.h"

using namespace hostcuda;

namespace {

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

CUresult copy(void* dst, const void* src, std::size_t bytes, cudaMemcpyKind kind) {
  return driver::quietly([&] { return cudaMemcpy(dst, src, bytes, kind); });
}

}  // namespace

HC_EXPORT CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, std::size_t bytes) {
  return copy(pointer(dst), pointer(src), bytes, cudaMemcpyDefault);
}

HC_EXPORT CUresult cuMemcpyHtoD(CUdeviceptr dst, const void* src, std::size_t bytes) {
  return copy(pointer(dst), src, bytes, cudaMemcpyHostToDevice);
}

HC_EXPORT CUresult cuMemcpyDtoH(void* dst, CUdeviceptr src, std::size_t bytes) {
  return copy(dst, pointer(src), bytes, cudaMemcpyDeviceToHost);
}

HC_EXPORT CUresult cuMemcpyDtoD(CUdeviceptr dst, CUdeviceptr src, std::size_t bytes) {
  return copy(pointer(dst), pointer(src), bytes, cudaMemcpyDeviceToDevice);
}

// Every device reaches all memory, so that contexts do not matter beyond being contexts.
HC_EXPORT CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, std::size_t bytes) {
  if (driver::device_of(to) == nullptr || driver::device_of(from) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return cuMemcpyDtoD(dst, src, bytes);
}

HC_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, std::size_t bytes,
                                     CUstream stream) {
  if (driver::device_of(to) == nullptr || driver::device_of(from) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return driver::quietly(
      [&] { return cudaMemcpyAsync(pointer(dst), pointer(src), bytes, cudaMemcpyDeviceToDevice, stream); });
}

HC_EXPORT CUresult cuMemsetD8(CUdeviceptr dst, unsigned char value, std::size_t count) {
  return driver::quietly([&] { return cudaMemset(pointer(dst), value, count); });
}
