// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's stream-ordered allocation. Memory is there as soon as the call returns, which no stream can mind;
// it goes back to its pool when the stream has come to the call that frees it.
#include "runtime/capture.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/pool.h"

namespace hostcuda::rt {
namespace {

// A capture would make this a node whose memory belongs to the graph.
cudaError_t refuse_capture(const Stream& stream, const char* what) {
  invalidate(*stream.capture);
  return refuse_unsupported(what);
}

// From `pool`, or where there is none from the one that the stream's device uses.
cudaError_t allocate_in_stream(void** address, std::size_t bytes, PoolRef pool, cudaStream_t handle) {
  if (address == nullptr) return cudaErrorInvalidValue;
  std::unique_lock<std::mutex> lock(runtime_lock());
  const StreamRef stream = find_stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (stream->capture) return refuse_capture(*stream, "allocating from a pool during a capture (memory of a graph)");
  if (const cudaError_t error = usable_now(*stream); error != cudaSuccess) return error;
  lock.unlock();
  try {
    return allocate_from(pool ? pool : current_pool(stream->device->place), bytes, address);
  } catch (const std::exception& error) {
    complain("%s", error.what());
    return cudaErrorMemoryAllocation;
  }
}

cudaError_t check_location(const cudaMemLocation& location, const Device** found) {
  *found = location.type == cudaMemLocationTypeDevice ? device(location.id) : nullptr;
  return location.type != cudaMemLocationTypeDevice ? cudaErrorInvalidValue
         : *found == nullptr                        ? cudaErrorInvalidDevice
                                                    : cudaSuccess;
}

cudaError_t tell_pool(cudaMemPool_t* pool, int number, PoolRef (*pool_of)(int place)) {
  const Device* owner = device(number);
  if (pool == nullptr) return report(cudaErrorInvalidValue);
  if (owner == nullptr) return report(cudaErrorInvalidDevice);
  *pool = handle_of(pool_of(owner->place));
  return cudaSuccess;
}

}  // namespace
}  // namespace hostcuda::rt

using namespace hostcuda::rt;

HC_EXPORT cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  if (pool == nullptr || properties == nullptr || properties->allocType != cudaMemAllocationTypePinned) {
    return report(cudaErrorInvalidValue);
  }
  if (properties->handleTypes != cudaMemHandleTypeNone) {
    return refuse_unsupported("a memory pool shared between processes");
  }
  if (properties->location.type == cudaMemLocationTypeHost ||
      properties->location.type == cudaMemLocationTypeHostNuma) {
    return refuse_unsupported("a memory pool of host memory");
  }
  const Device* owner;
  if (const cudaError_t error = check_location(properties->location, &owner); error != cudaSuccess) {
    return report(error);
  }
  *pool = handle_of(make_pool(owner->place, properties->maxSize));
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle) {
  const PoolRef pool = find_pool(handle);
  return report(pool && forget_pool(pool) ? cudaSuccess : cudaErrorInvalidValue);
}

HC_EXPORT cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  const PoolRef pool = find_pool(handle);
  return report(pool && value != nullptr ? set_attribute(*pool, attribute, value) : cudaErrorInvalidValue);
}

HC_EXPORT cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  const PoolRef pool = find_pool(handle);
  return report(pool && value != nullptr ? get_attribute(*pool, attribute, value) : cudaErrorInvalidValue);
}

HC_EXPORT cudaError_t cudaMemPoolTrimTo(cudaMemPool_t handle, size_t keep_bytes) {
  const PoolRef pool = find_pool(handle);
  if (!pool) return report(cudaErrorInvalidValue);
  trim(*pool, keep_bytes);
  return cudaSuccess;
}

