// SPDX-License-Identifier: Apache-2.0
// CUDA's warp operations and block barriers on the simulator.
#pragma once

#include <cstdint>
#include <cstring>

#include "simt/device_thread.h"

inline constexpr int warpSize = 32;

inline void __syncthreads() { ::hostcuda::simt::block_sync(0, 0); }
inline int __syncthreads_count(int predicate) { return int(::hostcuda::simt::block_count(0, 0, predicate != 0)); }
inline int __syncthreads_or(int predicate) { return __syncthreads_count(predicate) != 0; }
inline int __syncthreads_and(int predicate) { return __syncthreads_count(predicate == 0) == 0; }

inline void __syncwarp(unsigned mask = ~0u) { ::hostcuda::simt::warp_vote(mask, false); }
inline unsigned __ballot_sync(unsigned mask, int predicate) { return ::hostcuda::simt::warp_vote(mask, predicate != 0); }
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate == 0) == 0; }
inline unsigned __activemask() { return ::hostcuda::simt::warp_live_lanes(); }

namespace hostcuda::shim {

inline unsigned lane_id() { return hostcuda_device_thread->linear_index % simt::kWarpSize; }

// The value of lane `source`; a lane outside of the segment gives back the caller's own, as CUDA says.
template <class T>
inline T shuffle(unsigned mask, T value, unsigned source, bool valid) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  const std::uint64_t* all = simt::warp_exchange(mask, word).values;
  if (!valid) return value;
  std::memcpy(&value, &all[source % simt::kWarpSize], sizeof(T));
  return value;
}

}  // namespace hostcuda::shim

template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  unsigned first = ::hostcuda::shim::lane_id() & ~unsigned(width - 1);
  return ::hostcuda::shim::shuffle(mask, value, first | (unsigned(source) & unsigned(width - 1)), true);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  unsigned lane = ::hostcuda::shim::lane_id(), source = lane ^ unsigned(lanes);
  return ::hostcuda::shim::shuffle(mask, value, source, source < (lane & ~unsigned(width - 1)) + unsigned(width));
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  unsigned lane = ::hostcuda::shim::lane_id();
  return ::hostcuda::shim::shuffle(mask, value, lane - delta, (lane & unsigned(width - 1)) >= delta);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  unsigned lane = ::hostcuda::shim::lane_id();
  return ::hostcuda::shim::shuffle(mask, value, lane + delta, (lane & unsigned(width - 1)) + delta < unsigned(width));
}

template <class T>
inline unsigned __match_any_sync(unsigned mask, T value) {
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  auto [all, lanes] = ::hostcuda::simt::warp_exchange(mask, word);
  unsigned same = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((lanes >> lane & 1) && all[lane] == word) same |= 1u << lane;
  return same;
}
template <class Op>
inline unsigned hostcuda_reduce_sync(unsigned mask, unsigned value, Op op) {
  auto [all, lanes] = ::hostcuda::simt::warp_exchange(mask, value);
  unsigned total = value;
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((lanes >> lane & 1) && lane != ::hostcuda::shim::lane_id()) total = op(total, unsigned(all[lane]));
  return total;
}
inline unsigned __reduce_add_sync(unsigned mask, unsigned value) {
  return hostcuda_reduce_sync(mask, value, [](unsigned a, unsigned b) { return a + b; });
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value) {
  return hostcuda_reduce_sync(mask, value, [](unsigned a, unsigned b) { return a | b; });
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned value) {
  return hostcuda_reduce_sync(mask, value, [](unsigned a, unsigned b) { return a & b; });
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  return hostcuda_reduce_sync(mask, value, [](unsigned a, unsigned b) { return a > b ? a : b; });
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned value) {
  return hostcuda_reduce_sync(mask, value, [](unsigned a, unsigned b) { return a < b ? a : b; });
}
