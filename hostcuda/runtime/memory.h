// SPDX-License-Identifier: Apache-2.0
// Allocations: what lies where in the window, whose it is, and how long it lives. All functions may be called by any
// thread. Devices are told by their place on the machine, not by the program's numbers.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "runtime/arena.h"

namespace hostcuda::rt {

inline constexpr int kHostMemory = -1;  // where a device number stands for pinned host memory

enum class MemoryKind { device, host, vmm, multicast, imported, registered, none };

struct MemoryInfo {
  MemoryKind kind = MemoryKind::none;
  int device = kHostMemory;       // place on the machine
  std::uint64_t base = 0, bytes = 0;  // of the allocation or mapping around the address
  unsigned flags = 0;             // cudaHostAlloc or cudaHostRegister flags
};

// What lies at an address; kind none for ordinary host memory.
MemoryInfo memory_at(const void* address);

// Memory that the CPU may change or free as soon as a call returns: neither device memory nor pinned.
inline bool is_pageable(const void* address) { return memory_at(address).kind == MemoryKind::none; }

cudaError_t allocate(int device, std::uint64_t bytes, unsigned flags, void** address);
cudaError_t release(void* address, MemoryKind kind);
void device_memory(int device, std::uint64_t* free_bytes, std::uint64_t* total_bytes);

cudaError_t register_host(void* address, std::uint64_t bytes, unsigned flags);
cudaError_t unregister_host(void* address);

cudaError_t export_ipc(const void* address, cudaIpcMemHandle_t* handle);
cudaError_t import_ipc(const cudaIpcMemHandle_t& handle, void** address);
cudaError_t close_ipc(void* address);

// ---- the driver's virtual memory management ----

// Memory without an address. Lives while a handle or a mapping refers to it.
struct Physical {
  std::shared_ptr<Arena> arena;
  std::uint64_t offset = 0, bytes = 0;
  int device = kHostMemory;
  CUmemAllocationProp properties{};
  int bound = 0;  // to how many places of multicast objects, by this process
  ~Physical();
};
class Multicast;  // runtime/multicast.h: a handle may also stand for such an object

cudaError_t create_physical(int device, std::uint64_t bytes, const CUmemAllocationProp& properties,
                            CUmemGenericAllocationHandle* handle);
std::shared_ptr<Physical> find_physical(CUmemGenericAllocationHandle handle);
std::shared_ptr<Multicast> find_multicast(CUmemGenericAllocationHandle handle);
CUmemGenericAllocationHandle handle_of(std::shared_ptr<Multicast> object);  // one reference more
// A part of a mapping and the memory behind it; `physical` is nullptr where the address is none of a mapping.
struct MappedPart {
  std::shared_ptr<Physical> physical;
  std::uint64_t offset = 0, bytes = 0;  // from the address to the mapping's end
};
MappedPart mapped_at(std::uint64_t address);
void mark_bound(Physical& physical, int by);
cudaError_t release_handle(CUmemGenericAllocationHandle handle);
cudaError_t retain_handle(const void* address, CUmemGenericAllocationHandle* handle);
cudaError_t export_fd(CUmemGenericAllocationHandle handle, int* fd);
cudaError_t import_fd(int fd, CUmemGenericAllocationHandle* handle);

cudaError_t reserve_addresses(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t* address);
cudaError_t free_addresses(std::uint64_t address, std::uint64_t bytes);
// `device` (a place) counts as that of a multicast address.
cudaError_t map_physical(std::uint64_t address, std::uint64_t bytes, std::uint64_t offset,
                         CUmemGenericAllocationHandle handle, int device);
cudaError_t unmap_physical(std::uint64_t address, std::uint64_t bytes);

// Whole pages of addresses in the window's upper half; 0 where they are used up.
std::uint64_t take_addresses(std::uint64_t bytes, std::uint64_t alignment);
void give_addresses(std::uint64_t address, std::uint64_t bytes);

// Copies as cudaMemcpy does, also to multicast addresses. Device memory or memory of the host that this process has.
void copy_bytes(void* to, const void* from, std::uint64_t bytes);

// Fills memory as cudaMemset does. Whole pages set to zero are given back to the system instead of written, so that
// buffers that a program only clears cost no memory. They cost as much modelled time as any others.
void fill(void* address, std::uint32_t value, unsigned value_bytes, std::uint64_t bytes);

}  // namespace hostcuda::rt
