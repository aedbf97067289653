// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory.h"

#include <sys/mman.h>

#include "clock/timeline.h"
#include "runtime/extent.h"
#include "runtime/memory_map.h"

namespace hostcuda::rt {
namespace {

constexpr std::uint64_t kSystemPageBytes = 4096;

}  // namespace

MemoryInfo memory_at(const void* address) {
  MemoryMap& map = memory_map();
  std::lock_guard<std::mutex> guard(map.lock);
  const auto found = map.around(address);
  if (found == map.entries.end()) return {};
  const MemoryMap::Entry& entry = found->second;
  return {entry.kind, entry.device, found->first, entry.bytes, entry.flags};
}

cudaError_t allocate(int device, std::uint64_t bytes, unsigned flags, void** address) {
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (bytes > kWindowBytes / 2) return cudaErrorMemoryAllocation;
  const std::uint64_t offset = take_file_pages(device, bytes);
  if (offset == ~0ULL) return cudaErrorMemoryAllocation;
  const std::uint64_t at = kWindowBase + offset;
  set_owner(at, bytes, owner_of(device));
  *address = reinterpret_cast<void*>(at);
  const MemoryKind kind = device == kHostMemory ? MemoryKind::host : MemoryKind::device;
  MemoryMap& map = memory_map();
  std::lock_guard<std::mutex> guard(map.lock);
  map.entries[at] = {kind, device, bytes, flags, {}, 0, {}};
  return cudaSuccess;
}

cudaError_t release(void* address, MemoryKind kind) {
  if (address == nullptr) return cudaSuccess;
  const auto at = reinterpret_cast<std::uint64_t>(address);
  MemoryMap& map = memory_map();
  MemoryMap::Entry entry;
  {
    std::lock_guard<std::mutex> guard(map.lock);
    const auto found = map.entries.find(at);
    if (found == map.entries.end() || found->second.kind != kind) return cudaErrorInvalidValue;
    entry = std::move(found->second);
    map.entries.erase(found);
  }
  clock::forget_device_times(at, entry.bytes);
  set_owner(at, entry.bytes, kOwnerNone);
  give_file_pages(at - kWindowBase, entry.bytes, entry.device);
  return cudaSuccess;
}

cudaError_t register_host(void* address, std::uint64_t bytes, unsigned flags) {
  if (address == nullptr || bytes == 0) return cudaErrorInvalidValue;
  const auto at = reinterpret_cast<std::uint64_t>(address);
  const std::uint64_t page = at / kSystemPageBytes * kSystemPageBytes;
  const std::uint64_t end = sum(at, bytes);
  // Writes nothing; fails where a page of the range is not the process's.
  if (::msync(reinterpret_cast<void*>(page), end - page, MS_ASYNC) != 0) return cudaErrorInvalidValue;
  MemoryMap& map = memory_map();
  std::lock_guard<std::mutex> guard(map.lock);
  if (!map.is_free(at, bytes)) return cudaErrorHostMemoryAlreadyRegistered;
  map.entries[at] = {MemoryKind::registered, kHostMemory, bytes, flags, {}, 0, {}};
  return cudaSuccess;
}

cudaError_t unregister_host(void* address) {
  MemoryMap& map = memory_map();
  std::lock_guard<std::mutex> guard(map.lock);
  const auto found = map.entries.find(reinterpret_cast<std::uint64_t>(address));
  if (found == map.entries.end() || found->second.kind != MemoryKind::registered) {
    return cudaErrorHostMemoryNotRegistered;
  }
  map.entries.erase(found);
  return cudaSuccess;
}

}  // namespace hostcuda::rt
