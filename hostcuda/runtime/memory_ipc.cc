// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory_ipc.h"

#include <unistd.h>

#include <cstring>

#include "runtime/error.h"
#include "runtime/memory_map.h"

namespace hostcuda::rt {
namespace {

// 64 bytes that cross to another process.
struct IpcHandle {
  std::uint64_t magic, inode, offset, bytes;
  std::int32_t pid, fd;
};
constexpr std::uint64_t kIpcMagic = 0x3163706961646368ULL;
static_assert(sizeof(IpcHandle) <= sizeof(cudaIpcMemHandle_t));

}  // namespace

cudaError_t export_ipc(const void* address, cudaIpcMemHandle_t* handle) {
  const MemoryInfo info = memory_at(address);
  if (info.kind != MemoryKind::device) return cudaErrorInvalidValue;
  const Arena& arena = Arena::own();
  const IpcHandle made{kIpcMagic, arena.inode(), info.base - kWindowBase, info.bytes, ::getpid(), arena.fd()};
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle, &made, sizeof made);
  return cudaSuccess;
}

cudaError_t import_ipc(const cudaIpcMemHandle_t& handle, void** address) {
  IpcHandle told;
  std::memcpy(&told, &handle, sizeof told);
  if (told.magic != kIpcMagic) return cudaErrorInvalidValue;
  if (told.inode == Arena::own().inode()) return cudaErrorDeviceUninitialized;  // as CUDA: not in the exporting process
  std::shared_ptr<Arena> arena = Arena::from_process(told.pid, told.fd, told.inode);
  if (!arena) {
    complain("cannot open the memory of process %d: it has ended, or this process may not look into it", told.pid);
    return cudaErrorMapBufferObjectFailed;
  }
  PageRecord record;
  int device;
  if (!describe(*arena, told.offset, &record, &device) || record.bytes != told.bytes) {
    return cudaErrorInvalidResourceHandle;
  }

  MemoryMap& map = memory_map();
  std::lock_guard<std::mutex> guard(map.lock);
  for (auto& [at, entry] : map.entries) {
    if (entry.kind == MemoryKind::imported && entry.physical->lies_at(*arena, told.offset)) {
      ++entry.opened;
      *address = reinterpret_cast<void*>(at);
      return cudaSuccess;
    }
  }
  const std::uint64_t at = take_addresses(told.bytes, 0);
  if (at == 0) return cudaErrorMapBufferObjectFailed;
  if (!arena->map(at, told.offset, whole_pages(told.bytes) * kPageBytes)) {
    give_addresses(at, told.bytes);
    return cudaErrorMapBufferObjectFailed;
  }
  auto physical = std::make_shared<Physical>(std::move(arena), told.offset, told.bytes, device);
  set_owner(at, told.bytes, owner_of(device));
  map.entries[at] = {MemoryKind::imported, device, told.bytes, 0, std::move(physical), 1, {}};
  *address = reinterpret_cast<void*>(at);
  return cudaSuccess;
}

cudaError_t close_ipc(void* address) {
  MemoryMap& map = memory_map();
  std::lock_guard<std::mutex> guard(map.lock);
  const auto found = map.entries.find(reinterpret_cast<std::uint64_t>(address));
  if (found == map.entries.end() || found->second.kind != MemoryKind::imported) return cudaErrorInvalidValue;
  if (--found->second.opened != 0) return cudaSuccess;
  const std::uint64_t bytes = found->second.bytes;
  set_owner(found->first, bytes, kOwnerNone);
  unmap(found->first, whole_pages(bytes) * kPageBytes);
  give_addresses(found->first, bytes);
  map.entries.erase(found);
  return cudaSuccess;
}

}  // namespace hostcuda::rt