// Every device reaches all memory all the time; only the answers keep to what was asked for.
HC_EXPORT cudaError_t cudaMemPoolSetAccess(cudaMemPool_t handle, const cudaMemAccessDesc* wanted, size_t count) {
  const PoolRef pool = find_pool(handle);
  if (!pool || (wanted == nullptr && count != 0)) return report(cudaErrorInvalidValue);
  std::lock_guard<std::mutex> guard(runtime_lock());
  const Device* peer;
  for (size_t i = 0; i < count; ++i) {
    if (const cudaError_t error = check_location(wanted[i].location, &peer); error != cudaSuccess) return report(error);
    const bool owner = peer->place == pool->place;
    if ((wanted[i].flags != cudaMemAccessFlagsProtNone && wanted[i].flags != cudaMemAccessFlagsProtReadWrite) ||
        (owner && wanted[i].flags == cudaMemAccessFlagsProtNone)) {
      return report(cudaErrorInvalidValue);
    }
  }
  for (size_t i = 0; i < count; ++i) pool->access[wanted[i].location.id] = wanted[i].flags;
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t handle, cudaMemLocation* location) {
  const PoolRef pool = find_pool(handle);
  if (!pool || flags == nullptr || location == nullptr) return report(cudaErrorInvalidValue);
  const Device* peer;
  if (const cudaError_t error = check_location(*location, &peer); error != cudaSuccess) return report(error);
  std::lock_guard<std::mutex> guard(runtime_lock());
  const auto asked = pool->access.find(location->id);
  *flags = peer->place == pool->place     ? cudaMemAccessFlagsProtReadWrite
           : asked == pool->access.end() ? cudaMemAccessFlagsProtNone
                                          : asked->second;
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int number) {
  return tell_pool(pool, number, default_pool);
}

HC_EXPORT cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int number) {
  return tell_pool(pool, number, current_pool);
}

HC_EXPORT cudaError_t cudaDeviceSetMemPool(int number, cudaMemPool_t handle) {
  const Device* owner = device(number);
  const PoolRef pool = find_pool(handle);
  if (owner == nullptr) return report(cudaErrorInvalidDevice);
  if (!pool || pool->place != owner->place) return report(cudaErrorInvalidValue);
  use_pool(owner->place, pool);
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaMallocFromPoolAsync(void** address, size_t bytes, cudaMemPool_t handle, cudaStream_t stream) {
  HC_DEVICE(here);
  (void)here;
  const PoolRef pool = find_pool(handle);
  return report(pool ? allocate_in_stream(address, bytes, pool, stream) : cudaErrorInvalidValue);
}

HC_EXPORT cudaError_t cudaMallocAsync(void** address, size_t bytes, cudaStream_t stream) {
  HC_DEVICE(here);
  (void)here;
  return report(allocate_in_stream(address, bytes, nullptr, stream));
}

HC_EXPORT cudaError_t cudaFreeAsync(void* address, cudaStream_t handle) {
  HC_DEVICE(here);
  (void)here;
  if (address == nullptr) return cudaSuccess;
  std::lock_guard<std::mutex> guard(runtime_lock());
  const StreamRef stream = find_stream(handle);
  if (!stream) return report(cudaErrorInvalidResourceHandle);
  if (stream->capture) return refuse_capture(*stream, "cudaFreeAsync during a capture (memory of a graph)");
  if (const cudaError_t error = usable_now(*stream); error != cudaSuccess) return report(error);
  if (!claim(address)) return report(cudaErrorInvalidValue);
  const OpRef op = make_op(OpKind::release);
  op->work = [address] {
    give_back(address);
    return true;
  };
  return report(enqueue(stream, op));
}

HC_EXPORT cudaError_t cudaMemPoolExportToShareableHandle(void*, cudaMemPool_t, cudaMemAllocationHandleType, unsigned) {
  return refuse_unsupported("cudaMemPoolExportToShareableHandle");
}

HC_EXPORT cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t*, void*, cudaMemAllocationHandleType,
                                                           unsigned) {
  return refuse_unsupported("cudaMemPoolImportFromShareableHandle");
}

HC_EXPORT cudaError_t cudaMemPoolExportPointer(cudaMemPoolPtrExportData*, void*) {
  return refuse_unsupported("cudaMemPoolExportPointer");
}

HC_EXPORT cudaError_t cudaMemPoolImportPointer(void**, cudaMemPool_t, cudaMemPoolPtrExportData*) {
  return refuse_unsupported("cudaMemPoolImportPointer");
}
