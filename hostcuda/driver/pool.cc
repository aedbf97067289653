// SPDX-License-Identifier: Apache-2.0
// The driver's stream-ordered allocation and its memory pools, which are the runtime's.
#include "driver/driver.h"

using namespace hostcuda;
using namespace hostcuda::driver;

static_assert(sizeof(CUmemPoolProps) == sizeof(cudaMemPoolProps));
static_assert(sizeof(CUmemAccessDesc) == sizeof(cudaMemAccessDesc));

namespace {

cudaMemPoolAttr same(CUmemPool_attribute attribute) { return static_cast<cudaMemPoolAttr>(attribute); }

}  // namespace

HC_EXPORT CUresult cuMemAllocAsync(CUdeviceptr* address, std::size_t bytes, CUstream stream) {
  return quietly([&] { return cudaMallocAsync(reinterpret_cast<void**>(address), bytes, stream); });
}

HC_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, std::size_t bytes, CUmemoryPool pool,
                                           CUstream stream) {
  return quietly([&] { return cudaMallocFromPoolAsync(reinterpret_cast<void**>(address), bytes, pool, stream); });
}

HC_EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  return quietly([&] { return cudaFreeAsync(reinterpret_cast<void*>(address), stream); });
}

HC_EXPORT CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  return quietly([&] { return cudaMemPoolCreate(pool, reinterpret_cast<const cudaMemPoolProps*>(properties)); });
}

HC_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  return quietly([&] { return cudaMemPoolDestroy(pool); });
}

HC_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  return quietly([&] { return cudaMemPoolSetAttribute(pool, same(attribute), value); });
}

HC_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  return quietly([&] { return cudaMemPoolGetAttribute(pool, same(attribute), value); });
}

HC_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, std::size_t keep_bytes) {
  return quietly([&] { return cudaMemPoolTrimTo(pool, keep_bytes); });
}

HC_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* wanted, std::size_t count) {
  return quietly([&] { return cudaMemPoolSetAccess(pool, reinterpret_cast<const cudaMemAccessDesc*>(wanted), count); });
}

HC_EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation* location) {
  return quietly([&] {
    return cudaMemPoolGetAccess(reinterpret_cast<cudaMemAccessFlags*>(flags), pool,
                                reinterpret_cast<cudaMemLocation*>(location));
  });
}

HC_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  return quietly([&] { return cudaDeviceGetDefaultMemPool(pool, device); });
}

HC_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  return quietly([&] { return cudaDeviceGetMemPool(pool, device); });
}

HC_EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  return quietly([&] { return cudaDeviceSetMemPool(device, pool); });
}
