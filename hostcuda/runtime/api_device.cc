// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's device management.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/attributes.h"
#include "runtime/capture.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/pages.h"

using namespace hostcuda::rt;

HC_EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return report(cudaErrorInvalidValue);
  *count = machine() == nullptr ? 0 : machine()->device_count();
  if (machine() == nullptr) return report(cudaErrorInitializationError);
  return report(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}

HC_EXPORT cudaError_t cudaSetDevice(int number) {
  if (asked(number) == nullptr) return no_such_device();
  t_state.device = number;
  return report(device_failure(number));
}

HC_EXPORT cudaError_t cudaGetDevice(int* number) {
  if (number == nullptr) return report(cudaErrorInvalidValue);
  if (machine() == nullptr) return report(cudaErrorInitializationError);
  *number = t_state.device;
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaInitDevice(int number, unsigned, unsigned) {
  return asked(number) == nullptr ? no_such_device() : cudaSuccess;
}

HC_EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int number) {
  if (value == nullptr) return report(cudaErrorInvalidValue);
  if (asked(number) == nullptr) return no_such_device();
  // The driver's attributes have the same numbers.
  const auto known = device_attribute(*device(number), static_cast<int>(attribute));
  if (!known) return report(cudaErrorInvalidValue);
  *value = *known;
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int number) {
  if (properties == nullptr) return report(cudaErrorInvalidValue);
  if (asked(number) == nullptr) return no_such_device();
  fill_properties(*device(number), properties);
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaDeviceGetPCIBusId(char* bus_id, int bytes, int number) {
  if (bus_id == nullptr || bytes < 13) return report(cudaErrorInvalidValue);
  if (asked(number) == nullptr) return no_such_device();
  std::snprintf(bus_id, static_cast<std::size_t>(bytes), "%s", machine()->gpus[device(number)->place].bus_id.c_str());
  for (char* c = bus_id; *c != '\0'; ++c) {
    if (*c >= 'a' && *c <= 'f') *c = static_cast<char>(*c - 'a' + 'A');
  }
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaDeviceGetByPCIBusId(int* number, const char* bus_id) {
  if (number == nullptr || bus_id == nullptr) return report(cudaErrorInvalidValue);
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  if (std::sscanf(bus_id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4) return report(cudaErrorInvalidValue);
  char wanted[16];
  std::snprintf(wanted, sizeof wanted, "%04x:%02x:%02x.%x", domain & 0xffff, bus & 0xff, slot & 0xff, function & 0xf);
  for (int i = 0; device(i) != nullptr; ++i) {
    if (machine()->gpus[device(i)->place].bus_id == wanted) {
      *number = i;
      return cudaSuccess;
    }
  }
  return report(cudaErrorInvalidDevice);
}

HC_EXPORT cudaError_t cudaDeviceCanAccessPeer(int* can, int number, int peer) {
  if (can == nullptr) return report(cudaErrorInvalidValue);
  if (asked(number) == nullptr || asked(peer) == nullptr) return no_such_device();
  *can = number != peer;
  return cudaSuccess;
}

// Every device reaches every other one all the time; only the answers keep to CUDA's rules.
HC_EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  HC_DEVICE(here);
  if (flags != 0) return report(cudaErrorInvalidValue);
  if (asked(peer) == nullptr) return no_such_device();
  if (peer == here->number) return report(cudaErrorInvalidDevice);
  std::lock_guard<std::mutex> guard(runtime_lock());
  if ((here->peers_enabled >> peer & 1) != 0) return report(cudaErrorPeerAccessAlreadyEnabled);
  here->peers_enabled |= std::uint64_t{1} << peer;
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  HC_DEVICE(here);
  if (asked(peer) == nullptr) return no_such_device();
  std::lock_guard<std::mutex> guard(runtime_lock());
  if ((here->peers_enabled >> peer & 1) == 0) return report(cudaErrorPeerAccessNotEnabled);
  here->peers_enabled &= ~(std::uint64_t{1} << peer);
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int from, int to) {
  if (value == nullptr) return report(cudaErrorInvalidValue);
  if (asked(from) == nullptr || asked(to) == nullptr || from == to) return no_such_device();
  switch (attribute) {
    case cudaDevP2PAttrPerformanceRank:
      *value = machine()->link(device(from)->place, device(to)->place) == kLinkNvlink ? 0 : 1;
      return cudaSuccess;
    case cudaDevP2PAttrAccessSupported:
    case cudaDevP2PAttrNativeAtomicSupported:
      *value = 1;
      return cudaSuccess;
    case cudaDevP2PAttrCudaArrayAccessSupported:
      *value = 0;
      return cudaSuccess;
    default:
      return report(cudaErrorInvalidValue);
  }
}

HC_EXPORT cudaError_t cudaDeviceSynchronize() {
  HC_DEVICE(here);
  std::unique_lock<std::mutex> lock(runtime_lock());
  if (const cudaError_t error = observable(*here); error != cudaSuccess) return report(error);
  std::vector<OpRef> last;
  for (const StreamRef& stream : here->streams) last.push_back(stream->last);
  return report(wait_for(lock, here, last));
}

HC_EXPORT cudaError_t cudaDeviceReset() {
  const cudaError_t error = cudaDeviceSynchronize();
  return error == cudaErrorCudartUnloading ? cudaSuccess : error;
}

HC_EXPORT cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t) {
  // Stacks of device threads have guard pages and a fixed size, and there is no device heap: a limit changes nothing.
  return report(limit <= cudaLimitPersistingL2CacheSize ? cudaSuccess : cudaErrorUnsupportedLimit);
}

HC_EXPORT cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  if (value == nullptr) return report(cudaErrorInvalidValue);
  if (limit != cudaLimitStackSize) return report(cudaErrorUnsupportedLimit);
  *value = 1024;
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = kLeastPriority;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }

HC_EXPORT cudaError_t cudaSetDeviceFlags(unsigned flags) {
  constexpr unsigned kKnown =
      cudaDeviceScheduleMask | cudaDeviceMapHost | cudaDeviceLmemResizeToMax | cudaDeviceSyncMemops;
  return report((flags & ~kKnown) == 0 ? cudaSuccess : cudaErrorInvalidValue);
}

HC_EXPORT cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  if (flags == nullptr) return report(cudaErrorInvalidValue);
  *flags = cudaDeviceMapHost;
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return report(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return report(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  HC_DEVICE(here);
  if (free_bytes == nullptr || total_bytes == nullptr) return report(cudaErrorInvalidValue);
  std::uint64_t available, total;
  device_memory(here->place, &available, &total);
  *free_bytes = available;
  *total_bytes = total;
  return cudaSuccess;
}
