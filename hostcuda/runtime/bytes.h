// SPDX-License-Identifier: Apache-2.0
// Bytes written by copies and fills, once they run.
#pragma once

#include <cstdint>

namespace hostcuda::rt {

// Copies as cudaMemcpy does, also to multicast addresses. Device memory or memory of the host that this process has.
void copy_bytes(void* to, const void* from, std::uint64_t bytes);

// Fills memory as cudaMemset does. Whole pages set to zero are given back to the system instead of written, so that
// buffers that a program only clears cost no memory. They cost as much modelled time as any others.
void fill(void* address, std::uint32_t value, unsigned value_bytes, std::uint64_t bytes);

}  // namespace hostcuda::rt
