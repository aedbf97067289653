// SPDX-License-Identifier: Apache-2.0
// The driver's virtual memory management: memory without an address, addresses without memory, and one shown at the
// other. Handles for memory are in memory_handles.h.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "runtime/pages.h"

namespace hostcuda::rt {

// Memory without an address. Lives while a handle or a mapping refers to it.
struct Physical {
  Physical(std::shared_ptr<Arena> arena, std::uint64_t offset, std::uint64_t bytes, int device);
  ~Physical();
  Physical(const Physical&) = delete;

  // Whether it is what the memory file holds at `at`.
  bool lies_at(const Arena& file, std::uint64_t at) const { return arena->inode() == file.inode() && offset == at; }

  const std::shared_ptr<Arena> arena;
  const std::uint64_t offset, bytes;
  const int device;
  CUmemAllocationProp properties{};
  int bound = 0;  // to how many places of multicast objects, by this process

 private:
  const std::unique_ptr<Hold> hold_;  // of a peer's memory
};

cudaError_t reserve_addresses(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t* address);
cudaError_t free_addresses(std::uint64_t address, std::uint64_t bytes);

// `device` (a place) counts as that of a multicast address.
cudaError_t map_physical(std::uint64_t address, std::uint64_t bytes, std::uint64_t offset,
                         CUmemGenericAllocationHandle handle, int device);
cudaError_t unmap_physical(std::uint64_t address, std::uint64_t bytes);

// Whether mappings, one behind the other, fill the whole range.
bool is_mapped(std::uint64_t address, std::uint64_t bytes);

// A part of a mapping and the memory behind it; `physical` is nullptr where the address is none of a mapping.
struct MappedPart {
  std::shared_ptr<Physical> physical;
  std::uint64_t offset = 0, bytes = 0;  // from the address to the mapping's end
};
MappedPart mapped_at(std::uint64_t address);

// `by` places more (or fewer) of multicast objects show the memory.
void mark_bound(Physical& physical, int by);

}  // namespace hostcuda::rt
