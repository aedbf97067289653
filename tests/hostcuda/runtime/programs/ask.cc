// SPDX-License-Identifier: Apache-2.0
// Prints what the library says about its machine, for tests that choose one.
#include <cuda.h>
#include <dlfcn.h>

#include "check.h"

CASE(devices) {
  int count = -1;
  const cudaError_t error = cudaGetDeviceCount(&count);
  std::printf("count %d error %s\n", count, cudaGetErrorName(error));
  for (int i = 0; i < count; ++i) {
    char bus_id[32];
    cudaDeviceProp known;
    OK(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, i));
    OK(cudaGetDeviceProperties(&known, i));
    int back = -1;
    OK(cudaDeviceGetByPCIBusId(&back, bus_id));
    CHECK(back == i);
    std::printf("device %s %s %d.%d\n", bus_id, known.name, known.major, known.minor);
  }
  const char* topology = getenv("NCCL_TOPO_FILE");
  std::printf("topology %s\n", topology == nullptr ? "none" : topology);
}

CASE(too_many_ranks) {
  for (int i = 8; i < 10; ++i) GIVES(cudaErrorInvalidDevice, cudaSetDevice(i));
  GIVES(cudaErrorInvalidDevice, cudaGetLastError());
  GIVES(cudaErrorInvalidDevice, cudaSetDevice(-1));
}

CASE(devices_by_number) { GIVES(cudaErrorInvalidDevice, cudaSetDevice(0)); }

// Kernels that were compiled for one compute capability each; the first one for any.
CASE(architectures) {
  static char symbols[5];
  const unsigned arches[] = {0, 800, 890, 900, 1000};
  for (int i = 0; i < 5; ++i) {
    hostcudaKernelEntry_t kernel{};
    kernel.size = sizeof kernel;
    kernel.version = HOSTCUDA_KERNEL_ENTRY_VERSION;
    kernel.symbol = &symbols[i];
    kernel.name = "kernel";
    kernel.entry = [](const void*) {};
    kernel.arch = arches[i];
    OK(hostcudaRegisterKernel(&kernel));
    cudaFuncAttributes attributes;
    const cudaError_t told = cudaFuncGetAttributes(&attributes, &symbols[i]);
    GIVES(told, cudaLaunchKernel(&symbols[i], dim3(1), dim3(1), nullptr, 0, nullptr));
    std::printf("%u %s\n", arches[i], cudaGetErrorName(told));
  }
  OK(cudaDeviceSynchronize());
}

CASE(nothing_works_without_a_machine) {
  void* made;
  int value;
  cudaStream_t stream;
  GIVES(cudaErrorInitializationError, cudaSetDevice(0));
  GIVES(cudaErrorInitializationError, cudaMalloc(&made, 1));
  GIVES(cudaErrorInitializationError, cudaStreamCreateWithFlags(&stream, 0));
  GIVES(cudaErrorInitializationError, cudaDeviceSynchronize());
  GIVES(cudaErrorInitializationError, cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0));
  GIVES(CUDA_ERROR_NO_DEVICE, cuInit(0));
  CHECK(hostcudaHostTimeNs() == 0);
}

