// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's copies and fills.
//
// The CPU may change pageable memory as soon as a call returns. An asynchronous copy therefore takes its pageable source
// along when it is called, and one into pageable memory returns only when it is done, both as in CUDA.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/memory.h"
#include "runtime/multicast.h"

namespace hostcuda::rt {
namespace {

constexpr std::size_t kShareBytes = 4 << 20;  // of a copy at a time, so that grids on the same device go on

struct Rows {  // count rows of `bytes`, `pitch` apart
  char* dst;
  const char* src;
  std::size_t dst_pitch, src_pitch, bytes, count;
};

// What lies at an address for a copy of `bytes`; false where part of it lies outside of an allocation.
bool place_of(const void* address, std::size_t bytes, MemoryInfo* info) {
  *info = memory_at(address);
  if (info->kind == MemoryKind::none) return !in_window(address);
  // Mappings of the driver's API may continue in the next one.
  return info->kind == MemoryKind::vmm || info->kind == MemoryKind::registered ||
         info->base + info->bytes - reinterpret_cast<std::uint64_t>(address) >= bytes;
}

bool fits(cudaMemcpyKind kind, const MemoryInfo& dst, const MemoryInfo& src) {
  switch (kind) {
    case cudaMemcpyHostToHost: return dst.device == kHostMemory && src.device == kHostMemory;
    case cudaMemcpyHostToDevice: return dst.kind != MemoryKind::none;
    case cudaMemcpyDeviceToHost: return src.kind != MemoryKind::none;
    case cudaMemcpyDeviceToDevice: return dst.kind != MemoryKind::none && src.kind != MemoryKind::none;
    case cudaMemcpyDefault: return true;
  }
  return false;
}

clock::CopyWork cost_of(std::size_t bytes, const MemoryInfo& dst, const MemoryInfo& src) {
  clock::CopyWork work;
  work.name = "copy";
  work.bytes = bytes;
  const bool to_host = dst.device == kHostMemory, from_host = src.device == kHostMemory;
  work.kind = to_host             ? clock::CopyKind::to_host
              : from_host         ? clock::CopyKind::from_host
              : dst.device != src.device ? clock::CopyKind::to_peer
                                         : clock::CopyKind::within_device;
  if (work.kind != clock::CopyKind::within_device) {
    work.link_bytes_per_s = to_host && from_host ? link_bytes_per_s(kHostMemory, 0) : link_bytes_per_s(src.device, dst.device);
  }
  return work;
}

std::function<bool()> copy_in_shares(Rows rows, std::shared_ptr<std::vector<char>> staged) {
  return [rows, staged, row = std::size_t{0}, column = std::size_t{0}]() mutable {
    for (std::size_t left = kShareBytes; row < rows.count; ++row, column = 0) {
      const std::size_t now = std::min(left, rows.bytes - column);
      copy_bytes(rows.dst + row * rows.dst_pitch + column, rows.src + row * rows.src_pitch + column, now);
      column += now;
      left -= now;
      if (column < rows.bytes) return false;
    }
    return true;
  };
}

cudaError_t copy(Rows rows, cudaMemcpyKind kind, cudaStream_t handle, bool blocking) {
  HC_DEVICE(here);
  (void)here;
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return report(cudaErrorInvalidMemcpyDirection);
  if (rows.bytes == 0 || rows.count == 0) return cudaSuccess;
  if (rows.dst == nullptr || rows.src == nullptr || rows.dst_pitch < rows.bytes || rows.src_pitch < rows.bytes) {
    return report(cudaErrorInvalidValue);
  }
  MemoryInfo dst, src;
  if (!place_of(rows.dst, rows.dst_pitch * (rows.count - 1) + rows.bytes, &dst) ||
      !place_of(rows.src, rows.src_pitch * (rows.count - 1) + rows.bytes, &src) || !fits(kind, dst, src) ||
      src.kind == MemoryKind::multicast ||  // which member's memory would be read?
      (dst.kind == MemoryKind::multicast && !multicast_ready(rows.dst, rows.dst_pitch * (rows.count - 1) + rows.bytes))) {
    return report(cudaErrorInvalidValue);
  }
  std::shared_ptr<std::vector<char>> staged;
  if (!blocking && src.kind == MemoryKind::none) {
    staged = std::make_shared<std::vector<char>>(rows.bytes * rows.count);
    for (std::size_t row = 0; row < rows.count; ++row) {
      std::memcpy(staged->data() + row * rows.bytes, rows.src + row * rows.src_pitch, rows.bytes);
    }
    rows.src = staged->data();
    rows.src_pitch = rows.bytes;
  }
  const OpRef op = make_op(OpKind::copy, "copy");
  op->cost = cost_of(rows.bytes * rows.count, dst, src);
  op->work = copy_in_shares(rows, std::move(staged));

  std::unique_lock<std::mutex> lock(runtime_lock());
  const StreamRef stream = find_stream(handle);
  if (!stream) return report(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = enqueue(stream, op); error != cudaSuccess) return report(error);
  if (blocking || dst.kind == MemoryKind::none) return report(wait_for(lock, stream->device, {op}));
  return cudaSuccess;
}

Rows one_row(void* dst, const void* src, std::size_t bytes) {
  return {static_cast<char*>(dst), static_cast<const char*>(src), bytes, bytes, bytes, 1};
}

cudaError_t set(void* address, int value, std::size_t bytes, cudaStream_t handle) {
  HC_DEVICE(here);
  (void)here;
  if (bytes == 0) return cudaSuccess;
  MemoryInfo info;
  if (address == nullptr || !place_of(address, bytes, &info) || info.kind == MemoryKind::none ||
      (info.kind == MemoryKind::multicast && !multicast_ready(address, bytes))) {
    return report(cudaErrorInvalidValue);
  }
  const OpRef op = make_op(OpKind::set, "set");
  clock::CopyWork cost;
  cost.name = "set";
  cost.kind = clock::CopyKind::set;
  cost.bytes = bytes;
  op->cost = cost;
  op->work = [address, value, bytes] {
    fill(address, static_cast<unsigned char>(value), 1, bytes);
    return true;
  };
  std::lock_guard<std::mutex> guard(runtime_lock());
  const StreamRef stream = find_stream(handle);
  if (!stream) return report(cudaErrorInvalidResourceHandle);
  return report(enqueue(stream, op));
}

}  // namespace
}  // namespace hostcuda::rt

