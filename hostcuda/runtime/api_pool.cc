// SPDX-License-Identifier: Apache-2.0
// Stream-ordered allocation. Memory is there as soon as the call returns, which no stream can mind; it is given back when
// the stream has come to the call that frees it.
#include <map>

#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/memory.h"

namespace hostcuda::rt {
namespace {

struct Pool {
  int place;
  std::map<int, std::uint64_t> attributes;
};

std::map<cudaMemPool_t, std::unique_ptr<Pool>>& pools() {
  static auto* all = new std::map<cudaMemPool_t, std::unique_ptr<Pool>>;  // with runtime_lock
  return *all;
}

cudaMemPool_t add_pool(int place) {
  auto pool = std::make_unique<Pool>();
  pool->place = place;
  const auto handle = reinterpret_cast<cudaMemPool_t>(pool.get());
  pools()[handle] = std::move(pool);
  return handle;
}

cudaMemPool_t default_pool(const Device& device) {
  static auto* defaults = new std::map<int, cudaMemPool_t>;
  cudaMemPool_t& pool = (*defaults)[device.place];
  if (pool == nullptr) pool = add_pool(device.place);
  return pool;
}

cudaError_t allocate_from(void** address, std::size_t bytes, const Pool& pool, cudaStream_t stream) {
  if (address == nullptr) return cudaErrorInvalidValue;
  if (!find_stream(stream)) return cudaErrorInvalidResourceHandle;
  try {
    return allocate(pool.place, bytes, 0, address);
  } catch (const std::exception& error) {
    complain("%s", error.what());
    return cudaErrorMemoryAllocation;
  }
}

}  // namespace
}  // namespace hostcuda::rt

using namespace hostcuda::rt;

HC_EXPORT cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  if (pool == nullptr || properties == nullptr || properties->allocType != cudaMemAllocationTypePinned ||
      properties->location.type != cudaMemLocationTypeDevice) {
    return report(cudaErrorInvalidValue);
  }
  const Device* owner = device(properties->location.id);
  if (owner == nullptr) return report(cudaErrorInvalidDevice);
  std::lock_guard<std::mutex> guard(runtime_lock());
  *pool = add_pool(owner->place);
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  return report(pools().erase(pool) == 1 ? cudaSuccess : cudaErrorInvalidValue);
}

HC_EXPORT cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  const auto found = pools().find(pool);
  if (found == pools().end() || value == nullptr) return report(cudaErrorInvalidValue);
  const bool wide = attribute >= cudaMemPoolAttrReleaseThreshold;
  found->second->attributes[attribute] = wide ? *static_cast<std::uint64_t*>(value) : *static_cast<std::uint32_t*>(value);
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  const auto found = pools().find(pool);
  if (found == pools().end() || value == nullptr) return report(cudaErrorInvalidValue);
  const std::uint64_t known = found->second->attributes[attribute];
  if (attribute >= cudaMemPoolAttrReleaseThreshold) {
    *static_cast<std::uint64_t*>(value) = known;
  } else {
    *static_cast<std::uint32_t*>(value) = static_cast<std::uint32_t>(known);
  }
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  return report(pools().count(pool) == 1 ? cudaSuccess : cudaErrorInvalidValue);
}

HC_EXPORT cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int number) {
  const Device* owner = device(number);
  if (pool == nullptr || owner == nullptr) return report(pool == nullptr ? cudaErrorInvalidValue : cudaErrorInvalidDevice);
  std::lock_guard<std::mutex> guard(runtime_lock());
  *pool = default_pool(*owner);
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaMallocFromPoolAsync(void** address, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  HC_DEVICE(here);
  (void)here;
  std::lock_guard<std::mutex> guard(runtime_lock());
  const auto found = pools().find(pool);
  if (found == pools().end()) return report(cudaErrorInvalidValue);
  return report(allocate_from(address, bytes, *found->second, stream));
}

HC_EXPORT cudaError_t cudaMallocAsync(void** address, size_t bytes, cudaStream_t stream) {
  HC_DEVICE(here);
  std::lock_guard<std::mutex> guard(runtime_lock());
  return report(allocate_from(address, bytes, *pools()[default_pool(*here)], stream));
}

HC_EXPORT cudaError_t cudaFreeAsync(void* address, cudaStream_t handle) {
  HC_DEVICE(here);
  (void)here;
  if (address == nullptr) return cudaSuccess;
  const MemoryInfo info = memory_at(address);
  if (info.kind != MemoryKind::device || info.base != reinterpret_cast<std::uint64_t>(address)) {
    return report(cudaErrorInvalidValue);
  }
  const OpRef op = make_op(OpKind::release);
  op->work = [address] {
    release(address, MemoryKind::device);
    return true;
  };
  std::lock_guard<std::mutex> guard(runtime_lock());
  const StreamRef stream = find_stream(handle);
  if (!stream) return report(cudaErrorInvalidResourceHandle);
  return report(enqueue(stream, op));
}
