// SPDX-License-Identifier: Apache-2.0
#include "runtime/pages.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <vector>

#include "runtime/machine.h"

namespace hostcuda::rt {
namespace {

struct Freed {
  std::uint64_t offset, bytes;
  int device;
};

struct Pages {
  std::mutex lock;  // innermost
  PageAllocator of_file{0, kWindowPages / 2};
  PageAllocator mapped{kWindowPages / 2, kWindowPages / 2};
  std::array<std::uint64_t, 256> used_bytes{};  // by owner
  std::vector<Freed> held;                      // freed by us, but a peer has it open: still used
};

Pages& all_pages() {
  static Pages* pages = new Pages;  // never freed: other libraries free device memory while the process ends
  return *pages;
}

void give_back(const Freed& freed) {
  const std::uint64_t pages = whole_pages(freed.bytes);
  Arena::own().discard(freed.offset, pages * kPageBytes);
  Arena::own().write_record(freed.offset, PageRecord{});
  std::lock_guard<std::mutex> guard(all_pages().lock);
  all_pages().of_file.give(freed.offset >> kPageShift, pages);
  all_pages().used_bytes[owner_of(freed.device)] -= pages * kPageBytes;
}

// Gives back what peers have let go of. They cannot tell us, so every question about memory asks.
void look_after_held() {
  std::vector<Freed> ready;
  {
    std::lock_guard<std::mutex> guard(all_pages().lock);
    std::vector<Freed>& held = all_pages().held;
    const auto still = std::partition(held.begin(), held.end(), [](const Freed& freed) {
      return Arena::own().is_held(freed.offset, freed.bytes);
    });
    ready.assign(still, held.end());
    held.erase(still, held.end());
  }
  for (const Freed& freed : ready) give_back(freed);
}

}  // namespace

std::uint8_t owner_of(int device) { return device == kHostMemory ? kOwnerHost : static_cast<std::uint8_t>(1 + device); }

void set_owner(std::uint64_t address, std::uint64_t bytes, std::uint8_t owner) {
  std::memset(hostcuda_page_owner + ((address - kWindowBase) >> kPageShift), owner, whole_pages(bytes));
}

std::uint64_t take_file_pages(int device, std::uint64_t bytes) {
  look_after_held();
  Arena& arena = Arena::own();
  const std::uint8_t owner = owner_of(device);
  const std::uint64_t pages = whole_pages(bytes);
  const Machine* m = machine();
  std::uint64_t first;
  {
    std::lock_guard<std::mutex> guard(all_pages().lock);
    std::uint64_t& used = all_pages().used_bytes[owner];
    if (device != kHostMemory && (m == nullptr || pages * kPageBytes > m->gpu.memory_bytes - used)) return ~0ULL;
    first = all_pages().of_file.take(pages);
    if (first == ~0ULL) return ~0ULL;
    used += pages * kPageBytes;
  }
  PageRecord record{kPageRecordMagic, bytes, owner, {}};
  if (device != kHostMemory) std::snprintf(record.bus_id, sizeof record.bus_id, "%s", m->gpus[device].bus_id.c_str());
  arena.write_record(first << kPageShift, record);
  return first << kPageShift;
}

void give_file_pages(std::uint64_t offset, std::uint64_t bytes, int device) {
  const Freed freed{offset, bytes, device};
  if (!Arena::own().is_held(offset, bytes)) return give_back(freed);
  std::lock_guard<std::mutex> guard(all_pages().lock);
  all_pages().held.push_back(freed);
}

bool describe(const Arena& arena, std::uint64_t offset, PageRecord* record, int* device) {
  if (offset % kPageBytes != 0 || offset >= kWindowBytes / 2 || !arena.read_record(offset, record)) return false;
  record->bus_id[sizeof record->bus_id - 1] = '\0';
  *device = kHostMemory;
  if (record->owner == kOwnerHost) return true;
  const Machine* m = machine();
  *device = m == nullptr ? -1 : m->find_bus_id(record->bus_id);
  return *device >= 0;
}

std::uint64_t take_addresses(std::uint64_t bytes, std::uint64_t alignment) {
  std::lock_guard<std::mutex> guard(all_pages().lock);
  const std::uint64_t aligned_pages = std::max<std::uint64_t>(1, alignment >> kPageShift);
  const std::uint64_t first = all_pages().mapped.take(whole_pages(bytes), aligned_pages);
  return first == ~0ULL ? 0 : kWindowBase + (first << kPageShift);
}

void give_addresses(std::uint64_t address, std::uint64_t bytes) {
  std::lock_guard<std::mutex> guard(all_pages().lock);
  all_pages().mapped.give((address - kWindowBase) >> kPageShift, whole_pages(bytes));
}

void device_memory(int device, std::uint64_t* free_bytes, std::uint64_t* total_bytes) {
  look_after_held();
  std::lock_guard<std::mutex> guard(all_pages().lock);
  *total_bytes = machine()->gpu.memory_bytes;
  *free_bytes = *total_bytes - all_pages().used_bytes[owner_of(device)];
}

}  // namespace hostcuda::rt
