// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's copies and fills.
//
// The CPU may change pageable memory as soon as a call returns. An asynchronous copy therefore takes its pageable
// source along when it is called, and one into pageable memory returns only when it is done, both as in CUDA. In a
// graph neither is possible: its copies read and write pageable memory when they run.
#include "runtime/capture.h"
#include "runtime/copy.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/extent.h"
#include "runtime/memory.h"

namespace hostcuda::rt {
namespace {

bool is_capturing(cudaStream_t handle) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  const StreamRef stream = find_stream(handle);
  return stream && stream->capture;
}

cudaError_t copy(CopyTask task, cudaMemcpyKind kind, cudaStream_t handle, bool blocking) {
  HC_DEVICE(here);
  (void)here;
  CopyEnds ends;
  if (const cudaError_t error = plan(&task, kind, &ends); error != cudaSuccess) return report(error);
  if (is_empty(task)) return cudaSuccess;
  if (blocking) {
    if (const cudaError_t error = synchronous_call(); error != cudaSuccess) return report(error);
  } else if (ends.pageable_source && !is_capturing(handle)) {
    stage(&task);
  }
  // Nothing that the host can see is left of a copy between devices, nor of one that it was told to wait for later.
  const bool waits = blocking ? ends.from_host || ends.to_host
                              : ends.pageable_destination || (ends.from_host && ends.to_host);
  if (waits && in_callback()) return report(cudaErrorNotPermitted);
  std::unique_lock<std::mutex> lock(runtime_lock());
  const StreamRef stream = find_stream(handle);
  if (!stream) return report(cudaErrorInvalidResourceHandle);
  OpRef op;
  if (const cudaError_t error = submit(stream, std::move(task), &op); error != cudaSuccess) return report(error);
  return op && waits ? report(wait_for(lock, stream->device, {op})) : cudaSuccess;
}

CopyTask rows(void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width, size_t height) {
  CopyTask task = one_row(dst, src, width);
  task.dst_layout = {dst_pitch, product(dst_pitch, height)};
  task.src_layout = {src_pitch, product(src_pitch, height)};
  task.rows = height;
  return task;
}

cudaError_t copy(const cudaMemcpy3DParms* params, cudaStream_t stream, bool blocking) {
  if (params == nullptr) return report(cudaErrorInvalidValue);
  const auto task = task_of(*params);
  if (!task) return refuse_unsupported("a copy of a CUDA array");
  return copy(*task, params->kind, stream, blocking);
}

SetTask bytes(void* address, size_t pitch, int value, size_t width, size_t height) {
  SetTask task = one_row(address, static_cast<unsigned char>(value), 1, width);
  task.layout = {pitch, product(pitch, height)};
  task.rows = height;
  return task;
}

SetTask bytes(const cudaPitchedPtr& pointer, int value, const cudaExtent& extent) {
  SetTask task = bytes(pointer.ptr, pointer.pitch, value, extent.width, extent.height);
  task.layout.plane_pitch = product(pointer.pitch, pointer.ysize);
  task.planes = extent.depth;
  return task;
}

}  // namespace

cudaError_t set(SetTask task, cudaStream_t handle, bool blocking) {
  HC_DEVICE(here);
  (void)here;
  if (const cudaError_t error = plan(&task); error != cudaSuccess) return report(error);
  if (is_empty(task)) return cudaSuccess;
  if (blocking) {
    if (const cudaError_t error = synchronous_call(); error != cudaSuccess) return report(error);
  }
  const bool waits = blocking && memory_at(task.address).device == kHostMemory;
  if (waits && in_callback()) return report(cudaErrorNotPermitted);
  std::unique_lock<std::mutex> lock(runtime_lock());
  const StreamRef stream = find_stream(handle);
  if (!stream) return report(cudaErrorInvalidResourceHandle);
  OpRef op;
  if (const cudaError_t error = submit(stream, task, &op); error != cudaSuccess) return report(error);
  return op && waits ? report(wait_for(lock, stream->device, {op})) : cudaSuccess;
}

}  // namespace hostcuda::rt

using namespace hostcuda::rt;

HC_EXPORT cudaError_t cudaMemcpy(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind) {
  return copy(one_row(dst, src, bytes), kind, nullptr, true);
}

HC_EXPORT cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind,
                                      cudaStream_t stream) {
  return copy(one_row(dst, src, bytes), kind, stream, false);
}

// Every device reaches all memory, so that a peer does not matter beyond being one.
HC_EXPORT cudaError_t cudaMemcpyPeer(void* dst, int to, const void* src, int from, size_t bytes) {
  if (asked(to) == nullptr || asked(from) == nullptr) return no_such_device();
  return copy(one_row(dst, src, bytes), cudaMemcpyDefault, nullptr, true);
}

HC_EXPORT cudaError_t cudaMemcpyPeerAsync(void* dst, int to, const void* src, int from, size_t bytes,
                                          cudaStream_t stream) {
  if (asked(to) == nullptr || asked(from) == nullptr) return no_such_device();
  return copy(one_row(dst, src, bytes), cudaMemcpyDefault, stream, false);
}

HC_EXPORT cudaError_t cudaMemcpy2D(void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width,
                                   size_t height, cudaMemcpyKind kind) {
  if (dst_pitch < width || src_pitch < width) return report(cudaErrorInvalidPitchValue);
  return copy(rows(dst, dst_pitch, src, src_pitch, width, height), kind, nullptr, true);
}

HC_EXPORT cudaError_t cudaMemcpy2DAsync(void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width,
                                        size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  if (dst_pitch < width || src_pitch < width) return report(cudaErrorInvalidPitchValue);
  return copy(rows(dst, dst_pitch, src, src_pitch, width, height), kind, stream, false);
}

HC_EXPORT cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* params) { return copy(params, nullptr, true); }

HC_EXPORT cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* params, cudaStream_t stream) {
  return copy(params, stream, false);
}

HC_EXPORT cudaError_t cudaMemset(void* address, int value, size_t count) {
  return set(bytes(address, count, value, count, 1), nullptr, true);
}

HC_EXPORT cudaError_t cudaMemsetAsync(void* address, int value, size_t count, cudaStream_t stream) {
  return set(bytes(address, count, value, count, 1), stream, false);
}

HC_EXPORT cudaError_t cudaMemset2D(void* address, size_t pitch, int value, size_t width, size_t height) {
  return set(bytes(address, pitch, value, width, height), nullptr, true);
}

HC_EXPORT cudaError_t cudaMemset2DAsync(void* address, size_t pitch, int value, size_t width, size_t height,
                                        cudaStream_t stream) {
  return set(bytes(address, pitch, value, width, height), stream, false);
}

HC_EXPORT cudaError_t cudaMemset3D(cudaPitchedPtr pointer, int value, cudaExtent extent) {
  return set(bytes(pointer, value, extent), nullptr, true);
}

HC_EXPORT cudaError_t cudaMemset3DAsync(cudaPitchedPtr pointer, int value, cudaExtent extent, cudaStream_t stream) {
  return set(bytes(pointer, value, extent), stream, false);
}
