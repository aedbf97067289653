// SPDX-License-Identifier: Apache-2.0
// Multicast objects through the driver's API, with kernels that use multimem instructions on them.
#include "runtime/multicast_page.h"

#include <array>
#include <functional>
#include <vector>

#include "check.h"
#include "processes.h"
#include "shim/ptx.h"

using hostcuda::shim::ptx;

namespace {

constexpr size_t kPage = 2 << 20;
constexpr auto kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

CUmulticastObjectProp team(unsigned devices, size_t bytes) {
  CUmulticastObjectProp made{};
  made.numDevices = devices;
  made.size = bytes;
  made.handleTypes = kDescriptor;
  return made;
}

CUmemGenericAllocationHandle create(unsigned devices, size_t bytes) {
  CUmemGenericAllocationHandle made;
  const CUmulticastObjectProp wanted = team(devices, bytes);
  OK(cuMulticastCreate(&made, &wanted));
  return made;
}

// Memory of a device, mapped.
struct Memory {
  CUmemGenericAllocationHandle handle = 0;
  char* at = nullptr;
  size_t bytes;
  explicit Memory(int device, size_t size = kTwoPages) : bytes(size) {
    const auto wanted = properties(CU_MEM_LOCATION_TYPE_DEVICE, device);
    OK(cuMemCreate(&handle, bytes, &wanted, 0));
    at = map(handle, bytes);
  }
  void end() {
    unmap(at, bytes);
    OK(cuMemRelease(handle));
  }
  static void unmap(char* at, size_t bytes) {
    const auto address = reinterpret_cast<CUdeviceptr>(at);
    OK(cuMemUnmap(address, bytes));
    OK(cuMemAddressFree(address, bytes));
  }
};

int export_fd(CUmemGenericAllocationHandle handle) {
  int fd;
  OK(cuMemExportToShareableHandle(&fd, handle, kDescriptor, 0));
  return fd;
}

CUmemGenericAllocationHandle import_fd(int fd) {
  CUmemGenericAllocationHandle made;
  OK(cuMemImportFromShareableHandle(&made, reinterpret_cast<void*>(static_cast<uintptr_t>(fd)), kDescriptor));
  close(fd);
  return made;
}

// ---- kernels: one thread does what a function says ----

using Body = std::function<void()>;
char body_symbol;
void body_entry(const void* raw) { (**static_cast<const Body* const*>(raw))(); }
const bool registered_body = [] {
  register_kernel(&body_symbol, "body_kernel", body_entry, sizeof(Body*));
  return true;
}();

cudaError_t run(const Body& body) {
  const Body* pointer = &body;
  void* params[] = {&pointer};
  OK(cudaLaunchKernel(&body_symbol, dim3(1), dim3(1), params, 0, nullptr));
  return cudaStreamSynchronize(nullptr);
}

uint32_t sum(const char* address) {
  uint32_t result = 0;
  OK(run([&] { ptx<"multimem.ld_reduce.relaxed.sys.global.add.u32 %0, [%1];">(result, address); }));
  return result;
}
void store(char* address, uint32_t value) {
  OK(run([&] { ptx<"multimem.st.global.b32 [%0], %1;">(address, value); }));
}

uint32_t& word(char* at) { return *reinterpret_cast<uint32_t*>(at); }

std::vector<std::string> maps() {
  std::vector<std::string> found;
  FILE* file = std::fopen("/proc/self/maps", "r");
  CHECK(file != nullptr);
  char line[4096];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::strstr(line, "memfd:hostcuda") != nullptr) {
      found.push_back(std::string(line).substr(0, std::strcspn(line, " ")));
    }
  }
  std::fclose(file);
  return found;
}

}  // namespace

CASE(who_has_multicast) {
  int has = -1;
  OK(cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0));
  std::printf("%d\n", has);
  CUmemGenericAllocationHandle handle;
  const auto wanted = team(2, kTwoPages);
  size_t bytes = 0;
  const CUresult expected = has ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
  GIVES(expected, cuMulticastCreate(&handle, &wanted));
  GIVES(expected, cuMulticastGetGranularity(&bytes, &wanted, CU_MULTICAST_GRANULARITY_RECOMMENDED));
  CHECK(bytes == (has ? kPage : 0));
}

