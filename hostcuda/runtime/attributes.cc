// SPDX-License-Identifier: Apache-2.0
#include "runtime/attributes.h"

#include <cuda.h>

#include <cstdio>
#include <cstring>

namespace hostcuda::rt {
namespace {

constexpr int kMostThreadsPerCta = 1024;
constexpr int kWarp = 32;
constexpr int kMostGridX = 2147483647, kMostGridYz = 65535;
constexpr std::uint64_t kSharedWithoutOptIn = 48 << 10;
constexpr std::uint64_t kSharedReserved = 1 << 10;  // of each CTA, by the driver, from compute capability 8.0 on
constexpr int kConstantBytes = 64 << 10;
constexpr int kTextureAlignment = 512;
constexpr int kLastAttribute = CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED;

struct PciPlace {
  unsigned domain = 0, bus = 0, device = 0;
};

PciPlace pci_place(const Device& device) {
  PciPlace place;
  std::sscanf(machine()->gpus[device.place].bus_id.c_str(), "%x:%x:%x", &place.domain, &place.bus, &place.device);
  return place;
}

}  // namespace

std::optional<int> device_attribute(const Device& device, int attribute) {
  const GpuInfo& gpu = machine()->gpu;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: return kMostThreadsPerCta;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return kMostGridX;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: return kMostGridYz;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return kSharedWithoutOptIn;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return static_cast<int>(gpu.shared_bytes_per_cta);
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: return static_cast<int>(gpu.shared_bytes_per_sm);
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: return kSharedReserved;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: return kConstantBytes;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return kWarp;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: return gpu.registers_per_sm;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: return gpu.clock_khz;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT: return kTextureAlignment;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return gpu.sms;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return gpu.threads_per_sm;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: return gpu.ctas_per_sm;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return static_cast<int>(gpu.l2_bytes);
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return gpu.major;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return gpu.minor;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID: return static_cast<int>(pci_place(device).domain);
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return static_cast<int>(pci_place(device).bus);
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID: return static_cast<int>(pci_place(device).device);
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED: return machine()->has_multicast(device.place);
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID: return static_cast<int>(machine()->gpus[device.place].numa_node);
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: return 2;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: return 1;
    default: break;
  }
  // Everything else is a feature that is not there: fabric handles, GPUDirect RDMA, managed memory, ...
  if (attribute >= 1 && attribute <= kLastAttribute) return 0;
  return std::nullopt;
}

void fill_properties(const Device& device, cudaDeviceProp* p) {
  const GpuInfo& gpu = machine()->gpu;
  const PciPlace pci = pci_place(device);
  std::memset(p, 0, sizeof *p);
  std::snprintf(p->name, sizeof p->name, "%s", gpu.name.c_str());
  std::snprintf(p->uuid.bytes, sizeof p->uuid.bytes, "hostcuda%04x%02x", pci.domain & 0xffff, pci.bus & 0xff);
  p->totalGlobalMem = gpu.memory_bytes;
  p->sharedMemPerBlock = kSharedWithoutOptIn;
  p->sharedMemPerBlockOptin = gpu.shared_bytes_per_cta;
  p->sharedMemPerMultiprocessor = gpu.shared_bytes_per_sm;
  p->reservedSharedMemPerBlock = kSharedReserved;
  p->regsPerBlock = p->regsPerMultiprocessor = gpu.registers_per_sm;
  p->warpSize = kWarp;
  p->memPitch = kMostGridX;
  p->maxThreadsPerBlock = kMostThreadsPerCta;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = kMostThreadsPerCta;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = kMostGridX;
  p->maxGridSize[1] = p->maxGridSize[2] = kMostGridYz;
  p->totalConstMem = kConstantBytes;
  p->major = gpu.major;
  p->minor = gpu.minor;
  p->textureAlignment = kTextureAlignment;
  p->multiProcessorCount = gpu.sms;
  p->canMapHostMemory = 1;
  p->concurrentKernels = 1;
  p->ECCEnabled = 1;
  p->pciDomainID = static_cast<int>(pci.domain);
  p->pciBusID = static_cast<int>(pci.bus);
  p->pciDeviceID = static_cast<int>(pci.device);
  p->asyncEngineCount = 2;
  p->unifiedAddressing = 1;
  p->l2CacheSize = static_cast<int>(gpu.l2_bytes);
  p->maxThreadsPerMultiProcessor = gpu.threads_per_sm;
  p->maxBlocksPerMultiProcessor = gpu.ctas_per_sm;
  p->streamPrioritiesSupported = 1;
  p->globalL1CacheSupported = p->localL1CacheSupported = 1;
  p->canUseHostPointerForRegisteredMem = 1;
  p->hostRegisterSupported = 1;
  p->memoryPoolsSupported = 1;
  p->hostNumaId = static_cast<int>(machine()->gpus[device.place].numa_node);
}

}  // namespace hostcuda::rt
