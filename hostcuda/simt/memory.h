// SPDX-License-Identifier: Apache-2.0
// Stacks of fibers and shared memory of CTAs. Both are pooled: a collective library launches the same grid shape again
// and again, and pages that were touched once are cheap.
#pragma once

#include <cstddef>
#include <vector>

#include "simt/device_thread.h"

namespace hostcuda::simt {

// Stacks of one warp, each over a guard page. Stride and tops are chosen so that the hot ends of a warp's stacks fall
// into different cache sets: with a power of two they would all share one.
struct StackSlab {
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kStackBytes = 16 * kPage;
  static constexpr std::size_t kStride = kStackBytes + kPage;
  static constexpr std::size_t kBytes = kWarpSize * kStride;

  char* base = nullptr;

  char* guard(unsigned lane) const { return base + lane * kStride; }
  char* lowest(unsigned lane) const { return guard(lane) + kPage; }
  // Highest address of the lane's stack, a multiple of 64.
  char* top(unsigned lane) const { return base + (lane + 1) * kStride - (lane * 5 % kWarpSize) * 128; }
};

// Throws std::bad_alloc where the system gives no more address space.
StackSlab take_stacks();
void give_stacks(StackSlab slab);

// True where `address` is in a guard page of any slab that exists. Safe in a signal handler.
bool is_stack_guard(const void* address);

// Shared memory lies in the lowest 2 GiB of the address space, so that a 32-bit shared address and a generic pointer
// are the same number and conversions cost nothing. Contents are not cleared, as on a GPU.
char* take_shared(std::size_t bytes);
void give_shared(char* block, std::size_t bytes);

}  // namespace hostcuda::simt
