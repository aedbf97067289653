// SPDX-License-Identifier: Apache-2.0
// Device times that kernels have stored. A word says which launch it belongs to and how long after the launch's start
// it was taken; once the launch is placed, words in registered ranges become absolute nanoseconds. Internal to clock/.
#pragma once

#include <cstdint>
#include <vector>

namespace hostcuda::clock {

// A word is 1 (bit 63) | launch id (23 bits) | nanoseconds since the launch's start (40 bits).
inline constexpr unsigned kWordNsBits = 40, kWordLaunchBits = 23;
inline constexpr std::uint32_t kLaunchIds = std::uint32_t{1} << kWordLaunchBits;

struct PlacedLaunch {
  std::uint32_t launch_id;
  std::uint64_t begin_ps, end_ps;  // where it lies
  std::uint64_t alone_ps;          // how long it took by its own clock
};

// In all registered ranges. Device code may store other words there meanwhile.
void correct_device_times(const std::vector<PlacedLaunch>& launches);

}  // namespace hostcuda::clock
