// SPDX-License-Identifier: Apache-2.0
#include "runtime/virtual_memory.h"

#include <vector>

#include "runtime/memory_handles.h"
#include "runtime/memory_map.h"
#include "runtime/multicast.h"

namespace hostcuda::rt {
namespace {

// Address ranges of cuMemAddressReserve. Guarded by the memory map's lock.
std::map<std::uint64_t, std::uint64_t>& reserved() {
  static auto* ranges = new std::map<std::uint64_t, std::uint64_t>;  // never freed, like the memory map
  return *ranges;
}

std::uint8_t owner_of(const Physical& physical) {
  return static_cast<std::uint8_t>(rt::owner_of(physical.device) + (physical.bound > 0 ? kOwnerBound : 0));
}

// Whether a mapping of [offset, offset + bytes) is one that CUDA allows. Waits for a multicast object's devices.
bool may_map(const MemoryHandle& what, std::uint64_t offset, std::uint64_t bytes) {
  if (what.physical) return offset == 0 && bytes <= whole_pages(what.physical->bytes) * kPageBytes;
  const std::uint64_t holds = whole_pages(what.multicast->bytes()) * kPageBytes;
  if (offset % kPageBytes != 0 || offset > holds || bytes > holds - offset) return false;
  what.multicast->wait_for_devices();
  return true;
}

}  // namespace

Physical::Physical(std::shared_ptr<Arena> arena, std::uint64_t offset, std::uint64_t bytes, int device)
    : arena(std::move(arena)),
      offset(offset),
      bytes(bytes),
      device(device),
      hold_(this->arena->is_own() ? nullptr : std::make_unique<Hold>(this->arena, offset, bytes)) {}

Physical::~Physical() {
  if (arena->is_own()) give_file_pages(offset, bytes, device);
}

cudaError_t reserve_addresses(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t* address) {
  if (bytes == 0 || bytes % kPageBytes != 0 || (alignment & (alignment - 1)) != 0) return cudaErrorInvalidValue;
  if (bytes > kWindowBytes / 2 || alignment > kWindowBytes / 2) return cudaErrorMemoryAllocation;
  Arena::own();  // the window has to be there
  const std::uint64_t at = take_addresses(bytes, alignment);
  if (at == 0) return cudaErrorMemoryAllocation;
  std::lock_guard<std::mutex> guard(memory_map().lock);
  reserved()[at] = bytes;
  *address = at;
  return cudaSuccess;
}

cudaError_t free_addresses(std::uint64_t address, std::uint64_t bytes) {
  {
    std::lock_guard<std::mutex> guard(memory_map().lock);
    const auto found = reserved().find(address);
    if (found == reserved().end() || found->second != bytes || !memory_map().is_free(address, bytes)) {
      return cudaErrorInvalidValue;
    }
    reserved().erase(found);
  }
  give_addresses(address, bytes);
  return cudaSuccess;
}

cudaError_t map_physical(std::uint64_t address, std::uint64_t bytes, std::uint64_t offset,
                         CUmemGenericAllocationHandle handle, int device) {
  const MemoryHandle what = find_handle(handle);
  if ((!what.physical && !what.multicast) || bytes == 0 || bytes % kPageBytes != 0 || address % kPageBytes != 0 ||
      !may_map(what, offset, bytes)) {
    return cudaErrorInvalidValue;
  }
  MemoryMap& map = memory_map();
  std::lock_guard<std::mutex> guard(map.lock);
  auto range = reserved().upper_bound(address);
  if (range == reserved().begin()) return cudaErrorInvalidValue;
  --range;
  if (address + bytes > range->first + range->second) return cudaErrorInvalidValue;
  if (!map.is_free(address, bytes)) return cudaErrorAlreadyMapped;
  if (what.multicast) {
    show_multicast(address, bytes, what.multicast, offset);
    set_owner(address, bytes, kOwnerMulticast);
    map.entries[address] = {MemoryKind::multicast, device, bytes, 0, nullptr, 0, what.multicast};
    return cudaSuccess;
  }
  const Physical& physical = *what.physical;
  if (!physical.arena->map(address, physical.offset, bytes)) return cudaErrorMapBufferObjectFailed;
  set_owner(address, bytes, owner_of(physical));
  map.entries[address] = {MemoryKind::vmm, physical.device, bytes, 0, what.physical, 0, nullptr};
  return cudaSuccess;
}

cudaError_t unmap_physical(std::uint64_t address, std::uint64_t bytes) {
  if (bytes == 0) return cudaErrorInvalidValue;
  std::vector<MemoryMap::Entry> last;  // let go after the lock
  std::lock_guard<std::mutex> guard(memory_map().lock);
  auto& entries = memory_map().entries;
  std::uint64_t at = address;
  for (; at < address + bytes;) {
    const auto found = entries.find(at);
    if (found == entries.end() ||
        (found->second.kind != MemoryKind::vmm && found->second.kind != MemoryKind::multicast)) {
      return cudaErrorInvalidValue;
    }
    at += found->second.bytes;
  }
  if (at != address + bytes) return cudaErrorInvalidValue;
  for (at = address; at < address + bytes;) {
    const auto found = entries.find(at);
    at += found->second.bytes;
    if (found->second.multicast) hide_multicast(found->first);
    last.push_back(std::move(found->second));
    entries.erase(found);
  }
  set_owner(address, bytes, kOwnerNone);
  unmap(address, bytes);
  return cudaSuccess;
}

bool is_mapped(std::uint64_t address, std::uint64_t bytes) {
  MemoryMap& map = memory_map();
  std::lock_guard<std::mutex> guard(map.lock);
  for (std::uint64_t seen = 0; seen < bytes;) {
    const auto found = map.around(reinterpret_cast<void*>(address + seen));
    if (found == map.entries.end() ||
        (found->second.kind != MemoryKind::vmm && found->second.kind != MemoryKind::multicast)) {
      return false;
    }
    seen = found->first + found->second.bytes - address;
  }
  return bytes != 0;
}

MappedPart mapped_at(std::uint64_t address) {
  MemoryMap& map = memory_map();
  std::lock_guard<std::mutex> guard(map.lock);
  const auto found = map.around(reinterpret_cast<void*>(address));
  if (found == map.entries.end() || found->second.kind != MemoryKind::vmm) return {};
  const std::uint64_t inside = address - found->first;
  return {found->second.physical, inside, found->second.bytes - inside};
}

void mark_bound(Physical& physical, int by) {
  MemoryMap& map = memory_map();
  std::lock_guard<std::mutex> guard(map.lock);
  physical.bound += by;
  for (const auto& [at, entry] : map.entries) {
    if (entry.physical.get() == &physical) set_owner(at, entry.bytes, owner_of(physical));
  }
}

}  // namespace hostcuda::rt
