// SPDX-License-Identifier: Apache-2.0
// The driver's devices and contexts.
#include <cstdio>
#include <cstring>

#include "driver/driver.h"
#include "runtime/attributes.h"

using namespace hostcuda;
using namespace hostcuda::driver;
using rt::t_state;

HC_EXPORT CUresult cuInit(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return rt::machine() == nullptr ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

HC_EXPORT CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

HC_EXPORT CUresult cuDeviceGet(CUdevice* device, int number) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (rt::device(number) == nullptr) return no_device();
  *device = number;
  return CUDA_SUCCESS;
}

HC_EXPORT CUresult cuDeviceGetCount(int* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (rt::machine() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  *count = rt::machine()->device_count();
  return CUDA_SUCCESS;
}

HC_EXPORT CUresult cuDeviceGetName(char* name, int bytes, CUdevice device) {
  if (name == nullptr || bytes <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (rt::device(device) == nullptr) return no_device();
  std::snprintf(name, static_cast<std::size_t>(bytes), "%s", rt::machine()->gpu.name.c_str());
  return CUDA_SUCCESS;
}

HC_EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (rt::device(device) == nullptr) return no_device();
  const auto known = rt::device_attribute(*rt::device(device), attribute);
  if (!known) return CUDA_ERROR_INVALID_VALUE;
  *value = *known;
  return CUDA_SUCCESS;
}

HC_EXPORT CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice device) {
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (rt::device(device) == nullptr) return no_device();
  *bytes = rt::machine()->gpu.memory_bytes;
  return CUDA_SUCCESS;
}

HC_EXPORT CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (rt::device(device) == nullptr) return no_device();
  cudaDeviceProp properties;
  rt::fill_properties(*rt::device(device), &properties);
  *uuid = properties.uuid;
  return CUDA_SUCCESS;
}

HC_EXPORT CUresult cuDeviceGetPCIBusId(char* bus_id, int bytes, CUdevice device) {
  return quietly([&] { return cudaDeviceGetPCIBusId(bus_id, bytes, device); });
}

HC_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* bus_id) {
  return quietly([&] { return cudaDeviceGetByPCIBusId(device, bus_id); });
}

HC_EXPORT CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return quietly([&] { return cudaDeviceCanAccessPeer(can, device, peer); });
}

HC_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (rt::device(device) == nullptr) return no_device();
  *context = context_of(rt::device(device));
  return CUDA_SUCCESS;
}

HC_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return rt::device(device) == nullptr ? no_device() : CUDA_SUCCESS;
}

HC_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (rt::device(device) == nullptr) return no_device();
  *flags = CU_CTX_MAP_HOST;
  *active = 1;
  return CUDA_SUCCESS;
}

// cuCtxCreate makes the new context current; here every context of a device is the same one.
static CUresult create_context(CUcontext* context, CUdevice device) {
  const CUresult result = cuDevicePrimaryCtxRetain(context, device);
  if (result == CUDA_SUCCESS) t_state.device = device;
  return result;
}

HC_EXPORT CUresult cuCtxCreate_v2(CUcontext* context, unsigned, CUdevice device) {
  return create_context(context, device);
}
HC_EXPORT CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam*, int, unsigned, CUdevice device) {
  return create_context(context, device);
}
HC_EXPORT CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams*, unsigned, CUdevice device) {
  return create_context(context, device);
}

HC_EXPORT CUresult cuCtxDestroy(CUcontext context) {
  return device_of(context) == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

HC_EXPORT CUresult cuCtxGetCurrent(CUcontext* context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (rt::machine() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  *context = context_of(rt::current_device());
  return CUDA_SUCCESS;
}

HC_EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  if (context == nullptr) return CUDA_SUCCESS;  // nothing to unbind: a thread always has a device
  const rt::Device* device = device_of(context);
  if (device == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  t_state.device = device->number;
  return CUDA_SUCCESS;
}

HC_EXPORT CUresult cuCtxGetDevice(CUdevice* device) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = t_state.device;
  return CUDA_SUCCESS;
}

HC_EXPORT CUresult cuCtxSynchronize() { return quietly([&] { return cudaDeviceSynchronize(); }); }
