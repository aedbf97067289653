// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "clock/timeline.h"
#include "runtime/error.h"
#include "runtime/machine.h"
#include "runtime/multicast.h"

namespace hostcuda::rt {
namespace {

constexpr std::uint64_t kZeroByDiscardBytes = 256 << 10;  // below, a system call costs more than the writes
constexpr std::uint64_t kSystemPageBytes = 4096;

struct Entry {
  MemoryKind kind;
  int device;
  std::uint64_t bytes;
  unsigned flags = 0;
  std::shared_ptr<Physical> physical;    // vmm and imported: keeps what is mapped alive
  unsigned opened = 0;                   // imported: times that it was opened
  std::shared_ptr<Multicast> multicast;  // multicast: likewise
};

// The lower half of the window shows our own file page by page, so that ordinary allocations need no mapping of their
// own. Peers' memory and the driver's mappings take addresses from the upper half.
struct State {
  std::mutex lock;
  std::map<std::uint64_t, Entry> entries;     // by address
  std::map<std::uint64_t, std::uint64_t> reserved;  // address ranges of cuMemAddressReserve
  struct Handle {
    std::shared_ptr<Physical> physical;  // or
    std::shared_ptr<Multicast> multicast;
    unsigned references;
  };
  std::map<CUmemGenericAllocationHandle, Handle> handles;
  CUmemGenericAllocationHandle next_handle = 0x100;

