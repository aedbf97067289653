// SPDX-License-Identifier: Apache-2.0
#include "runtime/copy.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/extent.h"
#include "runtime/memory.h"
#include "runtime/multicast.h"
#include "runtime/virtual_memory.h"

namespace hostcuda::rt {
namespace {

constexpr std::uint64_t kAddressesEnd = std::uint64_t{1} << 47;  // of a process on x86-64

// Bytes from an end's first to behind its last.
std::size_t span(const Layout& layout, std::size_t bytes, std::size_t rows, std::size_t planes) {
  return sum(sum(product(layout.plane_pitch, planes - 1), product(layout.pitch, rows - 1)), bytes);
}

bool overlaps(const Layout& layout, std::size_t bytes, std::size_t rows, std::size_t planes) {
  return (rows > 1 && layout.pitch < bytes) ||
         (planes > 1 && layout.plane_pitch < sum(product(layout.pitch, rows - 1), bytes));
}

// What lies at an address for a copy of `bytes`; false where part of it lies outside of an allocation.
bool place_of(const void* address, std::size_t bytes, MemoryInfo* info) {
  *info = memory_at(address);
  const auto at = reinterpret_cast<std::uint64_t>(address);
  if (sum(at, bytes) > kAddressesEnd) return false;
  if (info->kind == MemoryKind::none) return !in_window(address);
  if (info->kind == MemoryKind::vmm) return is_mapped(at, bytes);
  return info->kind == MemoryKind::registered || info->base + info->bytes - at >= bytes;
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
    work.link_bytes_per_s =
        to_host && from_host ? link_bytes_per_s(kHostMemory, 0) : link_bytes_per_s(src.device, dst.device);
  }
  return work;
}

// Where in an end's memory the copy begins, and its layout.
struct End {
  char* first;
  Layout layout;
};
End end_of(const cudaPitchedPtr& pointer, const cudaPos& at) {
  const Layout layout{pointer.pitch, product(pointer.pitch, pointer.ysize)};
  const std::size_t skipped = sum(at.x, sum(product(at.y, layout.pitch), product(at.z, layout.plane_pitch)));
  const bool lost = pointer.ptr == nullptr || skipped > kAddressesEnd;  // nowhere is where no copy begins
  return {lost ? nullptr : static_cast<char*>(pointer.ptr) + skipped, layout};
}

cudaPitchedPtr pitched(const char* first, const Layout& layout, std::size_t bytes) {
  const std::size_t rows = layout.pitch == 0 ? 1 : layout.plane_pitch / layout.pitch;
  return {const_cast<char*>(first), layout.pitch, bytes, rows};
}

}  // namespace

cudaError_t plan(CopyTask* task, cudaMemcpyKind kind, CopyEnds* ends) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  if (is_empty(*task)) return cudaSuccess;
  if (task->dst == nullptr || task->src == nullptr ||
      overlaps(task->dst_layout, task->bytes, task->rows, task->planes) ||
      overlaps(task->src_layout, task->bytes, task->rows, task->planes)) {
    return cudaErrorInvalidValue;
  }
  MemoryInfo dst, src;
  const std::size_t dst_bytes = span(task->dst_layout, task->bytes, task->rows, task->planes);
  const std::size_t src_bytes = span(task->src_layout, task->bytes, task->rows, task->planes);
  if (!place_of(task->dst, dst_bytes, &dst) || !place_of(task->src, src_bytes, &src) || !fits(kind, dst, src) ||
      src.kind == MemoryKind::multicast ||  // which member's memory would be read?
      (dst.kind == MemoryKind::multicast && !multicast_ready(task->dst, dst_bytes))) {
    return cudaErrorInvalidValue;
  }
  task->cost = cost_of(task->bytes * task->row_count(), dst, src);
  ends->pageable_source = src.kind == MemoryKind::none;
  ends->pageable_destination = dst.kind == MemoryKind::none;
  ends->from_host = src.device == kHostMemory;
  ends->to_host = dst.device == kHostMemory;
  return cudaSuccess;
}

void stage(CopyTask* task) {
  auto staged = std::make_shared<std::vector<char>>(task->bytes * task->row_count());
  for (std::size_t row = 0; row < task->row_count(); ++row) {
    std::memcpy(staged->data() + row * task->bytes, task->src_row(row), task->bytes);
  }
  task->src = staged->data();
  task->src_layout = {task->bytes, task->bytes * task->rows};
  task->staged = std::move(staged);
}

cudaError_t plan(SetTask* task) {
  if (is_empty(*task)) return cudaSuccess;
  const std::size_t row_bytes = product(task->width, task->value_bytes);
  const std::size_t bytes = span(task->layout, row_bytes, task->rows, task->planes);
  MemoryInfo info;
  if (task->address == nullptr || reinterpret_cast<std::uintptr_t>(task->address) % task->value_bytes != 0 ||
      overlaps(task->layout, row_bytes, task->rows, task->planes) || !place_of(task->address, bytes, &info) ||
      info.kind == MemoryKind::none || (info.kind == MemoryKind::multicast && !multicast_ready(task->address, bytes))) {
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

CopyTask one_row(void* dst, const void* src, std::size_t bytes) {
  CopyTask task;
  task.dst = static_cast<char*>(dst);
  task.src = static_cast<const char*>(src);
  task.dst_layout = task.src_layout = {bytes, bytes};
  task.bytes = bytes;
  return task;
}

SetTask one_row(void* address, std::uint32_t value, unsigned value_bytes, std::size_t count) {
  SetTask task;
  task.address = static_cast<char*>(address);
  task.layout.pitch = task.layout.plane_pitch = product(count, value_bytes);
  task.value = value;
  task.value_bytes = value_bytes;
  task.width = count;
  return task;
}

std::optional<CopyTask> task_of(const cudaMemcpy3DParms& params) {
  if (params.srcArray != nullptr || params.dstArray != nullptr) return std::nullopt;
  const End dst = end_of(params.dstPtr, params.dstPos), src = end_of(params.srcPtr, params.srcPos);
  CopyTask task;
  task.dst = dst.first;
  task.src = src.first;
  task.dst_layout = dst.layout;
  task.src_layout = src.layout;
  task.bytes = params.extent.width;
  task.rows = params.extent.height;
  task.planes = params.extent.depth;
  return task;
}

cudaMemcpy3DParms params_of(const CopyTask& task) {
  cudaMemcpy3DParms params{};
  params.dstPtr = pitched(task.dst, task.dst_layout, task.bytes);
  params.srcPtr = pitched(task.src, task.src_layout, task.bytes);
  params.extent = {task.bytes, task.rows, task.planes};
  params.kind = cudaMemcpyDefault;
  return params;
}

}  // namespace hostcuda::rt