// Loads reduce over the members' memory and stores reach all of it, from any process, at its own addresses.
CASE(two_processes) {
  Peer peer([](int socket) {
    OK(cudaSetDevice(1));
    Memory memory(1);
    word(memory.at + 64) = 1000;
    word(memory.at + kPage + 64) = 3000;
    const CUmemGenericAllocationHandle object = import_fd(get_fd(socket));
    const CUmemGenericAllocationHandle again = import_fd(get_fd(socket));
    CHECK(object == again);
    OK(cuMemRelease(again));
    OK(cuMulticastAddDevice(object, 1));
    OK(cuMulticastBindMem(object, 0, memory.handle, 0, kTwoPages, 0));
    char* multicast = map(object, kTwoPages);
    put(socket, 1);
    get<int>(socket);  // the other has bound its memory
    CHECK(sum(multicast + 64) == 1001 && sum(multicast + kPage + 64) == 3002);
    store(multicast + 128, 77);
    put(socket, 1);
    get<int>(socket);  // the other has written
    CHECK(word(memory.at + 132) == 88);
    OK(cuMulticastUnbind(object, 1, 0, kTwoPages));
    Memory::unmap(multicast, kTwoPages);
    memory.end();
    OK(cuMemRelease(object));
    put(socket, 1);
  });
  OK(cudaSetDevice(0));
  Memory other(0);  // so that the offset is not zero
  Memory memory(0);
  word(memory.at + 64) = 1;
  word(memory.at + kPage + 64) = 2;
  const CUmemGenericAllocationHandle object = create(2, kTwoPages);
  for (int i = 0; i < 2; ++i) {
    const int fd = export_fd(object);
    put_fd(peer.socket, fd);
    close(fd);
  }
  OK(cuMulticastAddDevice(object, 0));
  OK(cuMulticastBindAddr(object, 0, reinterpret_cast<CUdeviceptr>(memory.at), kTwoPages, 0));
  char* multicast = map(object, kTwoPages);
  get<int>(peer.socket);
  put(peer.socket, 1);
  get<int>(peer.socket);  // the other has written
  CHECK(word(memory.at + 128) == 77);
  store(multicast + 132, 88);
  put(peer.socket, 1);
  get<int>(peer.socket);
  peer.finish();
  OK(cuMulticastUnbind(object, 0, 0, kTwoPages));
  Memory::unmap(multicast, kTwoPages);
  OK(cuMemRelease(object));
}

// As CUDA says: binding and mapping wait until all devices have been added.
CASE(binding_waits_for_all_devices) {
  const CUmemGenericAllocationHandle object = create(2, kTwoPages);
  Memory memory(0);
  OK(cuMulticastAddDevice(object, 0));
  std::atomic<bool> bound{false}, mapped{false};
  std::thread binder([&] {
    OK(cuMulticastBindMem(object, 0, memory.handle, 0, kTwoPages, 0));
    bound = true;
  });
  std::thread mapper([&] {
    map(object, kTwoPages);
    mapped = true;
  });
  sleep_ms(50);
  CHECK(!bound && !mapped);
  OK(cuMulticastAddDevice(object, 1));
  binder.join();
  mapper.join();
}

