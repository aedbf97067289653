// SPDX-License-Identifier: Apache-2.0
// CUmemGenericAllocationHandle: counted references to memory without an address or to a multicast object, and how they
// cross to other processes.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

namespace hostcuda::rt {

struct Physical;  // runtime/virtual_memory.h
class Multicast;  // runtime/multicast.h

struct MemoryHandle {  // what it stands for: one of them, neither where there is no such handle
  std::shared_ptr<Physical> physical;
  std::shared_ptr<Multicast> multicast;
};

cudaError_t create_physical(int device, std::uint64_t bytes, const CUmemAllocationProp& properties,
                            CUmemGenericAllocationHandle* handle);
MemoryHandle find_handle(CUmemGenericAllocationHandle handle);
CUmemGenericAllocationHandle handle_of(std::shared_ptr<Multicast> object);  // one reference more
cudaError_t retain_handle(const void* address, CUmemGenericAllocationHandle* handle);
cudaError_t release_handle(CUmemGenericAllocationHandle handle);

// As POSIX file descriptors; what is exported is the caller's to close.
cudaError_t export_fd(CUmemGenericAllocationHandle handle, int* fd);
cudaError_t import_fd(int fd, CUmemGenericAllocationHandle* handle);

}  // namespace hostcuda::rt
