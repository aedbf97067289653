// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's memory management: allocation, host memory, sharing between processes, questions about pointers.
#include "runtime/capture.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/extent.h"
#include "runtime/memory.h"
#include "runtime/memory_ipc.h"
#include "runtime/pool.h"

using namespace hostcuda::rt;

namespace {

constexpr size_t kPitchAlignment = 512;

// The program's number of the device at a place of the machine; a place it cannot see counts as the current device,
// which is where CUDA says that imported memory is mapped.
int number_of(int place) {
  for (int i = 0; device(i) != nullptr; ++i) {
    if (device(i)->place == place) return i;
  }
  return t_state.device;
}

// CUDA gives memory back only when the device has nothing left to do.
cudaError_t wait_for_device(Device* device) {
  std::unique_lock<std::mutex> lock(runtime_lock());
  std::vector<OpRef> last;
  for (const StreamRef& stream : device->streams) last.push_back(stream->last);
  return wait_for(lock, device, last);
}

template <typename Call>
cudaError_t guarded(Call call) {
  try {
    return report(call());
  } catch (const std::exception& error) {
    complain("%s", error.what());
    return report(cudaErrorMemoryAllocation);
  }
}

}  // namespace

HC_EXPORT cudaError_t cudaMalloc(void** address, size_t bytes) {
  HC_DEVICE(here);
  HC_UNSAFE_IN_CAPTURE();
  if (address == nullptr) return report(cudaErrorInvalidValue);
  return guarded([&] { return allocate(here->place, bytes, 0, address); });
}

HC_EXPORT cudaError_t cudaMallocPitch(void** address, size_t* pitch, size_t width, size_t height) {
  if (pitch == nullptr) return report(cudaErrorInvalidValue);
  *pitch = round_up(width, kPitchAlignment);
  return cudaMalloc(address, product(*pitch, height));
}

HC_EXPORT cudaError_t cudaMalloc3D(cudaPitchedPtr* made, cudaExtent extent) {
  if (made == nullptr) return report(cudaErrorInvalidValue);
  *made = {nullptr, 0, extent.width, extent.height};
  return cudaMallocPitch(&made->ptr, &made->pitch, extent.width, product(extent.height, extent.depth));
}

HC_EXPORT cudaError_t cudaFree(void* address) {
  HC_DEVICE(here);
  HC_UNSAFE_IN_CAPTURE();
  if (address == nullptr) return cudaSuccess;
  const MemoryInfo info = memory_at(address);
  if (info.kind != MemoryKind::device || info.base != reinterpret_cast<std::uint64_t>(address)) {
    return report(cudaErrorInvalidValue);
  }
  // Of a pool: as in CUDA the program vouches that nothing uses it, and nobody waits.
  if (is_pooled(address)) {
    if (!claim(address)) return report(cudaErrorInvalidValue);
    give_back(address);
    return cudaSuccess;
  }
  Device* owner = device(number_of(info.device));
  if (const cudaError_t error = wait_for_device(owner != nullptr ? owner : here);
      error != cudaSuccess && error != cudaErrorCudartUnloading) {
    return report(error);
  }
  return report(release(address, MemoryKind::device));
}

HC_EXPORT cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned flags) {
  HC_DEVICE(here);
  (void)here;
  HC_UNSAFE_IN_CAPTURE();
  constexpr unsigned kKnown = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
  if (address == nullptr || (flags & ~kKnown) != 0) return report(cudaErrorInvalidValue);
  return guarded([&] { return allocate(kHostMemory, bytes, flags, address); });
}

HC_EXPORT cudaError_t cudaMallocHost(void** address, size_t bytes) { return cudaHostAlloc(address, bytes, 0); }

HC_EXPORT cudaError_t cudaFreeHost(void* address) {
  HC_DEVICE(here);
  HC_UNSAFE_IN_CAPTURE();
  if (address == nullptr) return cudaSuccess;
  if (memory_at(address).kind != MemoryKind::host) return report(cudaErrorInvalidValue);
  if (const cudaError_t error = wait_for_device(here); error != cudaSuccess && error != cudaErrorCudartUnloading) {
    return report(error);
  }
  return report(release(address, MemoryKind::host));
}

HC_EXPORT cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned flags) {
  HC_DEVICE(here);
  (void)here;
  HC_UNSAFE_IN_CAPTURE();
  constexpr unsigned kKnown =
      cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterIoMemory | cudaHostRegisterReadOnly;
  if ((flags & ~kKnown) != 0) return report(cudaErrorInvalidValue);
  return report(register_host(address, bytes, flags));
}

HC_EXPORT cudaError_t cudaHostUnregister(void* address) {
  HC_UNSAFE_IN_CAPTURE();
  return report(unregister_host(address));
}

HC_EXPORT cudaError_t cudaHostGetDevicePointer(void** on_device, void* address, unsigned flags) {
  HC_DEVICE(here);
  (void)here;
  const MemoryKind kind = memory_at(address).kind;
  if (on_device == nullptr || flags != 0 ||
      (kind != MemoryKind::host && kind != MemoryKind::registered && kind != MemoryKind::vmm)) {
    return report(cudaErrorInvalidValue);
  }
  *on_device = address;  // one address space
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaHostGetFlags(unsigned* flags, void* address) {
  const MemoryInfo info = memory_at(address);
  if (flags == nullptr || (info.kind != MemoryKind::host && info.kind != MemoryKind::registered)) {
    return report(cudaErrorInvalidValue);
  }
  *flags = info.flags | cudaHostAllocMapped;
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  HC_DEVICE(here);
  if (attributes == nullptr) return report(cudaErrorInvalidValue);
  const MemoryInfo info = memory_at(address);
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = cudaInvalidDeviceId;
  attributes->hostPointer = const_cast<void*>(address);
  if (info.kind == MemoryKind::none) return cudaSuccess;
  attributes->devicePointer = const_cast<void*>(address);
  if (info.device == kHostMemory) {
    attributes->type = cudaMemoryTypeHost;
    attributes->device = here->number;
  } else {
    attributes->type = cudaMemoryTypeDevice;
    attributes->device = number_of(info.device);
    attributes->hostPointer = nullptr;
  }
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* address) {
  HC_DEVICE(here);
  (void)here;
  if (handle == nullptr || address == nullptr || is_pooled(address)) return report(cudaErrorInvalidValue);
  return guarded([&] { return export_ipc(address, handle); });
}

HC_EXPORT cudaError_t cudaIpcOpenMemHandle(void** address, cudaIpcMemHandle_t handle, unsigned flags) {
  HC_DEVICE(here);
  (void)here;
  if (address == nullptr || flags != cudaIpcMemLazyEnablePeerAccess) return report(cudaErrorInvalidValue);
  return guarded([&] { return import_ipc(handle, address); });
}

HC_EXPORT cudaError_t cudaIpcCloseMemHandle(void* address) {
  HC_DEVICE(here);
  (void)here;
  return report(close_ipc(address));
}

HC_EXPORT cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t*, cudaEvent_t) {
  return refuse_unsupported("cudaIpcGetEventHandle");
}

HC_EXPORT cudaError_t cudaIpcOpenEventHandle(cudaEvent_t*, cudaIpcEventHandle_t) {
  return refuse_unsupported("cudaIpcOpenEventHandle");
}

HC_EXPORT cudaError_t cudaMallocManaged(void**, size_t, unsigned) { return refuse_unsupported("cudaMallocManaged"); }
