// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "check.h"
#include "processes.h"
#include "runtime/va.h"

using hostcuda::rt::page_owner;
using hostcuda::rt::shadow_of;

constexpr size_t kBytes = 5 << 20;
constexpr uint64_t kStamp = 0x1122334455667788;

CASE(shadows_and_owners) {
  OK(cudaSetDevice(3));
  auto* bytes = device_array<char>(kBytes);
  CHECK(page_owner(bytes) == 1 + 3 && page_owner(bytes + kBytes - 1) == 1 + 3);
  auto* stamp = static_cast<uint64_t*>(shadow_of(bytes + 64));
  CHECK(reinterpret_cast<uint64_t>(stamp) - reinterpret_cast<uint64_t>(bytes + 64) == HOSTCUDA_SHADOW_DISTANCE);
  *stamp = kStamp;
  CHECK(bytes[64] == 0 && *stamp == kStamp);
  void* host;
  OK(cudaHostAlloc(&host, 100, cudaHostAllocMapped));
  CHECK(page_owner(host) == hostcuda::rt::kOwnerHost);
  *static_cast<uint64_t*>(shadow_of(host)) = kStamp;
  CHECK(*static_cast<uint64_t*>(host) == 0);
  OK(cudaFreeHost(host));
  OK(cudaFree(bytes));
  CHECK(page_owner(bytes) == hostcuda::rt::kOwnerNone && page_owner(host) == hostcuda::rt::kOwnerNone);
  int on_stack = 0;
  CHECK(page_owner(&on_stack) == hostcuda::rt::kOwnerNone);
}

// What is freed comes back empty, data and shadow alike.
CASE(reused_memory_is_fresh) {
  auto* first = device_array<uint64_t>(4);
  first[1] = kStamp;
  static_cast<uint64_t*>(shadow_of(first))[1] = kStamp;
  OK(cudaFree(first));
  auto* second = device_array<uint64_t>(4);
  CHECK(second == first);
  CHECK(second[1] == 0 && static_cast<uint64_t*>(shadow_of(second))[1] == 0);
}

CASE(ipc_shows_data_and_shadow) {
  Peer peer([](int socket) {
    OK(cudaSetDevice(1));
    const auto handle = get<cudaIpcMemHandle_t>(socket);
    void *opened, *again;
    OK(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess));
    OK(cudaIpcOpenMemHandle(&again, handle, cudaIpcMemLazyEnablePeerAccess));
    CHECK(again == opened);
    auto* bytes = static_cast<char*>(opened);
    CHECK(page_owner(bytes) == 1 + 2 && page_owner(bytes + kBytes - 1) == 1 + 2);  // the exporter's device
    CHECK(hostcuda::rt::link_classes(1)[page_owner(bytes)] == hostcuda::rt::kLinkPcie);
    CHECK(hostcuda::rt::link_classes(3)[page_owner(bytes)] == hostcuda::rt::kLinkNvlink);
    CHECK(bytes[kBytes - 1] == 77);
    CHECK(*static_cast<uint64_t*>(shadow_of(bytes + 4096)) == kStamp);
    bytes[0] = 55;
    *static_cast<uint64_t*>(shadow_of(bytes)) = kStamp + 1;
    OK(cudaIpcCloseMemHandle(opened));
    CHECK(bytes[0] == 55);  // still open once
    OK(cudaIpcCloseMemHandle(opened));
    CHECK(page_owner(bytes) == hostcuda::rt::kOwnerNone);
    GIVES(cudaErrorInvalidValue, cudaIpcCloseMemHandle(opened));
    put(socket, 1);
  });
  OK(cudaSetDevice(2));
  device_array<char>(kBytes);  // so that the offset is not zero
  auto* bytes = device_array<char>(kBytes);
  bytes[kBytes - 1] = 77;
  *static_cast<uint64_t*>(shadow_of(bytes + 4096)) = kStamp;
  cudaIpcMemHandle_t handle;
  OK(cudaIpcGetMemHandle(&handle, bytes + 12345));  // anywhere inside
  void* opened;
  GIVES(cudaErrorDeviceUninitialized, cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess));
  put(peer.socket, handle);
  get<int>(peer.socket);
  CHECK(bytes[0] == 55);
  CHECK(*static_cast<uint64_t*>(shadow_of(bytes)) == kStamp + 1);
  peer.finish();
}