  std::mutex page_lock;  // innermost
  PageAllocator file_pages{0, kWindowPages / 2};
  PageAllocator mapped_pages{kWindowPages / 2, kWindowPages / 2};
  std::array<std::uint64_t, 256> used_bytes{};  // by owner
};

State& state() {
  static State* s = new State;  // never freed: other libraries free device memory while the process ends
  return *s;
}

std::uint8_t owner_of(int device) { return device == kHostMemory ? kOwnerHost : static_cast<std::uint8_t>(1 + device); }

std::uint8_t owner_of(const Physical& physical) {
  return static_cast<std::uint8_t>(owner_of(physical.device) + (physical.bound > 0 ? kOwnerBound : 0));
}

std::uint64_t whole_pages(std::uint64_t bytes) { return (bytes + kPageBytes - 1) >> kPageShift; }

void set_owner(std::uint64_t address, std::uint64_t bytes, std::uint8_t owner) {
  std::memset(hostcuda_page_owner + ((address - kWindowBase) >> kPageShift), owner, whole_pages(bytes));
}

// Pages of our own file for `device`, with their record; ~0 where its memory or the window is used up.
std::uint64_t take_file_pages(int device, std::uint64_t bytes) {
  Arena& arena = Arena::own();
  const std::uint8_t owner = owner_of(device);
  const std::uint64_t pages = whole_pages(bytes);
  const Machine* m = machine();
  std::uint64_t first;
  {
    std::lock_guard<std::mutex> guard(state().page_lock);
    std::uint64_t& used = state().used_bytes[owner];
    if (device != kHostMemory && (m == nullptr || pages * kPageBytes > m->gpu.memory_bytes - used)) return ~0ULL;
    first = state().file_pages.take(pages);
    if (first == ~0ULL) return ~0ULL;
    used += pages * kPageBytes;
  }
  PageRecord record{kPageRecordMagic, bytes, owner, {}};
  if (device != kHostMemory) std::snprintf(record.bus_id, sizeof record.bus_id, "%s", m->gpus[device].bus_id.c_str());
  arena.write_record(first << kPageShift, record);
  return first << kPageShift;
}

void give_file_pages(std::uint64_t offset, std::uint64_t bytes, int device) {
  const std::uint64_t pages = whole_pages(bytes);
  Arena::own().discard(offset, pages * kPageBytes);
  Arena::own().write_record(offset, PageRecord{});
  std::lock_guard<std::mutex> guard(state().page_lock);
  state().file_pages.give(offset >> kPageShift, pages);
  state().used_bytes[owner_of(device)] -= pages * kPageBytes;
}

// The owner by our own numbers of what a peer's file holds at `offset`; false where there is nothing.
bool describe(const Arena& arena, std::uint64_t offset, PageRecord* record, int* device) {
  if (offset % kPageBytes != 0 || offset >= kWindowBytes / 2 || !arena.read_record(offset, record)) return false;
  record->bus_id[sizeof record->bus_id - 1] = '\0';
  *device = kHostMemory;
  if (record->owner == kOwnerHost) return true;
  const Machine* m = machine();
  *device = m == nullptr ? -1 : m->find_bus_id(record->bus_id);
  return *device >= 0;
}

// With the lock held.
std::map<std::uint64_t, Entry>::iterator entry_around(const void* address) {
  auto& entries = state().entries;
  const auto at = reinterpret_cast<std::uint64_t>(address);
  auto found = entries.upper_bound(at);
  if (found == entries.begin()) return entries.end();
  --found;
  return at - found->first < found->second.bytes ? found : entries.end();
}

CUmemGenericAllocationHandle handle_for(std::shared_ptr<Physical> physical) {
  for (auto& [handle, known] : state().handles) {
    if (known.physical == physical) {
      ++known.references;
      return handle;
    }
  }
  const CUmemGenericAllocationHandle handle = state().next_handle++;
  state().handles[handle] = {std::move(physical), nullptr, 1};
  return handle;
}

// 64 bytes that cross to another process.
struct IpcHandle {
  std::uint64_t magic, inode, offset, bytes;
  std::int32_t pid, fd;
};
constexpr std::uint64_t kIpcMagic = 0x3163706961646368ULL;
static_assert(sizeof(IpcHandle) <= sizeof(cudaIpcMemHandle_t));

}  // namespace

std::uint64_t take_addresses(std::uint64_t bytes, std::uint64_t alignment) {
  std::lock_guard<std::mutex> guard(state().page_lock);
  const std::uint64_t first = state().mapped_pages.take(whole_pages(bytes), std::max<std::uint64_t>(1, alignment >> kPageShift));
  return first == ~0ULL ? 0 : kWindowBase + (first << kPageShift);
}

void give_addresses(std::uint64_t address, std::uint64_t bytes) {
  std::lock_guard<std::mutex> guard(state().page_lock);
  state().mapped_pages.give((address - kWindowBase) >> kPageShift, whole_pages(bytes));
}

Physical::~Physical() {
  if (arena && arena->is_own()) give_file_pages(offset, bytes, device);
}

MemoryInfo memory_at(const void* address) {
  std::lock_guard<std::mutex> guard(state().lock);
  const auto found = entry_around(address);
  if (found == state().entries.end()) return {};
  const Entry& entry = found->second;
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
  std::lock_guard<std::mutex> guard(state().lock);
  state().entries[at] = {device == kHostMemory ? MemoryKind::host : MemoryKind::device, device, bytes, flags, {}, 0, {}};
  return cudaSuccess;
}

cudaError_t release(void* address, MemoryKind kind) {
  if (address == nullptr) return cudaSuccess;
  Entry entry;
  {
    std::lock_guard<std::mutex> guard(state().lock);
    const auto found = state().entries.find(reinterpret_cast<std::uint64_t>(address));
    if (found == state().entries.end() || found->second.kind != kind) return cudaErrorInvalidValue;
    entry = std::move(found->second);
    state().entries.erase(found);
  }
  const auto at = reinterpret_cast<std::uint64_t>(address);
  clock::forget_device_times(at, entry.bytes);
  set_owner(at, entry.bytes, kOwnerNone);
  give_file_pages(at - kWindowBase, entry.bytes, entry.device);
  return cudaSuccess;
}

void device_memory(int device, std::uint64_t* free_bytes, std::uint64_t* total_bytes) {
  std::lock_guard<std::mutex> guard(state().page_lock);
  *total_bytes = machine()->gpu.memory_bytes;
  *free_bytes = *total_bytes - state().used_bytes[owner_of(device)];
}

cudaError_t register_host(void* address, std::uint64_t bytes, unsigned flags) {
  if (address == nullptr || bytes == 0) return cudaErrorInvalidValue;
  std::lock_guard<std::mutex> guard(state().lock);
  const auto at = reinterpret_cast<std::uint64_t>(address);
  const auto next = state().entries.lower_bound(at);
  if (entry_around(address) != state().entries.end() ||
      (next != state().entries.end() && next->first - at < bytes)) {
    return cudaErrorHostMemoryAlreadyRegistered;
  }
  state().entries[at] = {MemoryKind::registered, kHostMemory, bytes, flags, {}, 0, {}};
  return cudaSuccess;
}

cudaError_t unregister_host(void* address) {
  std::lock_guard<std::mutex> guard(state().lock);
  const auto found = state().entries.find(reinterpret_cast<std::uint64_t>(address));
  if (found == state().entries.end() || found->second.kind != MemoryKind::registered) {
    return cudaErrorHostMemoryNotRegistered;
  }
  state().entries.erase(found);
  return cudaSuccess;
}

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
  if (!describe(*arena, told.offset, &record, &device) || record.bytes != told.bytes) return cudaErrorInvalidResourceHandle;