// What NCCL asks for by name, with the versions it wants.
CASE(entry_points) {
  const struct {
    const char* name;
    int version;
  } wanted[] = {
      {"cuGetErrorString", 6000}, {"cuGetErrorName", 6000}, {"cuDeviceGet", 2000}, {"cuDeviceGetAttribute", 2000},
      {"cuMemGetAddressRange", 3020}, {"cuCtxCreate", 11040}, {"cuCtxDestroy", 4000}, {"cuCtxGetCurrent", 4000},
      {"cuCtxSetCurrent", 4000}, {"cuCtxGetDevice", 2000}, {"cuLaunchKernel", 4000}, {"cuLaunchKernelEx", 11060},
      {"cuMemAddressReserve", 10020}, {"cuMemAddressFree", 10020}, {"cuMemCreate", 10020},
      {"cuMemGetAllocationGranularity", 10020}, {"cuMemExportToShareableHandle", 10020},
      {"cuMemImportFromShareableHandle", 10020}, {"cuMemMap", 10020}, {"cuMemRelease", 10020},
      {"cuMemRetainAllocationHandle", 11000}, {"cuMemSetAccess", 10020}, {"cuMemUnmap", 10020},
      {"cuMemGetAllocationPropertiesFromHandle", 10020}, {"cuPointerGetAttribute", 4000},
      {"cuMemGetHandleForAddressRange", 11070}, {"cuMulticastAddDevice", 12010}, {"cuMulticastBindMem", 12010},
      {"cuMulticastBindAddr", 12010}, {"cuMulticastCreate", 12010}, {"cuMulticastGetGranularity", 12010},
      {"cuMulticastUnbind", 12010}, {"cuStreamBatchMemOp", 11070}, {"cuStreamWaitValue32", 11070},
      {"cuStreamWaitValue64", 11070}, {"cuStreamWriteValue32", 11070}, {"cuStreamWriteValue64", 11070},
  };
  for (const auto& entry : wanted) {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
    OK(cudaGetDriverEntryPointByVersion(entry.name, &function, entry.version, cudaEnableDefault, &status));
    if (function == nullptr) std::printf("%s is missing\n", entry.name);
    CHECK(function != nullptr && status == cudaDriverEntryPointSuccess);
  }
  void *function = nullptr, *newer = nullptr;
  CUdriverProcAddressQueryResult status;
  OK(cuGetProcAddress("cuCtxCreate", &function, 11040, 0, &status));
  OK(cuGetProcAddress("cuCtxCreate", &newer, 13000, 0, &status));
  CHECK(function != newer);  // its parameters changed
  CUcontext context = nullptr;
  using CreateOf11040 = CUresult (*)(CUcontext*, CUexecAffinityParam*, int, unsigned, CUdevice);
  OK(reinterpret_cast<CreateOf11040>(function)(&context, nullptr, 0, 0, 2));
  int device = -1;
  OK(cudaGetDevice(&device));
  CHECK(context != nullptr && device == 2);
  OK(cuGetProcAddress("cuLaunchKernelEx", &function, 11000, 0, &status));
  CHECK(function == nullptr && status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  OK(cuGetProcAddress("cuDoesNotExist", &function, 13000, 0, &status));
  CHECK(function == nullptr && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

CASE(refused_by_name) {
  CUmemGenericAllocationHandle handle;
  CUmulticastObjectProp wanted{};
  GIVES(CUDA_ERROR_NOT_SUPPORTED, cuMulticastCreate(&handle, &wanted));
  int supported = -1;
  OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0));
  CHECK(supported == 0);
  OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
  CHECK(supported == 1);
  GIVES(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&supported, static_cast<CUdevice_attribute>(100000), 0));
}

// Through dlopen, as NCCL does.
CASE(nvml) {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  CHECK(library != nullptr);
  const auto find = [&](const char* name) {
    void* found = dlsym(library, name);
    if (found == nullptr) std::printf("%s is missing\n", name);
    CHECK(found != nullptr);
    return found;
  };
  using Device = void*;
  OK(reinterpret_cast<int (*)()>(find("nvmlInit_v2"))());
  unsigned count = 0;
  OK(reinterpret_cast<int (*)(unsigned*)>(find("nvmlDeviceGetCount_v2"))(&count));
  const auto by_bus_id = reinterpret_cast<int (*)(const char*, Device*)>(find("nvmlDeviceGetHandleByPciBusId"));
  const auto index_of = reinterpret_cast<int (*)(Device, unsigned*)>(find("nvmlDeviceGetIndex"));
  const auto by_index = reinterpret_cast<int (*)(unsigned, Device*)>(find("nvmlDeviceGetHandleByIndex"));
  const auto link_state = reinterpret_cast<int (*)(Device, unsigned, unsigned*)>(find("nvmlDeviceGetNvLinkState"));
  const auto p2p = reinterpret_cast<int (*)(Device, Device, unsigned, unsigned*)>(find("nvmlDeviceGetP2PStatus"));
  struct Pci {
    char bus_id[16];
    unsigned numbers[9];
  } remote;
  const auto remote_of = reinterpret_cast<int (*)(Device, unsigned, Pci*)>(find("nvmlDeviceGetNvLinkRemotePciInfo"));
  for (unsigned i = 0; i < count; ++i) {
    Device device, again;
    OK(by_index(i, &device));
    char bus_id[32];
    OK(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, static_cast<int>(i)));
    OK(by_bus_id(bus_id, &again));
    CHECK(again == device);
    unsigned index = 99, links = 0, active = 0;
    OK(index_of(device, &index));
    CHECK(index == i);
    std::memset(&remote, 0, sizeof remote);
    while (link_state(device, links, &active) == 0 && active != 0) {
      OK(remote_of(device, links, &remote));
      ++links;
    }
    Device first;
    unsigned status[2];
    OK(by_index(0, &first));
    OK(p2p(first, device, 0, &status[0]));
    OK(p2p(first, device, 2, &status[1]));
    std::printf("%u links %u to %s, p2p with 0 %u, over nvlink %u\n", i, links, remote.bus_id, status[0], status[1]);
  }
  Device none;
  CHECK(by_bus_id("0000:00:00.0", &none) != 0);
  CHECK(by_index(count, &none) != 0);
  char structure[256] = {};
  CHECK(reinterpret_cast<int (*)(Device, void*)>(find("nvmlDeviceGetGpuFabricInfoV"))(none, structure) == 3);
}

