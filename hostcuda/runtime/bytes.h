// SPDX-License-Identifier: Apache-2.0
// Bytes written by copies and fills, once they run.
#pragma once

#include <cstdint>
#include <functional>

namespace hostcuda::rt {

// Runs plain loads and stores that hold nothing; throws std::runtime_error with the address if memory that they touch
// is not there (any more), so that the operation fails instead of the process.
void touch(const std::function<void()>& work);

// Copies as cudaMemcpy does, also to multicast addresses. Device memory or memory of the host that this process has.
void copy_bytes(void* to, const void* from, std::uint64_t bytes);

// Fills memory as cudaMemset does. Whole pages set to zero are given back to the system instead of written, so that
// buffers that a program only clears cost no memory. They cost as much modelled time as any others.
void fill(void* address, std::uint32_t value, unsigned value_bytes, std::uint64_t bytes);

}  // namespace hostcuda::rt