  std::lock_guard<std::mutex> guard(state().lock);
  for (auto& [at, entry] : state().entries) {
    if (entry.kind == MemoryKind::imported && entry.physical->arena == arena && entry.physical->offset == told.offset) {
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
  auto physical = std::make_shared<Physical>();
  physical->arena = std::move(arena);
  physical->offset = told.offset;
  physical->bytes = told.bytes;
  physical->device = device;
  set_owner(at, told.bytes, owner_of(device));
  state().entries[at] = {MemoryKind::imported, device, told.bytes, 0, std::move(physical), 1, {}};
  *address = reinterpret_cast<void*>(at);
  return cudaSuccess;
}

cudaError_t close_ipc(void* address) {
  std::lock_guard<std::mutex> guard(state().lock);
  const auto found = state().entries.find(reinterpret_cast<std::uint64_t>(address));
  if (found == state().entries.end() || found->second.kind != MemoryKind::imported) return cudaErrorInvalidValue;
  if (--found->second.opened != 0) return cudaSuccess;
  const std::uint64_t bytes = found->second.bytes;
  set_owner(found->first, bytes, kOwnerNone);
  unmap(found->first, whole_pages(bytes) * kPageBytes);
  give_addresses(found->first, bytes);
  state().entries.erase(found);
  return cudaSuccess;
}

cudaError_t create_physical(int device, std::uint64_t bytes, const CUmemAllocationProp& properties,
                            CUmemGenericAllocationHandle* handle) {
  if (bytes == 0 || bytes % kPageBytes != 0 || bytes > kWindowBytes / 2) return cudaErrorInvalidValue;
  const std::uint64_t offset = take_file_pages(device, bytes);
  if (offset == ~0ULL) return cudaErrorMemoryAllocation;
  auto physical = std::make_shared<Physical>();
  physical->arena = std::shared_ptr<Arena>(&Arena::own(), [](Arena*) {});
  physical->offset = offset;
  physical->bytes = bytes;
  physical->device = device;
  physical->properties = properties;
  std::lock_guard<std::mutex> guard(state().lock);
  *handle = handle_for(std::move(physical));
  return cudaSuccess;
}

std::shared_ptr<Physical> find_physical(CUmemGenericAllocationHandle handle) {
  std::lock_guard<std::mutex> guard(state().lock);
  const auto found = state().handles.find(handle);
  return found == state().handles.end() ? nullptr : found->second.physical;
}

std::shared_ptr<Multicast> find_multicast(CUmemGenericAllocationHandle handle) {
  std::lock_guard<std::mutex> guard(state().lock);
  const auto found = state().handles.find(handle);
  return found == state().handles.end() ? nullptr : found->second.multicast;
}

CUmemGenericAllocationHandle handle_of(std::shared_ptr<Multicast> object) {
  std::lock_guard<std::mutex> guard(state().lock);
  for (auto& [handle, known] : state().handles) {
    if (known.multicast != object) continue;
    ++known.references;
    return handle;
  }
  const CUmemGenericAllocationHandle handle = state().next_handle++;
  state().handles[handle] = {nullptr, std::move(object), 1};
  return handle;
}

MappedPart mapped_at(std::uint64_t address) {
  std::lock_guard<std::mutex> guard(state().lock);
  const auto found = entry_around(reinterpret_cast<void*>(address));
  if (found == state().entries.end() || found->second.kind != MemoryKind::vmm) return {};
  const std::uint64_t inside = address - found->first;
  return {found->second.physical, inside, found->second.bytes - inside};
}

void mark_bound(Physical& physical, int by) {
  std::lock_guard<std::mutex> guard(state().lock);
  physical.bound += by;
  for (const auto& [at, entry] : state().entries) {
    if (entry.physical.get() == &physical) set_owner(at, entry.bytes, owner_of(physical));
  }
}

cudaError_t release_handle(CUmemGenericAllocationHandle handle) {
  State::Handle last;  // let go after the lock
  std::lock_guard<std::mutex> guard(state().lock);
  const auto found = state().handles.find(handle);
  if (found == state().handles.end()) return cudaErrorInvalidValue;
  if (--found->second.references == 0) {
    last = std::move(found->second);
    state().handles.erase(found);
  }
  return cudaSuccess;
}

cudaError_t retain_handle(const void* address, CUmemGenericAllocationHandle* handle) {
  std::lock_guard<std::mutex> guard(state().lock);
  const auto found = entry_around(address);
  if (found == state().entries.end() || found->second.kind != MemoryKind::vmm) return cudaErrorInvalidValue;
  *handle = handle_for(found->second.physical);
  return cudaSuccess;
}

// The descriptor that crosses to the importer is an open file of its own, and its position says which allocation of the
// file is meant.
cudaError_t export_fd(CUmemGenericAllocationHandle handle, int* fd) {
  if (const std::shared_ptr<Multicast> object = find_multicast(handle)) {
    *fd = ::fcntl(object->fd(), F_DUPFD_CLOEXEC, 0);
    return *fd < 0 ? cudaErrorOperatingSystem : cudaSuccess;
  }
  const std::shared_ptr<Physical> physical = find_physical(handle);
  if (!physical) return cudaErrorInvalidValue;
  const std::string path = "/proc/self/fd/" + std::to_string(physical->arena->fd());
  const int opened = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0) return cudaErrorOperatingSystem;
  if (::lseek(opened, static_cast<off_t>(physical->offset), SEEK_SET) < 0) {
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
  const off_t offset = ::lseek(fd, 0, SEEK_CUR);
  std::shared_ptr<Arena> arena = Arena::from_fd(fd);
  PageRecord record;
  int device;
  if (offset < 0 || !arena || !describe(*arena, static_cast<std::uint64_t>(offset), &record, &device)) {
    return cudaErrorInvalidValue;
  }
  std::lock_guard<std::mutex> guard(state().lock);
  for (const auto& [known, entry] : state().handles) {
    if (entry.physical && entry.physical->arena->inode() == arena->inode() &&
        entry.physical->offset == static_cast<std::uint64_t>(offset)) {
      *handle = handle_for(entry.physical);
      return cudaSuccess;
    }
  }
  for (const auto& [at, entry] : state().entries) {
    if (entry.kind == MemoryKind::vmm && entry.physical->arena->inode() == arena->inode() &&
        entry.physical->offset == static_cast<std::uint64_t>(offset)) {
      *handle = handle_for(entry.physical);
      return cudaSuccess;
    }
  }
  if (arena->is_own()) return cudaErrorInvalidValue;  // freed since
  auto physical = std::make_shared<Physical>();
  physical->arena = std::move(arena);
  physical->offset = static_cast<std::uint64_t>(offset);
  physical->bytes = record.bytes;
  physical->device = device;
  physical->properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  physical->properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  physical->properties.location.type = device == kHostMemory ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_DEVICE;
  physical->properties.location.id = device == kHostMemory ? 0 : device;
  *handle = handle_for(std::move(physical));
  return cudaSuccess;
}

cudaError_t reserve_addresses(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t* address) {
  if (bytes == 0 || bytes % kPageBytes != 0 || bytes > kWindowBytes / 2 || (alignment & (alignment - 1)) != 0) {
    return cudaErrorInvalidValue;
  }
  Arena::own();  // the window has to be there
  const std::uint64_t at = take_addresses(bytes, alignment);
  if (at == 0) return cudaErrorMemoryAllocation;
  std::lock_guard<std::mutex> guard(state().lock);
  state().reserved[at] = bytes;
  *address = at;
  return cudaSuccess;
}

cudaError_t free_addresses(std::uint64_t address, std::uint64_t bytes) {
  {
    std::lock_guard<std::mutex> guard(state().lock);
    const auto found = state().reserved.find(address);
    const auto mapped = state().entries.lower_bound(address);
    if (found == state().reserved.end() || found->second != bytes ||
        (mapped != state().entries.end() && mapped->first < address + bytes)) {
      return cudaErrorInvalidValue;
    }
    state().reserved.erase(found);
  }
  give_addresses(address, bytes);
  return cudaSuccess;
}

cudaError_t map_physical(std::uint64_t address, std::uint64_t bytes, std::uint64_t offset,
                         CUmemGenericAllocationHandle handle, int device) {
  const std::shared_ptr<Physical> physical = find_physical(handle);
  const std::shared_ptr<Multicast> multicast = physical ? nullptr : find_multicast(handle);
  if ((!physical && !multicast) || bytes == 0 || bytes % kPageBytes != 0 || address % kPageBytes != 0) {
    return cudaErrorInvalidValue;
  }
  if (physical && (offset != 0 || bytes > whole_pages(physical->bytes) * kPageBytes)) return cudaErrorInvalidValue;
  if (multicast) {
    const std::uint64_t holds = whole_pages(multicast->bytes()) * kPageBytes;
    if (offset % kPageBytes != 0 || offset > holds || bytes > holds - offset) return cudaErrorInvalidValue;
    multicast->wait_for_devices();
  }
  std::lock_guard<std::mutex> guard(state().lock);
  auto range = state().reserved.upper_bound(address);
  if (range == state().reserved.begin()) return cudaErrorInvalidValue;
  --range;
  if (address + bytes > range->first + range->second) return cudaErrorInvalidValue;
  const auto next = state().entries.lower_bound(address);
  if (entry_around(reinterpret_cast<void*>(address)) != state().entries.end() ||
      (next != state().entries.end() && next->first < address + bytes)) {
    return cudaErrorAlreadyMapped;
  }
  if (multicast) {
    show_multicast(address, bytes, multicast, offset);
    set_owner(address, bytes, kOwnerMulticast);
    state().entries[address] = {MemoryKind::multicast, device, bytes, 0, nullptr, 0, multicast};
    return cudaSuccess;
  }
  if (!physical->arena->map(address, physical->offset, bytes)) return cudaErrorMapBufferObjectFailed;
  set_owner(address, bytes, owner_of(*physical));
  state().entries[address] = {MemoryKind::vmm, physical->device, bytes, 0, physical, 0, nullptr};
  return cudaSuccess;
}

cudaError_t unmap_physical(std::uint64_t address, std::uint64_t bytes) {
  std::vector<Entry> last;  // let go after the lock
  std::lock_guard<std::mutex> guard(state().lock);
  auto& entries = state().entries;
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

void copy_bytes(void* to, const void* from, std::uint64_t bytes) {
  if (!is_multicast(to)) {
    std::memmove(to, from, bytes);
  } else if (!multicast_write(to, from, bytes)) {
    complain("copy to a multicast address: %s", hostcuda_multicast_page(to)->error);
  }
}

void fill(void* address, std::uint32_t value, unsigned value_bytes, std::uint64_t bytes) {
  auto* at = static_cast<unsigned char*>(address);
  if (value == 0 && bytes >= kZeroByDiscardBytes && in_window(address) && !is_multicast(address)) {
    std::shared_ptr<Physical> mapped;
    std::uint64_t offset = ~0ULL;
    {
      std::lock_guard<std::mutex> guard(state().lock);
      const auto found = entry_around(address);
      if (found != state().entries.end()) {
        mapped = found->second.physical;
        const std::uint64_t inside = reinterpret_cast<std::uint64_t>(address) - found->first;
        offset = (mapped ? mapped->offset : found->first - kWindowBase) + inside;
      }
    }
    if (offset != ~0ULL) {
      const Arena& arena = mapped ? *mapped->arena : Arena::own();
      const std::uint64_t head = (kSystemPageBytes - offset % kSystemPageBytes) % kSystemPageBytes;
      const std::uint64_t body = (bytes - head) / kSystemPageBytes * kSystemPageBytes;
      std::memset(at, 0, head);
      ::fallocate(arena.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset + head),
                  static_cast<off_t>(body));
      std::memset(at + head + body, 0, bytes - head - body);
      return;
    }
  }
  if (is_multicast(address)) {
    for (std::uint64_t done = 0; done + value_bytes <= bytes; done += value_bytes) copy_bytes(at + done, &value, value_bytes);
    return;
  }
  if (value_bytes == 1) {
    std::memset(at, static_cast<int>(value), bytes);
    return;
  }
  for (std::uint64_t done = 0; done + value_bytes <= bytes; done += value_bytes) std::memcpy(at + done, &value, value_bytes);
}

}  // namespace hostcuda::rt