CASE(ipc_of_an_ended_process) {
  Peer peer([](int socket) {
    cudaIpcMemHandle_t handle;
    OK(cudaIpcGetMemHandle(&handle, device_array<char>(10)));
    put(socket, handle);
  });
  auto handle = get<cudaIpcMemHandle_t>(peer.socket);
  peer.finish();
  void* opened;
  GIVES(cudaErrorMapBufferObjectFailed, cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess));
  std::memset(&handle, 1, sizeof handle);
  GIVES(cudaErrorInvalidValue, cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess));
  int on_stack;
  GIVES(cudaErrorInvalidValue, cudaIpcGetMemHandle(&handle, &on_stack));
}

// One descriptor carries an allocation with its shadow to another process, and the memory lives as long as someone
// holds it.
CASE(shared_descriptor) {
  Peer peer([](int socket) {
    for (const int owner : {1 + 5, 255}) {
      const int fd = get_fd(socket);
      CUmemGenericAllocationHandle handle;
      OK(cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(static_cast<uintptr_t>(fd)),
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
      close(fd);
      CUmemAllocationProp told;
      OK(cuMemGetAllocationPropertiesFromHandle(&told, handle));
      CHECK((told.location.type == CU_MEM_LOCATION_TYPE_DEVICE) == (owner != 255));
      char* bytes = map(handle, kTwoPages);
      OK(cuMemRelease(handle));
      CHECK(page_owner(bytes + kTwoPages - 1) == owner);
      CHECK(bytes[kTwoPages - 1] == 33 && *static_cast<uint64_t*>(shadow_of(bytes + 128)) == kStamp);
      bytes[0] = 44;
      *static_cast<uint64_t*>(shadow_of(bytes)) = kStamp + 2;
      put(socket, 1);
      const auto address = reinterpret_cast<CUdeviceptr>(bytes);
      OK(cuMemUnmap(address, kTwoPages));
      OK(cuMemAddressFree(address, kTwoPages));
    }
  });
  for (const auto& wanted :
       {properties(CU_MEM_LOCATION_TYPE_DEVICE, 5), properties(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0)}) {
    CUmemGenericAllocationHandle other, handle;
    OK(cuMemCreate(&other, kTwoPages, &wanted, 0));  // so that the offset is not zero
    OK(cuMemCreate(&handle, kTwoPages, &wanted, 0));
    char* bytes = map(handle, kTwoPages);
    bytes[kTwoPages - 1] = 33;
    *static_cast<uint64_t*>(shadow_of(bytes + 128)) = kStamp;
    int fd;
    OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    put_fd(peer.socket, fd);
    close(fd);
    get<int>(peer.socket);
    CHECK(bytes[0] == 44 && *static_cast<uint64_t*>(shadow_of(bytes)) == kStamp + 2);
    // Two mappings of one allocation show the same memory; it lives on without its handle.
    char* twice = map(handle, kTwoPages);
    CUmemGenericAllocationHandle retained;
    OK(cuMemRetainAllocationHandle(&retained, twice + 5));
    CHECK(retained == handle);
    OK(cuMemRelease(retained));
    OK(cuMemRelease(handle));
    OK(cuMemUnmap(reinterpret_cast<CUdeviceptr>(bytes), kTwoPages));
    CHECK(twice[0] == 44);
    CUdeviceptr base;
    size_t size;
    OK(cuMemGetAddressRange(&base, &size, reinterpret_cast<CUdeviceptr>(twice + 99)));
    CHECK(base == reinterpret_cast<CUdeviceptr>(twice) && size == kTwoPages);
    OK(cuMemUnmap(reinterpret_cast<CUdeviceptr>(twice), kTwoPages));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemRelease(handle));
  }
  peer.finish();
}

size_t free_bytes() {
  size_t free, total;
  OK(cudaMemGetInfo(&free, &total));
  return free;
}

// What a peer has open is not given to anybody else when its owner frees it: the peer may still write. It is free once
// the peer has closed it, or was killed.
CASE(freed_memory_that_a_peer_has_open) {
  const auto child = [](int socket) {
    const auto handle = get<cudaIpcMemHandle_t>(socket);
    void* opened;
    OK(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess));
    put(socket, 1);
    get<int>(socket);
    auto* bytes = static_cast<char*>(opened);
    CHECK(bytes[1] == 77);
    bytes[0] = 66;
    put(socket, 2);
    get<int>(socket);
    OK(cudaIpcCloseMemHandle(opened));
    put(socket, 3);
  };
  Peer closing(child), killed(child);
  for (Peer* peer : {&closing, &killed}) {
    const size_t before = free_bytes();
    auto* first = device_array<char>(kBytes);
    const size_t with = free_bytes();
    first[1] = 77;
    cudaIpcMemHandle_t handle;
    OK(cudaIpcGetMemHandle(&handle, first));
    put(peer->socket, handle);
    get<int>(peer->socket);
    OK(cudaFree(first));
    CHECK(free_bytes() == with);
    auto* second = device_array<char>(kBytes);
    CHECK(second != first);
    put(peer->socket, 1);
    CHECK(get<int>(peer->socket) == 2);
    CHECK(second[0] == 0);
    if (peer == &killed) {
      peer->kill();
    } else {
      put(peer->socket, 1);
      CHECK(get<int>(peer->socket) == 3);
      peer->finish();
    }
    OK(cudaFree(second));
    CHECK(free_bytes() == before);
    auto* third = device_array<char>(kBytes);
    CHECK(third == first && third[0] == 0 && third[1] == 0);
    OK(cudaFree(third));
  }
}

