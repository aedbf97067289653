// SPDX-License-Identifier: Apache-2.0
// Memory pools: memory that is given back in stream order and kept for the next who asks. All functions may be called
// by any thread, with or without the runtime's lock.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>

namespace hostcuda::rt {

// A pool lives as long as its handle or a block that has not been given back.
struct Pool {
  int place;                    // the device's on the machine
  std::uint64_t most_bytes;     // 0: as much as the device has
  std::uint32_t reuse[3] = {1, 1, 1};  // the three attributes that allow reuse, which is always safe here
  std::uint64_t release_threshold_bytes = 0;
  std::uint64_t reserved_bytes = 0, reserved_high_bytes = 0;  // of the device
  std::uint64_t used_bytes = 0, used_high_bytes = 0;          // by the program
  std::multimap<std::uint64_t, void*> idle;                   // by their size
  std::map<int, cudaMemAccessFlags> access;                   // that the program asked for, by device number

  Pool(int of_place, std::uint64_t most) : place(of_place), most_bytes(most) {}
  ~Pool();
};
using PoolRef = std::shared_ptr<Pool>;

PoolRef make_pool(int place, std::uint64_t most_bytes);
PoolRef find_pool(cudaMemPool_t handle);
inline cudaMemPool_t handle_of(const PoolRef& pool) { return reinterpret_cast<cudaMemPool_t>(pool.get()); }
// A device's default pool, and the one that it uses at present.
PoolRef default_pool(int place);
PoolRef current_pool(int place);
void use_pool(int place, PoolRef pool);
// False for a default pool, which stays.
bool forget_pool(const PoolRef& pool);

cudaError_t allocate_from(const PoolRef& pool, std::uint64_t bytes, void** address);

// Whether `address` is the first of a block of a pool, the program's or idle. Claiming it is the call that frees it:
// only one is right. What is claimed is given back later, when nothing uses it any more.
bool is_pooled(const void* address);
bool claim(const void* address);
void give_back(void* address);

cudaError_t get_attribute(Pool& pool, cudaMemPoolAttr attribute, void* value);
cudaError_t set_attribute(Pool& pool, cudaMemPoolAttr attribute, const void* value);

// Gives idle blocks back to the device until no more than `keep_bytes` are reserved.
void trim(Pool& pool, std::uint64_t keep_bytes);
// The same for all pools, to their thresholds: what CUDA does when the host has synchronized.
void trim_all();

}  // namespace hostcuda::rt
