// SPDX-License-Identifier: Apache-2.0
#include "simt/memory.h"

#include <sys/mman.h>

#include <atomic>
#include <map>
#include <mutex>
#include <new>

#include "simt/sanitizer.h"

namespace hostcuda::simt {
namespace {

// Two mappings a guarded stack; the kernel allows 65,530 mappings a process. Past this many slabs only the lowest
// stack of a slab keeps its guard page.
constexpr std::size_t kGuardedSlabs = 700;
constexpr std::size_t kMaxSlabs = 1 << 14;

std::mutex pool_mutex;
std::vector<StackSlab> free_slabs;
std::multimap<std::size_t, char*> free_shared;

// All slabs that exist, for the fault handler: appended to, never removed.
std::atomic<char*> slab_bases[kMaxSlabs];
std::atomic<std::size_t> slab_count{0};

}  // namespace

StackSlab take_stacks() {
  std::lock_guard lock(pool_mutex);
  if (!free_slabs.empty()) {
    StackSlab slab = free_slabs.back();
    free_slabs.pop_back();
    for (unsigned lane = 0; lane < kWarpSize; ++lane) forget_stack(slab.lowest(lane), StackSlab::kStackBytes);
    return slab;
  }
  std::size_t index = slab_count.load(std::memory_order_relaxed);
  if (index == kMaxSlabs) throw std::bad_alloc();
  void* mapped = mmap(nullptr, StackSlab::kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  StackSlab slab{static_cast<char*>(mapped)};
  // Huge pages would make every stack cost 2 MiB of memory.
  madvise(mapped, StackSlab::kBytes, MADV_NOHUGEPAGE);
  unsigned guards = index < kGuardedSlabs ? kWarpSize : 1;
  for (unsigned lane = 0; lane < guards; ++lane) {
    if (mprotect(slab.guard(lane), StackSlab::kPage, PROT_NONE) != 0) {
      munmap(mapped, StackSlab::kBytes);
      throw std::bad_alloc();
    }
  }
  slab_bases[index].store(slab.base, std::memory_order_relaxed);
  slab_count.store(index + 1, std::memory_order_release);
  return slab;
}

void give_stacks(StackSlab slab) {
  std::lock_guard lock(pool_mutex);
  free_slabs.push_back(slab);
}

bool is_stack_guard(const void* address) {
  auto* where = static_cast<const char*>(address);
  std::size_t count = slab_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    const char* base = slab_bases[i].load(std::memory_order_relaxed);
    if (where >= base && where < base + StackSlab::kBytes)
      return static_cast<std::size_t>(where - base) % StackSlab::kStride < StackSlab::kPage;
  }
  return false;
}

char* take_shared(std::size_t bytes) {
  {
    std::lock_guard lock(pool_mutex);
    if (auto found = free_shared.find(bytes); found != free_shared.end()) {
      char* block = found->second;
      free_shared.erase(found);
      return block;
    }
  }
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  return static_cast<char*>(mapped);
}

void give_shared(char* block, std::size_t bytes) {
  std::lock_guard lock(pool_mutex);
  free_shared.emplace(bytes, block);
}

}  // namespace hostcuda::simt
