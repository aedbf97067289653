// SPDX-License-Identifier: Apache-2.0
// Allocations: what lies where in the window, whose it is, and how long it lives. All functions may be called by any
// thread. Devices are told by their place on the machine, not by the program's numbers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/pages.h"

namespace hostcuda::rt {

enum class MemoryKind { device, host, vmm, multicast, imported, registered, none };

struct MemoryInfo {
  MemoryKind kind = MemoryKind::none;
  int device = kHostMemory;           // place on the machine
  std::uint64_t base = 0, bytes = 0;  // of the allocation or mapping around the address
  unsigned flags = 0;                 // cudaHostAlloc or cudaHostRegister flags
};

// What lies at an address; kind none for ordinary host memory.
MemoryInfo memory_at(const void* address);

cudaError_t allocate(int device, std::uint64_t bytes, unsigned flags, void** address);
cudaError_t release(void* address, MemoryKind kind);

cudaError_t register_host(void* address, std::uint64_t bytes, unsigned flags);
cudaError_t unregister_host(void* address);

}  // namespace hostcuda::rt