// The same for the driver's handles, where two peers have it, from one descriptor, and one lets go.
CASE(freed_handle_that_a_peer_has_open) {
  const auto child = [](int socket) {
    const int fd = get_fd(socket);
    CUmemGenericAllocationHandle handle;
    OK(cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(static_cast<uintptr_t>(fd)),
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    char* bytes = map(handle, kTwoPages);
    OK(cuMemRelease(handle));
    put(socket, 1);
    get<int>(socket);
    bytes[kTwoPages - 1] = 66;
    const auto address = reinterpret_cast<CUdeviceptr>(bytes);
    OK(cuMemUnmap(address, kTwoPages));
    OK(cuMemAddressFree(address, kTwoPages));
    put(socket, 2);
  };
  Peer one(child), other(child);
  const CUmemAllocationProp wanted = properties(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);
  CUmemGenericAllocationHandle handle;
  OK(cuMemCreate(&handle, kTwoPages, &wanted, 0));
  int fd;
  OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  for (const Peer* peer : {&one, &other}) {
    put_fd(peer->socket, fd);
    get<int>(peer->socket);
  }
  close(fd);
  OK(cuMemRelease(handle));
  put(one.socket, 1);
  CHECK(get<int>(one.socket) == 2);
  OK(cuMemCreate(&handle, kTwoPages, &wanted, 0));
  char* bytes = map(handle, kTwoPages);
  put(other.socket, 1);
  CHECK(get<int>(other.socket) == 2);
  CHECK(bytes[kTwoPages - 1] == 0);
  one.finish();
  other.finish();
}

CASE(mapping_rules) {
  const auto wanted = properties(CU_MEM_LOCATION_TYPE_DEVICE, 0);
  CUmemGenericAllocationHandle handle;
  GIVES(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, 4096, &wanted, 0));  // not a multiple of the granularity
  auto fabric = wanted;
  fabric.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  GIVES(CUDA_ERROR_NOT_SUPPORTED, cuMemCreate(&handle, kTwoPages, &fabric, 0));
  OK(cuMemCreate(&handle, kTwoPages, &wanted, 0));
  CUdeviceptr address;
  OK(cuMemAddressReserve(&address, kTwoPages, 8 << 20, 0, 0));
  CHECK(address % (8 << 20) == 0);
  GIVES(CUDA_ERROR_INVALID_VALUE, cuMemMap(address + kTwoPages, kTwoPages, 0, handle, 0));  // not reserved
  GIVES(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(address, kTwoPages));
  OK(cuMemMap(address, kTwoPages, 0, handle, 0));
  GIVES(CUDA_ERROR_ALREADY_MAPPED, cuMemMap(address, kTwoPages, 0, handle, 0));
  GIVES(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(address, kTwoPages));  // something is mapped there
  int legacy = -1, device = -1;
  OK(cuPointerGetAttribute(&legacy, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address));
  OK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
  CHECK(legacy == 0 && device == 0);
  OK(cuMemUnmap(address, kTwoPages));
  OK(cuMemAddressFree(address, kTwoPages));
  OK(cuMemRelease(handle));
}