CASE(rules) {
  CUmemGenericAllocationHandle handle;
  auto wanted = team(2, kTwoPages);
  wanted.size = kPage + 4096;
  GIVES(CUDA_ERROR_INVALID_VALUE, cuMulticastCreate(&handle, &wanted));
  wanted = team(0, kTwoPages);
  GIVES(CUDA_ERROR_INVALID_VALUE, cuMulticastCreate(&handle, &wanted));
  wanted = team(2, kTwoPages);
  wanted.handleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  GIVES(CUDA_ERROR_NOT_SUPPORTED, cuMulticastCreate(&handle, &wanted));
  const CUmemGenericAllocationHandle object = create(2, 2 * kTwoPages);
  OK(cuMulticastAddDevice(object, 0));
  GIVES(CUDA_ERROR_INVALID_VALUE, cuMulticastAddDevice(object, 0));  // twice
  GIVES(CUDA_ERROR_INVALID_DEVICE, cuMulticastAddDevice(object, 99));
  OK(cuMulticastAddDevice(object, 1));
  GIVES(CUDA_ERROR_INVALID_VALUE, cuMulticastAddDevice(object, 2));  // one too many
  Memory memory(0), of_two(2);
  const auto bind = [&](size_t at, CUmemGenericAllocationHandle of, size_t offset, size_t bytes) {
    return cuMulticastBindMem(object, at, of, offset, bytes, 0);
  };
  GIVES(CUDA_ERROR_INVALID_VALUE, bind(0, of_two.handle, 0, kTwoPages));         // its device is none of the object's
  GIVES(CUDA_ERROR_INVALID_VALUE, bind(4096, memory.handle, 0, kPage));          // not at a whole page
  GIVES(CUDA_ERROR_INVALID_VALUE, bind(0, memory.handle, kPage, kTwoPages));     // more than the memory
  GIVES(CUDA_ERROR_INVALID_VALUE, bind(3 * kPage, memory.handle, 0, kTwoPages)); // more than the object
  GIVES(CUDA_ERROR_INVALID_VALUE, bind(0, object, 0, kTwoPages));                // an object is no memory
  GIVES(CUDA_ERROR_INVALID_VALUE, cuMulticastBindMem(memory.handle, 0, memory.handle, 0, kTwoPages, 0));
  OK(bind(kPage, memory.handle, kPage, kPage));
  GIVES(CUDA_ERROR_INVALID_VALUE, bind(0, memory.handle, 0, kTwoPages));         // something is bound there
  GIVES(CUDA_ERROR_INVALID_VALUE, cuMulticastUnbind(object, 1, 0, 2 * kTwoPages));  // nothing of it
  auto* plain = device_array<char>(kTwoPages);
  GIVES(CUDA_ERROR_INVALID_VALUE, cuMulticastBindAddr(object, 0, reinterpret_cast<CUdeviceptr>(plain), kPage, 0));
  CUdeviceptr address;
  OK(cuMemAddressReserve(&address, 3 * kTwoPages, 0, 0, 0));
  GIVES(CUDA_ERROR_INVALID_VALUE, cuMemMap(address, 3 * kTwoPages, 0, object, 0));
  OK(cuMemMap(address, kTwoPages, kPage, object, 0));
  char* multicast = reinterpret_cast<char*>(address);
  GIVES(CUDA_ERROR_INVALID_VALUE, cuMemRetainAllocationHandle(&handle, multicast));
  char byte = 0;
  GIVES(cudaErrorInvalidValue, cudaMemcpy(&byte, multicast, 1, cudaMemcpyDeviceToHost));
  GIVES(cudaErrorInvalidValue, cudaFree(multicast));
}

// One process with all devices; a range of two mappings; copies and sets; and what is bound may change.
CASE(one_process) {
  const CUmemGenericAllocationHandle object = create(3, kTwoPages);
  std::vector<Memory> first, second;
  for (int device = 0; device < 3; ++device) {
    OK(cuMulticastAddDevice(object, device));
    first.emplace_back(device, kTwoPages);
    second.emplace_back(device, kPage);
  }
  CUdeviceptr both;  // the second memory of device 0, and behind it its third
  OK(cuMemAddressReserve(&both, kTwoPages, 0, 0, 0));
  Memory third(0, kPage);
  OK(cuMemMap(both, kPage, 0, second[0].handle, 0));
  OK(cuMemMap(both + kPage, kPage, 0, third.handle, 0));
  for (int device = 0; device < 3; ++device) OK(cuMulticastBindMem(object, 0, first[device].handle, 0, kTwoPages, 0));
  char* multicast = map(object, kTwoPages);
  for (int device = 0; device < 3; ++device) word(first[device].at) = 1 << device;
  CHECK(sum(multicast) == 7);
  const std::array<uint32_t, 3> values{5, 6, 7};
  OK(cudaMemcpy(multicast + kPage - 4, values.data(), 12, cudaMemcpyHostToDevice));  // over the pages' border
  OK(cudaMemset(multicast + 64, 9, 3));
  OK(cudaDeviceSynchronize());
  for (Memory& memory : first) {
    CHECK(word(memory.at + kPage - 4) == 5 && word(memory.at + kPage) == 6 && word(memory.at + kPage + 4) == 7);
    CHECK(word(memory.at + 64) == 0x090909);
  }
  // Other memory of device 0 in its place.
  OK(cuMulticastUnbind(object, 0, 0, kTwoPages));
  OK(cuMulticastBindAddr(object, 0, both, kTwoPages, 0));
  word(second[0].at) = 100;
  word(third.at) = 200;
  CHECK(sum(multicast) == 106 && sum(multicast + kPage) == 212);
}