// libcuda.so.1 is found by name and answers itself.
CASE(libcuda) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  CHECK(library != nullptr);
  void* function = dlsym(library, "cuMemGetAddressRange_v2");
  CHECK(function != nullptr && dlsym(library, "cuGetProcAddress_v2") != nullptr);
  int version = 0;
  OK(reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDriverGetVersion"))(&version));
  CHECK(version == CUDA_VERSION);
}

// By the names of the first versions, as NCCL's inspector asks.
CASE(plain_names) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  const char* const names[] = {"cuDeviceGetUuid", "cuDevicePrimaryCtxRelease", "cuCtxDestroy", "cuCtxPushCurrent",
                               "cuCtxPopCurrent", "cuStreamDestroy", "cuEventDestroy", "cuEventElapsedTime"};
  for (const char* name : names) {
    if (dlsym(library, name) == nullptr) std::printf("%s is missing\n", name);
    CHECK(dlsym(library, name) != nullptr);
  }
  CUuuid first{}, latest{};
  OK(reinterpret_cast<CUresult (*)(CUuuid*, CUdevice)>(dlsym(library, "cuDeviceGetUuid"))(&first, 1));
  OK(cuDeviceGetUuid(&latest, 1));
  CHECK(std::memcmp(&first, &latest, sizeof first) == 0);
  using First = CUresult (*)(const char*, void**, int, cuuint64_t);
  const auto find = reinterpret_cast<First>(dlsym(library, "cuGetProcAddress"));
  void* function = nullptr;
  OK(find("cuInit", &function, 11030, 0));
  CHECK(function == reinterpret_cast<void*>(&cuInit));
  GIVES(CUDA_ERROR_NOT_FOUND, find("cuDoesNotExist", &function, 11030, 0));
}

CASE(contexts_are_a_stack) {
  CUcontext of[3], now;
  for (int i = 0; i < 3; ++i) OK(cuDevicePrimaryCtxRetain(&of[i], i));
  OK(cudaSetDevice(0));
  GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent(&now));
  OK(cuCtxPushCurrent(of[1]));
  OK(cuCtxPushCurrent(of[2]));
  CUdevice device = -1;
  OK(cuCtxGetDevice(&device));
  CHECK(device == 2);
  OK(cuCtxPopCurrent(&now));
  CHECK(now == of[2]);
  OK(cuCtxPopCurrent(&now));
  CHECK(now == of[1]);
  OK(cuCtxGetDevice(&device));
  CHECK(device == 0);
  for (int i = 0; i < 16; ++i) OK(cuCtxPushCurrent(of[1]));
  GIVES(CUDA_ERROR_INVALID_VALUE, cuCtxPushCurrent(of[1]));
  GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent(nullptr));
}

CASE(streams_tell_of_themselves) {
  OK(cudaSetDevice(3));
  int least = -1, greatest = -1, priority = 99;
  OK(cuCtxGetStreamPriorityRange(&least, &greatest));
  CHECK(least > greatest);
  CUstream stream;
  OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest));
  OK(cudaSetDevice(0));
  CUcontext context, expected;
  OK(cuStreamGetCtx(stream, &context));
  OK(cuDevicePrimaryCtxRetain(&expected, 3));
  CHECK(context == expected);
  CUdevice device = -1;
  unsigned flags = 99;
  OK(cuStreamGetDevice(stream, &device));
  OK(cuStreamGetFlags(stream, &flags));
  OK(cuStreamGetPriority(stream, &priority));
  CHECK(device == 3 && flags == CU_STREAM_NON_BLOCKING && priority == greatest);
  unsigned long long one = 0, other = 0;
  OK(cuStreamGetId(stream, &one));
  OK(cuStreamGetId(nullptr, &other));
  CHECK(one != other);
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  OK(cuStreamIsCapturing(stream, &capturing));
  CHECK(capturing == CU_STREAM_CAPTURE_STATUS_NONE);
  OK(cuStreamDestroy(stream));
  GIVES(CUDA_ERROR_INVALID_HANDLE, cuStreamGetFlags(stream, &flags));
}

