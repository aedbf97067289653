// SPDX-License-Identifier: Apache-2.0
// The driver's copies and fills.
#include "runtime/copy.h"

#include "driver/driver.h"

using namespace hostcuda;

namespace {

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

CUresult copy(void* dst, const void* src, std::size_t bytes, cudaMemcpyKind kind) {
  return driver::quietly([&] { return cudaMemcpy(dst, src, bytes, kind); });
}

CUresult copy(void* dst, const void* src, std::size_t bytes, cudaMemcpyKind kind, CUstream stream) {
  return driver::quietly([&] { return cudaMemcpyAsync(dst, src, bytes, kind, stream); });
}

// Every device reaches all memory, so that contexts do not matter beyond being contexts.
bool are_contexts(CUcontext a, CUcontext b) {
  return driver::device_of(a) != nullptr && driver::device_of(b) != nullptr;
}

template <typename Value>
CUresult set(CUdeviceptr dst, Value value, std::size_t count, CUstream stream, bool blocking) {
  return driver::quietly(
      [&] { return rt::set(rt::one_row(pointer(dst), value, sizeof value, count), stream, blocking); });
}

}  // namespace

HC_EXPORT CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, std::size_t bytes) {
  return copy(pointer(dst), pointer(src), bytes, cudaMemcpyDefault);
}

HC_EXPORT CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, std::size_t bytes, CUstream stream) {
  return copy(pointer(dst), pointer(src), bytes, cudaMemcpyDefault, stream);
}

HC_EXPORT CUresult cuMemcpyHtoD(CUdeviceptr dst, const void* src, std::size_t bytes) {
  return copy(pointer(dst), src, bytes, cudaMemcpyHostToDevice);
}

HC_EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr dst, const void* src, std::size_t bytes, CUstream stream) {
  return copy(pointer(dst), src, bytes, cudaMemcpyHostToDevice, stream);
}

HC_EXPORT CUresult cuMemcpyDtoH(void* dst, CUdeviceptr src, std::size_t bytes) {
  return copy(dst, pointer(src), bytes, cudaMemcpyDeviceToHost);
}

HC_EXPORT CUresult cuMemcpyDtoHAsync(void* dst, CUdeviceptr src, std::size_t bytes, CUstream stream) {
  return copy(dst, pointer(src), bytes, cudaMemcpyDeviceToHost, stream);
}

HC_EXPORT CUresult cuMemcpyDtoD(CUdeviceptr dst, CUdeviceptr src, std::size_t bytes) {
  return copy(pointer(dst), pointer(src), bytes, cudaMemcpyDeviceToDevice);
}

HC_EXPORT CUresult cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, std::size_t bytes, CUstream stream) {
  return copy(pointer(dst), pointer(src), bytes, cudaMemcpyDeviceToDevice, stream);
}

HC_EXPORT CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, std::size_t bytes) {
  return are_contexts(to, from) ? cuMemcpyDtoD(dst, src, bytes) : CUDA_ERROR_INVALID_CONTEXT;
}

HC_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, std::size_t bytes,
                                     CUstream stream) {
  return are_contexts(to, from) ? cuMemcpyDtoDAsync(dst, src, bytes, stream) : CUDA_ERROR_INVALID_CONTEXT;
}

HC_EXPORT CUresult cuMemsetD8(CUdeviceptr dst, unsigned char value, std::size_t count) {
  return set(dst, value, count, nullptr, true);
}

HC_EXPORT CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, std::size_t count, CUstream stream) {
  return set(dst, value, count, stream, false);
}

HC_EXPORT CUresult cuMemsetD16(CUdeviceptr dst, unsigned short value, std::size_t count) {
  return set(dst, value, count, nullptr, true);
}

HC_EXPORT CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short value, std::size_t count, CUstream stream) {
  return set(dst, value, count, stream, false);
}

HC_EXPORT CUresult cuMemsetD32(CUdeviceptr dst, unsigned value, std::size_t count) {
  return set(dst, value, count, nullptr, true);
}

HC_EXPORT CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned value, std::size_t count, CUstream stream) {
  return set(dst, value, count, stream, false);
}