CASE(pointers) {
  OK(cudaSetDevice(2));
  cudaPointerAttributes known;
  auto* bytes = device_array<char>(100);
  OK(cudaSetDevice(0));
  OK(cudaPointerGetAttributes(&known, bytes + 99));
  CHECK(known.type == cudaMemoryTypeDevice && known.device == 2 && known.devicePointer == bytes + 99);
  CHECK(known.hostPointer == nullptr);
  void* host;
  OK(cudaMallocHost(&host, 100));
  OK(cudaPointerGetAttributes(&known, host));
  CHECK(known.type == cudaMemoryTypeHost && known.hostPointer == host && known.devicePointer == host);
  std::vector<char> pageable(10000);
  OK(cudaPointerGetAttributes(&known, pageable.data()));
  CHECK(known.type == cudaMemoryTypeUnregistered);
  OK(cudaHostRegister(pageable.data(), pageable.size(), cudaHostRegisterMapped));
  OK(cudaPointerGetAttributes(&known, &pageable[9999]));
  CHECK(known.type == cudaMemoryTypeHost);
  void* on_device;
  OK(cudaHostGetDevicePointer(&on_device, pageable.data(), 0));
  CHECK(on_device == pageable.data());
  GIVES(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(&pageable[50], 10, 0));
  OK(cudaHostUnregister(pageable.data()));
  GIVES(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(pageable.data()));
  GIVES(cudaErrorInvalidValue, cudaHostGetDevicePointer(&on_device, pageable.data(), 0));
}

CASE(wrong_addresses) {
  auto* bytes = device_array<char>(100);
  char pageable[10] = {};
  GIVES(cudaErrorInvalidValue, cudaFree(bytes + 1));
  GIVES(cudaErrorInvalidValue, cudaFree(pageable));
  GIVES(cudaErrorInvalidValue, cudaFreeHost(bytes));
  GIVES(cudaErrorInvalidValue, cudaMemcpy(bytes, pageable, 101, cudaMemcpyHostToDevice));  // past the end
  GIVES(cudaErrorInvalidValue, cudaMemcpy(pageable, bytes, 10, cudaMemcpyDeviceToDevice));
  GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpy(pageable, bytes, 10, static_cast<cudaMemcpyKind>(9)));
  GIVES(cudaErrorInvalidValue, cudaMemset(pageable, 0, 10));
  GIVES(cudaErrorInvalidValue, cudaMemset(bytes, 0, 101));
  OK(cudaMemcpy(bytes, pageable, 0, cudaMemcpyHostToDevice));
  OK(cudaFree(bytes));
  GIVES(cudaErrorInvalidValue, cudaFree(bytes));
  OK(cudaFree(nullptr));
}

CASE(device_memory_is_limited) {
  size_t available, total;
  OK(cudaMemGetInfo(&available, &total));
  CHECK(available == total);
  void *first, *second;
  OK(cudaMalloc(&first, total / 2));
  GIVES(cudaErrorMemoryAllocation, cudaMalloc(&second, total / 2 + 1));
  CHECK(second == nullptr);
  GIVES(cudaErrorMemoryAllocation, cudaGetLastError());
  OK(cudaMemGetInfo(&available, &total));
  CHECK(available <= total - total / 2);
  OK(cudaSetDevice(1));
  OK(cudaMalloc(&second, total / 2 + 1));  // another device has its own
  OK(cudaFree(first));
  OK(cudaSetDevice(0));
  OK(cudaMemGetInfo(&available, &total));
  CHECK(available == total);
}

// Of this program alone: getrusage would also count what the process held before it became this program.
long peak_resident_kib() {
  FILE* status = std::fopen("/proc/self/status", "r");
  CHECK(status != nullptr);
  char line[256];
  long kib = -1;
  while (kib < 0 && std::fgets(line, sizeof line, status) != nullptr) std::sscanf(line, "VmHWM: %ld kB", &kib);
  std::fclose(status);
  CHECK(kib > 0);
  return kib;
}

// Thousands of allocations need neither descriptors nor, while they are only cleared, memory.
CASE(allocations_are_cheap) {
  device_array<char>(1);
  const size_t files = open_files();
  cudaStream_t stream = new_stream();
  for (int i = 0; i < 3000; ++i) {
    auto* bytes = device_array<char>(4 << 20);
    OK(cudaMemsetAsync(bytes, 0, 4 << 20, stream));
  }
  OK(cudaStreamSynchronize(stream));
  CHECK(open_files() == files);
  CHECK(peak_resident_kib() < 100 << 10);  // the allocations are 12 GiB
}

// Memory is shared through files without names: nothing can be left behind.
CASE(no_name_is_left_behind) {
  device_array<char>(kBytes);
  void* host;
  OK(cudaMallocHost(&host, kBytes));
  FILE* maps = std::fopen("/proc/self/maps", "r");
  CHECK(maps != nullptr);
  char line[4096];
  bool found = false;
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    CHECK(std::strstr(line, "/dev/shm") == nullptr);
    found |= std::strstr(line, "/memfd:hostcuda (deleted)") != nullptr;
  }
  std::fclose(maps);
  CHECK(found);
}

int main(int argc, char** argv) { return run_case(argc, argv); }
