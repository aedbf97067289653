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

int main(int argc, char** argv) { return run_case(argc, argv); }
