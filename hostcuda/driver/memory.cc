// SPDX-License-Identifier: Apache-2.0
// The driver's memory: virtual memory management, questions about pointers, and what it shares with the runtime.
#include "runtime/memory.h"

#include <algorithm>
#include <cstring>

#include "driver/driver.h"
#include "runtime/memory_handles.h"
#include "runtime/multicast.h"
#include "runtime/virtual_memory.h"

using namespace hostcuda;
using namespace hostcuda::driver;

namespace {

constexpr auto kShareable = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

bool is_host(CUmemLocationType type) {
  return type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
         type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

// The place that a location means; false where there is none such.
bool place_of(const CUmemLocation& location, int* place) {
  if (is_host(location.type)) {
    *place = rt::kHostMemory;
    return true;
  }
  const rt::Device* device = rt::device(location.id);
  if (location.type != CU_MEM_LOCATION_TYPE_DEVICE || device == nullptr) return false;
  *place = device->place;
  return true;
}

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

bool may_access(const CUmemAccessDesc& asked) {
  const bool known = asked.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || asked.flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
                     asked.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  int place;
  return known && place_of(asked.location, &place);
}

// How much of its target the answer to an attribute takes.
std::size_t attribute_bytes(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return 8;
    default: return 4;
  }
}

}  // namespace

HC_EXPORT CUresult cuMemGetAllocationGranularity(std::size_t* bytes, const CUmemAllocationProp* properties,
                                                 CUmemAllocationGranularity_flags which) {
  int place;
  if (bytes == nullptr || properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      !place_of(properties->location, &place) ||
      (which != CU_MEM_ALLOC_GRANULARITY_MINIMUM && which != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *bytes = rt::kPageBytes;
  return CUDA_SUCCESS;
}

HC_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                               const CUmemAllocationProp* properties, unsigned long long flags) {
  int place;
  if (handle == nullptr || properties == nullptr || flags != 0 || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      !place_of(properties->location, &place)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if ((properties->requestedHandleTypes & ~kShareable) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  return guarded([&] { return rt::create_physical(place, bytes, *properties, handle); });
}

HC_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return guarded([&] { return rt::release_handle(handle); });
}

HC_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] { return rt::retain_handle(address, handle); });
}

HC_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                          CUmemGenericAllocationHandle handle) {
  const auto physical = rt::find_handle(handle).physical;
  if (properties == nullptr || !physical) return CUDA_ERROR_INVALID_VALUE;
  *properties = physical->properties;
  return CUDA_SUCCESS;
}

HC_EXPORT CUresult cuMemExportToShareableHandle(void* shared, CUmemGenericAllocationHandle handle,
                                                CUmemAllocationHandleType type, unsigned long long flags) {
  const auto [physical, multicast] = rt::find_handle(handle);
  if (shared == nullptr || flags != 0 || (!physical && !multicast)) return CUDA_ERROR_INVALID_VALUE;
  if (type != kShareable) return CUDA_ERROR_NOT_SUPPORTED;
  const unsigned long long asked =
      physical ? physical->properties.requestedHandleTypes + 0ULL : multicast->handle_types();
  if ((asked & type) == 0) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] { return rt::export_fd(handle, static_cast<int*>(shared)); });
}

HC_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shared,
                                                  CUmemAllocationHandleType type) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != kShareable) return CUDA_ERROR_NOT_SUPPORTED;
  return guarded([&] { return rt::import_fd(static_cast<int>(reinterpret_cast<std::uintptr_t>(shared)), handle); });
}

HC_EXPORT CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t bytes, std::size_t alignment, CUdeviceptr,
                                       unsigned long long flags) {
  if (address == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] {
    std::uint64_t at = 0;
    const cudaError_t error = rt::reserve_addresses(bytes, alignment, &at);
    *address = at;
    return error;
  });
}

HC_EXPORT CUresult cuMemAddressFree(CUdeviceptr address, std::size_t bytes) {
  return guarded([&] { return rt::free_addresses(address, bytes); });
}

HC_EXPORT CUresult cuMemMap(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                            CUmemGenericAllocationHandle handle, unsigned long long flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const rt::Device* here = rt::current_device();
  if (here == nullptr) return no_device();
  return guarded([&] { return rt::map_physical(address, bytes, offset, handle, here->place); });
}

