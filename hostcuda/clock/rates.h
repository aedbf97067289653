// SPDX-License-Identifier: Apache-2.0
// How fast what is on a device moves as long as nothing changes there. Internal to clock/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "clock/op.h"

namespace hostcuda::clock {

using Wide = unsigned __int128;
inline constexpr std::uint64_t kNever = UINT64_MAX;
inline constexpr unsigned kSpeedBits = 30;  // a speed is a share of full speed in units of 2^-30
inline constexpr std::uint64_t kFullSpeed = std::uint64_t{1} << kSpeedBits;
inline constexpr unsigned kWorkBits = 40;  // work left is a share of all in units of 2^-40
inline constexpr std::uint64_t kAllWork = std::uint64_t{1} << kWorkBits;

inline std::uint64_t scaled(std::uint64_t value, std::uint64_t factor, std::uint64_t divisor) {
  return static_cast<std::uint64_t>(Wide{value} * factor / divisor);
}

// Something that moves: CTAs of a kernel that were placed together and sit on equally crowded SMs, a grid that has
// begun, or a copy.
struct Item {
  std::size_t op;
  std::uint32_t ctas = 0, level = 1;  // of a kernel: how many computing CTAs share each of its SMs
  Hold hold;                          // of a kernel
  std::uint64_t left = kAllWork;
  // Set whenever something on the device changes, by set_rates.
  Wide full_ps = 1;  // for all of its work at full speed
  std::uint64_t memory_demand = 0, flops_demand = 0, buffer_bytes = 0;
  std::uint64_t speed = kFullSpeed;
  std::uint64_t ends_ps = kNever;  // at this speed
  Wide paced_ps = 0;               // full_ps when that was found
  std::size_t span = SIZE_MAX;     // the span of its op's usage that it may extend
};

// What operations that are placed already draw.
struct Drawn {
  std::uint64_t memory_bytes_per_s = 0, flops_per_s = 0, buffer_bytes = 0;
};

// Gives all items of a device their speeds and ends from now on; the earliest of the ends. An item's `op` is its place
// in `ops`.
std::uint64_t set_rates(const Gpu& gpu, const Drawn& placed, const std::vector<Op*>& ops, std::uint64_t now_ps,
                        std::vector<Item>& items);

}  // namespace hostcuda::clock