CASE(missing_members_fail_the_kernel) {
  const CUmemGenericAllocationHandle object = create(2, kPage);
  OK(cuMulticastAddDevice(object, 0));
  OK(cuMulticastAddDevice(object, 1));
  Memory memory(0, kPage);
  OK(cuMulticastBindMem(object, 0, memory.handle, 0, kPage, 0));
  char* multicast = map(object, kPage);
  GIVES(cudaErrorInvalidValue, cudaMemcpy(multicast, &object, 4, cudaMemcpyHostToDevice));
  GIVES(cudaErrorInvalidValue, cudaMemset(multicast, 0, 4));
  const cudaError_t error = run([&] { ptx<"multimem.st.global.b32 [%0], %1;">(multicast, 1); });
  CHECK(error != cudaSuccess);
}

CASE(a_member_whose_process_ended) {
  Peer peer([](int socket) {
    const CUmemGenericAllocationHandle object = import_fd(get_fd(socket));
    OK(cuMulticastAddDevice(object, 1));
    Memory memory(1, kPage);
    OK(cuMulticastBindMem(object, 0, memory.handle, 0, kPage, 0));
    _exit(0);
  });
  const CUmemGenericAllocationHandle object = create(2, kPage);
  const int fd = export_fd(object);
  put_fd(peer.socket, fd);
  OK(cuMulticastAddDevice(object, 0));
  Memory memory(0, kPage);
  OK(cuMulticastBindMem(object, 0, memory.handle, 0, kPage, 0));
  char* multicast = map(object, kPage);
  peer.finish();
  CHECK(run([&] { ptx<"multimem.st.global.b32 [%0], %1;">(multicast, 1); }) != cudaSuccess);
}

// What was bound and mapped leaves neither mappings nor descriptors nor memory behind, in whatever order it ends.
CASE(nothing_is_left) {
  device_array<char>(1);
  word(Memory(0, kPage).at) = 1;
  const auto before_maps = maps();
  const size_t before_files = open_files();
  size_t before_free, after_free, total;
  OK(cudaMemGetInfo(&before_free, &total));
  for (int round = 0; round < 20; ++round) {
    const CUmemGenericAllocationHandle object = create(2, kTwoPages);
    Memory near(0), far(1);
    OK(cuMulticastAddDevice(object, 0));
    OK(cuMulticastAddDevice(object, 1));
    OK(cuMulticastBindMem(object, 0, near.handle, 0, kTwoPages, 0));
    OK(cuMulticastBindMem(object, 0, far.handle, 0, kTwoPages, 0));
    CHECK(hostcuda::rt::is_bound(hostcuda::rt::page_owner(near.at)));
    char* multicast = map(object, kTwoPages);
    store(multicast, 3);
    const bool unbinds = round % 2 == 0;
    if (unbinds) {
      OK(cuMulticastUnbind(object, 0, 0, kTwoPages));
      OK(cuMulticastUnbind(object, 1, 0, kTwoPages));
      CHECK(hostcuda::rt::page_owner(near.at) == 1 && hostcuda::rt::page_owner(far.at) == 2);
    }
    if (round % 4 < 2) OK(cuMemRelease(object));
    near.end();
    far.end();
    Memory::unmap(multicast, kTwoPages);
    if (round % 4 >= 2) OK(cuMemRelease(object));
  }
  CHECK(maps() == before_maps);
  CHECK(open_files() == before_files);
  OK(cudaMemGetInfo(&after_free, &total));
  CHECK(after_free == before_free);
}

int main(int argc, char** argv) { return run_case(argc, argv); }