HC_EXPORT CUresult cuMemUnmap(CUdeviceptr address, std::size_t bytes) {
  return guarded([&] { return rt::unmap_physical(address, bytes); });
}

// Every device and the CPU reach all memory; who asks for access to memory that is not there still hears of it.
HC_EXPORT CUresult cuMemSetAccess(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access,
                                  std::size_t count) {
  const bool fine = access != nullptr && count != 0 && rt::is_mapped(address, bytes) &&
                    std::all_of(access, access + count, may_access);
  return fine ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

HC_EXPORT CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  int place;
  if (flags == nullptr || location == nullptr || !place_of(*location, &place) || !rt::is_mapped(address, 1)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}

HC_EXPORT CUresult cuMemGetAddressRange(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
  const rt::MemoryInfo info = rt::memory_at(pointer(address));
  if (info.kind == rt::MemoryKind::none || info.kind == rt::MemoryKind::registered) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = info.base;
  if (bytes != nullptr) *bytes = info.bytes;
  return CUDA_SUCCESS;
}

HC_EXPORT CUresult cuMemGetHandleForAddressRange(void*, CUdeviceptr, std::size_t, CUmemRangeHandleType,
                                                 unsigned long long) {
  return CUDA_ERROR_NOT_SUPPORTED;  // no DMA-BUF, as the attributes say
}

HC_EXPORT CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  const rt::MemoryInfo info = rt::memory_at(pointer(address));
  if (value == nullptr || info.kind == rt::MemoryKind::none) return CUDA_ERROR_INVALID_VALUE;
  cudaPointerAttributes known;
  if (quietly([&] { return cudaPointerGetAttributes(&known, pointer(address)); }) != CUDA_SUCCESS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool on_host = info.device == rt::kHostMemory;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(value) = context_of(rt::device(known.device));
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(value) = on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(value) = address;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!on_host) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<void**>(value) = pointer(address);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(value) = known.device;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(value) = info.base;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<std::size_t*>(value) = info.bytes;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(value) = info.base;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *static_cast<int*>(value) = info.kind == rt::MemoryKind::device;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      *static_cast<unsigned*>(value) = 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *static_cast<unsigned*>(value) = 1;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      *static_cast<unsigned long long*>(value) = info.kind == rt::MemoryKind::vmm ? kShareable : 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

HC_EXPORT CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values,
                                          CUdeviceptr address) {
  if (attributes == nullptr || values == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  // What is no memory of CUDA's has attributes of zero here, where the single question is an error.
  const bool known = rt::memory_at(pointer(address)).kind != rt::MemoryKind::none;
  for (unsigned i = 0; i < count; ++i) {
    if (values[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::uint64_t value = 0;  // as large as any attribute
    if (known && cuPointerGetAttribute(&value, attributes[i], address) != CUDA_SUCCESS) value = 0;
    std::memcpy(values[i], &value, attribute_bytes(attributes[i]));
  }
  return CUDA_SUCCESS;
}

HC_EXPORT CUresult cuMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  return quietly([&] { return cudaMemGetInfo(free_bytes, total_bytes); });
}

HC_EXPORT CUresult cuMemAlloc(CUdeviceptr* address, std::size_t bytes) {
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  void* made = nullptr;
  const CUresult result = quietly([&] { return cudaMalloc(&made, bytes); });
  *address = reinterpret_cast<CUdeviceptr>(made);
  return result;
}

HC_EXPORT CUresult cuMemFree(CUdeviceptr address) { return quietly([&] { return cudaFree(pointer(address)); }); }

HC_EXPORT CUresult cuMemHostAlloc(void** address, std::size_t bytes, unsigned flags) {
  return quietly([&] { return cudaHostAlloc(address, bytes, flags); });
}

HC_EXPORT CUresult cuMemAllocHost(void** address, std::size_t bytes) { return cuMemHostAlloc(address, bytes, 0); }

HC_EXPORT CUresult cuMemHostRegister(void* address, std::size_t bytes, unsigned flags) {
  return quietly([&] { return cudaHostRegister(address, bytes, flags); });
}

HC_EXPORT CUresult cuMemHostUnregister(void* address) { return quietly([&] { return cudaHostUnregister(address); }); }

HC_EXPORT CUresult cuMemFreeHost(void* address) { return quietly([&] { return cudaFreeHost(address); }); }
