// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory_handles.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "runtime/memory_map.h"
#include "runtime/multicast.h"

namespace hostcuda::rt {
namespace {

// Guarded by the memory map's lock.
struct Handles {
  struct Counted {
    MemoryHandle what;
    unsigned references;
  };
  std::map<CUmemGenericAllocationHandle, Counted> known;
  CUmemGenericAllocationHandle next = 0x100;
};

Handles& handles() {
  static Handles* all = new Handles;  // never freed, like the memory map
  return *all;
}

// The handle of that memory or object, with one reference more. With the lock held.
CUmemGenericAllocationHandle handle_for(MemoryHandle what) {
  for (auto& [handle, counted] : handles().known) {
    if (counted.what.physical != what.physical || counted.what.multicast != what.multicast) continue;
    ++counted.references;
    return handle;
  }
  const CUmemGenericAllocationHandle handle = handles().next++;
  handles().known[handle] = {std::move(what), 1};
  return handle;
}

// What this process already has of a memory file at `offset`, by a handle or a mapping; nullptr if nothing. With the
// lock held.
std::shared_ptr<Physical> known_at(const Arena& arena, std::uint64_t offset) {
  for (const auto& [handle, counted] : handles().known) {
    const auto& physical = counted.what.physical;
    if (physical && physical->lies_at(arena, offset)) return physical;
  }
  for (const auto& [at, entry] : memory_map().entries) {
    if (entry.kind == MemoryKind::vmm && entry.physical->lies_at(arena, offset)) return entry.physical;
  }
  return nullptr;
}

}  // namespace

cudaError_t create_physical(int device, std::uint64_t bytes, const CUmemAllocationProp& properties,
                            CUmemGenericAllocationHandle* handle) {
  if (bytes == 0 || bytes % kPageBytes != 0) return cudaErrorInvalidValue;
  if (bytes > kWindowBytes / 2) return cudaErrorMemoryAllocation;
  const std::uint64_t offset = take_file_pages(device, bytes);
  if (offset == ~0ULL) return cudaErrorMemoryAllocation;
  const std::shared_ptr<Arena> own(&Arena::own(), [](Arena*) {});
  auto physical = std::make_shared<Physical>(own, offset, bytes, device);
  physical->properties = properties;
  std::lock_guard<std::mutex> guard(memory_map().lock);
  *handle = handle_for({std::move(physical), nullptr});
  return cudaSuccess;
}

MemoryHandle find_handle(CUmemGenericAllocationHandle handle) {
  std::lock_guard<std::mutex> guard(memory_map().lock);
  const auto found = handles().known.find(handle);
  return found == handles().known.end() ? MemoryHandle{} : found->second.what;
}

CUmemGenericAllocationHandle handle_of(std::shared_ptr<Multicast> object) {
  std::lock_guard<std::mutex> guard(memory_map().lock);
  return handle_for({nullptr, std::move(object)});
}

cudaError_t retain_handle(const void* address, CUmemGenericAllocationHandle* handle) {
  MemoryMap& map = memory_map();
  std::lock_guard<std::mutex> guard(map.lock);
  const auto found = map.around(address);
  if (found == map.entries.end() || found->second.kind != MemoryKind::vmm) return cudaErrorInvalidValue;
  *handle = handle_for({found->second.physical, nullptr});
  return cudaSuccess;
}

cudaError_t release_handle(CUmemGenericAllocationHandle handle) {
  MemoryHandle last;  // let go after the lock
  std::lock_guard<std::mutex> guard(memory_map().lock);
  const auto found = handles().known.find(handle);
  if (found == handles().known.end()) return cudaErrorInvalidValue;
  if (--found->second.references == 0) {
    last = std::move(found->second.what);
    handles().known.erase(found);
  }
  return cudaSuccess;
}

// The descriptor that crosses to the importer is an open file of its own, and its position says which allocation of the
// file is meant.
cudaError_t export_fd(CUmemGenericAllocationHandle handle, int* fd) {
  const MemoryHandle what = find_handle(handle);
  if (what.multicast) {
    *fd = ::fcntl(what.multicast->fd(), F_DUPFD_CLOEXEC, 0);
    return *fd < 0 ? cudaErrorOperatingSystem : cudaSuccess;
  }
  if (!what.physical) return cudaErrorInvalidValue;
  const std::string path = "/proc/self/fd/" + std::to_string(what.physical->arena->fd());
  const int opened = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0) return cudaErrorOperatingSystem;
  if (::lseek(opened, static_cast<off_t>(what.physical->offset), SEEK_SET) < 0) {
    ::close(opened);
    return cudaErrorOperatingSystem;
  }
  *fd = opened;
  return cudaSuccess;
}

cudaError_t import_fd(int fd, CUmemGenericAllocationHandle* handle) {
  if (std::shared_ptr<Multicast> object = Multicast::from_fd(fd)) {
    *handle = handle_of(std::move(object));
    return cudaSuccess;
  }
  const off_t position = ::lseek(fd, 0, SEEK_CUR);
  const auto offset = static_cast<std::uint64_t>(position);
  std::shared_ptr<Arena> arena = Arena::from_fd(fd);
  PageRecord record;
  int device;
  if (position < 0 || !arena || !describe(*arena, offset, &record, &device)) return cudaErrorInvalidValue;
  std::lock_guard<std::mutex> guard(memory_map().lock);
  std::shared_ptr<Physical> physical = known_at(*arena, offset);
  if (!physical) {
    if (arena->is_own()) return cudaErrorInvalidValue;  // freed since
    physical = std::make_shared<Physical>(std::move(arena), offset, record.bytes, device);
    CUmemAllocationProp& properties = physical->properties;
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties.location.type = device == kHostMemory ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device == kHostMemory ? 0 : device;
  }
  *handle = handle_for({std::move(physical), nullptr});
  return cudaSuccess;
}

}  // namespace hostcuda::rt
