// SPDX-License-Identifier: Apache-2.0
// The driver's multicast objects (NVLink SHARP), for GPUs behind NVLink switches that can reduce.
#include "runtime/multicast.h"

#include <algorithm>

#include "driver/driver.h"
#include "runtime/memory_handles.h"

using namespace hostcuda;
using namespace hostcuda::driver;

namespace {

constexpr unsigned long long kShareable = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

// What stands in the way of multicast on the current device, or CUDA_SUCCESS.
CUresult offered() {
  const rt::Device* here = rt::current_device();
  if (here == nullptr) return no_device();
  return rt::machine()->has_multicast(here->place) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult check(const CUmulticastObjectProp* properties) {
  if (properties == nullptr || properties->flags != 0 || properties->size == 0 || properties->numDevices == 0 ||
      properties->numDevices > rt::kMostMulticastDevices) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return (properties->handleTypes & ~kShareable) != 0 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

}  // namespace

HC_EXPORT CUresult cuMulticastGetGranularity(std::size_t* bytes, const CUmulticastObjectProp* properties,
                                             CUmulticastGranularity_flags option) {
  if (const CUresult error = offered(); error != CUDA_SUCCESS) return error;
  if (const CUresult error = check(properties); error != CUDA_SUCCESS) return error;
  if (bytes == nullptr ||
      (option != CU_MULTICAST_GRANULARITY_MINIMUM && option != CU_MULTICAST_GRANULARITY_RECOMMENDED)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *bytes = rt::kPageBytes;
  return CUDA_SUCCESS;
}

HC_EXPORT CUresult cuMulticastCreate(CUmemGenericAllocationHandle* handle, const CUmulticastObjectProp* properties) {
  if (const CUresult error = offered(); error != CUDA_SUCCESS) return error;
  if (const CUresult error = check(properties); error != CUDA_SUCCESS) return error;
  if (handle == nullptr || properties->size % rt::kPageBytes != 0 || properties->size > rt::kWindowBytes / 2) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return guarded([&] {
    auto object = rt::Multicast::create(properties->numDevices, properties->size, properties->handleTypes);
    if (!object) return cudaErrorMemoryAllocation;
    *handle = rt::handle_of(std::move(object));
    return cudaSuccess;
  });
}

HC_EXPORT CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice number) {
  const rt::Device* device = rt::device(number);
  if (device == nullptr) return no_device();
  const auto object = rt::find_handle(handle).multicast;
  if (!object) return CUDA_ERROR_INVALID_VALUE;
  if (!rt::machine()->has_multicast(device->place)) return CUDA_ERROR_NOT_SUPPORTED;
  return guarded([&] { return object->add_device(device->place); });
}

HC_EXPORT CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, std::size_t at,
                                      CUmemGenericAllocationHandle memory, std::size_t offset, std::size_t bytes,
                                      unsigned long long flags) {
  const auto object = rt::find_handle(handle).multicast;
  const auto physical = rt::find_handle(memory).physical;
  if (!object || !physical || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] { return object->bind(at, physical, offset, bytes); });
}

// The memory behind an address range of the driver's own mappings; what cudaMalloc gives cannot be bound.
HC_EXPORT CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, std::size_t at, CUdeviceptr address,
                                       std::size_t bytes, unsigned long long flags) {
  const auto object = rt::find_handle(handle).multicast;
  if (!object || flags != 0 || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] {
    std::size_t done = 0;
    for (std::size_t now; done < bytes; done += now) {
      const rt::MappedPart part = rt::mapped_at(address + done);
      now = std::min<std::size_t>(part.bytes, bytes - done);
      const cudaError_t error =
          part.physical ? object->bind(at + done, part.physical, part.offset, now) : cudaErrorInvalidValue;
      if (error == cudaSuccess) continue;
      if (done != 0) object->unbind(rt::mapped_at(address).physical->device, at, done);  // all of it or nothing
      return error;
    }
    return cudaSuccess;
  });
}

HC_EXPORT CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice number, std::size_t at,
                                     std::size_t bytes) {
  const rt::Device* device = rt::device(number);
  if (device == nullptr) return no_device();
  const auto object = rt::find_handle(handle).multicast;
  if (!object) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] { return object->unbind(device->place, at, bytes); });
}