CASE(driver_copies) {
  OK(cudaSetDevice(0));
  CUdeviceptr here, there;
  OK(cuMemAlloc(&here, 4096));
  OK(cudaSetDevice(1));
  OK(cuMemAlloc(&there, 4096));
  unsigned char sent[4096], back[4096];
  for (unsigned i = 0; i < sizeof sent; ++i) sent[i] = static_cast<unsigned char>(i * 7);
  OK(cuMemcpyHtoD(here, sent, sizeof sent));
  CUcontext of[2];
  for (int i = 0; i < 2; ++i) OK(cuDevicePrimaryCtxRetain(&of[i], i));
  OK(cuMemsetD8(there, 9, 4096));
  OK(cuMemcpyPeer(there, of[1], here, of[0], 4000));
  OK(cuMemcpyDtoH(back, there, sizeof back));
  CHECK(std::memcmp(sent, back, 4000) == 0 && back[4000] == 9 && back[4095] == 9);
  OK(cuMemcpyDtoD(here, there, 4096));
  OK(cuMemcpy(reinterpret_cast<CUdeviceptr>(sent), here, 4096));
  CHECK(std::memcmp(sent, back, 4096) == 0);
  OK(cuMemcpyPeerAsync(here + 8, of[0], there, of[1], 8, nullptr));
  OK(cuCtxSynchronize());
  OK(cuMemcpyDtoH(back, here, 16));
  CHECK(std::memcmp(back + 8, sent, 8) == 0);
  GIVES(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyPeer(there, nullptr, here, of[0], 8));
  GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(back, here + 4090, 2 << 20));
}

CASE(driver_pools) {
  OK(cudaSetDevice(2));
  CUmemoryPool pool, current;
  OK(cuDeviceGetDefaultMemPool(&pool, 2));
  OK(cuDeviceGetMemPool(&current, 2));
  CHECK(pool == current);
  cuuint64_t kept = 1 << 20, told = 0;
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept));
  OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &told));
  CHECK(told == kept);
  CUmemAccess_flags access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  CUmemLocation where{};
  where.type = CU_MEM_LOCATION_TYPE_DEVICE;
  where.id = 2;
  OK(cuMemPoolGetAccess(&access, pool, &where));
  CHECK(access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CUdeviceptr some;
  OK(cuMemAllocAsync(&some, 100, nullptr));
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                  CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  struct {
    unsigned type, guard1;
    int device, guard2;
    std::size_t bytes;
  } known{9, 77, 9, 77, 9};
  void* places[] = {&known.type, &known.device, &known.bytes};
  OK(cuPointerGetAttributes(3, wanted, places, some));
  CHECK(known.type == CU_MEMORYTYPE_DEVICE && known.device == 2 && known.bytes >= 100);
  CHECK(known.guard1 == 77 && known.guard2 == 77);
  int mine = 0;
  OK(cuPointerGetAttributes(3, wanted, places, reinterpret_cast<CUdeviceptr>(&mine)));
  CHECK(known.type == 0 && known.bytes == 0 && known.guard1 == 77);
  OK(cuMemFreeAsync(some, nullptr));
  OK(cuMemAllocFromPoolAsync(&some, 100, pool, nullptr));
  OK(cuMemFreeAsync(some, nullptr));
  OK(cuMemPoolTrimTo(pool, 0));
  GIVES(CUDA_ERROR_INVALID_VALUE, cuMemPoolTrimTo(reinterpret_cast<CUmemoryPool>(&kept), 0));
}

// What NVIDIA's static runtime begins with.
CASE(foreign_runtime) {
  void* function = &function;
  for (int i = 0; i < 2; ++i) GIVES(CUDA_ERROR_NOT_FOUND, cuGetProcAddress("", &function, 0, 0, nullptr));
  CHECK(function == nullptr);
  const void* table = &function;
  GIVES(CUDA_ERROR_NOT_SUPPORTED, cuGetExportTable(&table, nullptr));
  CHECK(table == nullptr);
}

int main(int argc, char** argv) { return run_case(argc, argv); }
