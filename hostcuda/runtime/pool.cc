// SPDX-License-Identifier: Apache-2.0
#include "runtime/pool.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

#include "runtime/extent.h"
#include "runtime/memory.h"

namespace hostcuda::rt {
namespace {

struct Block {
  PoolRef pool;
  std::uint64_t bytes, asked_bytes;
  bool claimed = false;
};

struct State {
  std::recursive_mutex lock;  // pools go away with their last block
  std::map<const Pool*, PoolRef> pools;
  std::map<int, PoolRef> defaults, current;  // by place
  std::map<const void*, Block> blocks;       // that the program has
  std::set<const void*> idle;                // those of all pools that it has not
  std::atomic<std::size_t> idle_blocks{0};   // their number, to be asked without the lock
};

State& state() {
  static auto* all = new State;  // never freed: other libraries free device memory while the process ends
  return *all;
}

using Guard = std::lock_guard<std::recursive_mutex>;

void forget_idle(Pool& pool, std::multimap<std::uint64_t, void*>::iterator idle) {
  state().idle.erase(idle->second);
  pool.idle.erase(idle);
  state().idle_blocks = state().idle.size();
}

void let_go(Pool& pool, std::multimap<std::uint64_t, void*>::iterator idle) {
  release(idle->second, MemoryKind::device);
  pool.reserved_bytes -= idle->first;
  forget_idle(pool, idle);
}

}  // namespace

Pool::~Pool() {
  while (!idle.empty()) let_go(*this, idle.begin());
}

PoolRef make_pool(int place, std::uint64_t most_bytes) {
  auto pool = std::make_shared<Pool>(place, most_bytes);
  const Guard guard(state().lock);
  state().pools[pool.get()] = pool;
  return pool;
}

PoolRef find_pool(cudaMemPool_t handle) {
  const Guard guard(state().lock);
  const auto found = state().pools.find(reinterpret_cast<const Pool*>(handle));
  return found == state().pools.end() ? nullptr : found->second;
}

PoolRef default_pool(int place) {
  const Guard guard(state().lock);
  PoolRef& pool = state().defaults[place];
  if (!pool) pool = make_pool(place, 0);
  return pool;
}

PoolRef current_pool(int place) {
  const Guard guard(state().lock);
  const auto found = state().current.find(place);
  return found == state().current.end() ? default_pool(place) : found->second;
}

void use_pool(int place, PoolRef pool) {
  const Guard guard(state().lock);
  state().current[place] = std::move(pool);
}

bool forget_pool(const PoolRef& pool) {
  const Guard guard(state().lock);
  if (default_pool(pool->place) == pool) return false;
  if (current_pool(pool->place) == pool) state().current.erase(pool->place);
  state().pools.erase(pool.get());
  return true;
}

cudaError_t allocate_from(const PoolRef& pool, std::uint64_t bytes, void** address) {
  *address = nullptr;
  if (bytes == 0) return cudaErrorInvalidValue;
  const Guard guard(state().lock);
  std::uint64_t whole = round_up(bytes, kPageBytes);
  const auto fitting = pool->idle.lower_bound(whole);
  if (fitting != pool->idle.end() && fitting->first <= 2 * whole) {
    whole = fitting->first;
    *address = fitting->second;
    forget_idle(*pool, fitting);
  } else {
    if (pool->most_bytes != 0) {
      if (whole > pool->most_bytes) return cudaErrorMemoryAllocation;
      trim(*pool, pool->most_bytes - whole);
      if (pool->reserved_bytes > pool->most_bytes - whole) return cudaErrorMemoryAllocation;
    }
    cudaError_t error = allocate(pool->place, whole, 0, address);
    if (error == cudaErrorMemoryAllocation && state().idle_blocks != 0) {  // what pools keep is still to be had
      for (auto& [raw, other] : state().pools) trim(*other, 0);
      error = allocate(pool->place, whole, 0, address);
    }
    if (error != cudaSuccess) return error;
    pool->reserved_bytes += whole;
    pool->reserved_high_bytes = std::max(pool->reserved_high_bytes, pool->reserved_bytes);
  }
  pool->used_bytes += bytes;
  pool->used_high_bytes = std::max(pool->used_high_bytes, pool->used_bytes);
  state().blocks[*address] = {pool, whole, bytes};
  return cudaSuccess;
}

bool is_pooled(const void* address) {
  const Guard guard(state().lock);
  return state().blocks.count(address) != 0 || state().idle.count(address) != 0;
}

bool claim(const void* address) {
  const Guard guard(state().lock);
  const auto found = state().blocks.find(address);
  if (found == state().blocks.end() || found->second.claimed) return false;
  found->second.claimed = true;
  return true;
}

void give_back(void* address) {
  const Guard guard(state().lock);
  const auto found = state().blocks.find(address);
  const Block block = std::move(found->second);
  state().blocks.erase(found);
  block.pool->used_bytes -= block.asked_bytes;
  block.pool->idle.emplace(block.bytes, address);
  state().idle.insert(address);
  state().idle_blocks = state().idle.size();
}

cudaError_t get_attribute(Pool& pool, cudaMemPoolAttr attribute, void* value) {
  const Guard guard(state().lock);
  const auto tell = [value](std::uint64_t number) {
    *static_cast<std::uint64_t*>(value) = number;
    return cudaSuccess;
  };
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies:
      *static_cast<std::uint32_t*>(value) = pool.reuse[attribute - cudaMemPoolReuseFollowEventDependencies];
      return cudaSuccess;
    case cudaMemPoolAttrReleaseThreshold: return tell(pool.release_threshold_bytes);
    case cudaMemPoolAttrReservedMemCurrent: return tell(pool.reserved_bytes);
    case cudaMemPoolAttrReservedMemHigh: return tell(pool.reserved_high_bytes);
    case cudaMemPoolAttrUsedMemCurrent: return tell(pool.used_bytes);
    case cudaMemPoolAttrUsedMemHigh: return tell(pool.used_high_bytes);
    default: return cudaErrorInvalidValue;
  }
}

cudaError_t set_attribute(Pool& pool, cudaMemPoolAttr attribute, const void* value) {
  const Guard guard(state().lock);
  const auto reset = [value](std::uint64_t* high, std::uint64_t current) {  // high-water marks only start anew
    if (*static_cast<const std::uint64_t*>(value) != 0) return cudaErrorInvalidValue;
    *high = current;
    return cudaSuccess;
  };
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies:
      pool.reuse[attribute - cudaMemPoolReuseFollowEventDependencies] = *static_cast<const std::uint32_t*>(value);
      return cudaSuccess;
    case cudaMemPoolAttrReleaseThreshold:
      pool.release_threshold_bytes = *static_cast<const std::uint64_t*>(value);
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh: return reset(&pool.reserved_high_bytes, pool.reserved_bytes);
    case cudaMemPoolAttrUsedMemHigh: return reset(&pool.used_high_bytes, pool.used_bytes);
    default: return cudaErrorInvalidValue;
  }
}

void trim(Pool& pool, std::uint64_t keep_bytes) {
  const Guard guard(state().lock);
  while (!pool.idle.empty() && pool.reserved_bytes > keep_bytes) {
    // The largest that leaves enough.
    auto idle = pool.idle.upper_bound(pool.reserved_bytes - keep_bytes);
    if (idle == pool.idle.begin()) return;
    let_go(pool, --idle);
  }
}

void trim_all() {
  if (state().idle_blocks == 0) return;
  const Guard guard(state().lock);
  for (auto& [raw, pool] : state().pools) trim(*pool, pool->release_threshold_bytes);
}

}  // namespace hostcuda::rt