using namespace hostcuda::rt;

HC_EXPORT cudaError_t cudaMemcpy(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind) {
  return copy(one_row(dst, src, bytes), kind, nullptr, true);
}

HC_EXPORT cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind,
                                      cudaStream_t stream) {
  return copy(one_row(dst, src, bytes), kind, stream, false);
}

HC_EXPORT cudaError_t cudaMemcpyPeer(void* dst, int, const void* src, int, size_t bytes) {
  return copy(one_row(dst, src, bytes), cudaMemcpyDefault, nullptr, true);
}

HC_EXPORT cudaError_t cudaMemcpyPeerAsync(void* dst, int, const void* src, int, size_t bytes, cudaStream_t stream) {
  return copy(one_row(dst, src, bytes), cudaMemcpyDefault, stream, false);
}

HC_EXPORT cudaError_t cudaMemcpy2D(void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width,
                                   size_t height, cudaMemcpyKind kind) {
  return copy({static_cast<char*>(dst), static_cast<const char*>(src), dst_pitch, src_pitch, width, height}, kind,
              nullptr, true);
}

HC_EXPORT cudaError_t cudaMemcpy2DAsync(void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width,
                                        size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy({static_cast<char*>(dst), static_cast<const char*>(src), dst_pitch, src_pitch, width, height}, kind,
              stream, false);
}

HC_EXPORT cudaError_t cudaMemset(void* address, int value, size_t bytes) { return set(address, value, bytes, nullptr); }

HC_EXPORT cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t stream) {
  return set(address, value, bytes, stream);
}
