// SPDX-License-Identifier: Apache-2.0
// What device code knows of the clock while a grid runs: plain figures, filled in by the timeline when the grid starts,
// and the formulas that turn bytes into time. Every device unit includes this file, so it needs nothing but <cstdint>;
// who places kernels in time includes clock/timeline.h.
//
// Units: _ps picoseconds, _fs femtoseconds. Whole numbers only: the same program gives the same times everywhere.
#pragma once

#include <cstdint>

namespace hostcuda::clock {

inline constexpr unsigned kLinkClasses = 4;     // rt::LinkClass: local, host, peer over NVLink, peer over PCIe
inline constexpr unsigned kPlacedCtas = 64;     // NCCL's most channels; CTAs beyond get SMs by their number
inline constexpr std::uint64_t kFsPerPs = 1000;

struct LaunchClock {
  std::uint64_t arrival_ps = 0;  // when this rank's grid could start, absolute; travels to the peers in the stamps
  std::uint32_t launch_id = 0;   // in tagged device times
  std::uint16_t epoch = 0;       // the communicator's launch number, the same on every rank; other stamps say nothing
  std::uint32_t grid_ctas = 1;

  std::uint32_t start_ps = 0;    // from the grid's start to a CTA's first instruction
  std::uint32_t barrier_ps = 0;  // a barrier of a CTA, after its last thread came
  std::uint32_t fence_ps = 0;    // a fence that other devices see: everything stored before has arrived
  std::uint32_t poll_ps = 0;     // from the moment a flag has changed to the end of the load that sees it
  std::uint32_t latency_ps[kLinkClasses] = {};        // a store across this link becomes visible at its other end
  std::uint32_t link_fs_per_byte[kLinkClasses] = {};  // the whole link, one direction; 0: no limit of its own

  // Loads and stores of one CTA. With fewer threads than full_threads too few bytes are on their way to keep the rate.
  std::uint32_t load_fs_per_byte = 0;
  std::uint32_t store_fs_per_byte = 0;
  std::uint32_t full_threads = 1;

  std::uint16_t sms = 1;
  std::uint16_t sm_of_cta[kPlacedCtas] = {};
};

// The SM that CTA `cta` of the grid runs on.
inline std::uint32_t sm_of_cta(const LaunchClock& clock, unsigned cta) {
  return cta < kPlacedCtas ? clock.sm_of_cta[cta] : cta % clock.sms;
}

// `threads` threads of one CTA together load and store so many bytes (all sources, all destinations) in one go.
inline std::uint64_t copy_ps(const LaunchClock& clock, std::uint64_t bytes_loaded, std::uint64_t bytes_stored,
                             unsigned threads) {
  const std::uint64_t fs = bytes_loaded * clock.load_fs_per_byte + bytes_stored * clock.store_fs_per_byte;
  if (threads >= clock.full_threads || threads == 0) return fs / kFsPerPs;
  return fs / kFsPerPs * clock.full_threads / threads;
}

// The part of that which crosses links of one class takes at least this long, because all CTAs of the grid share them.
inline std::uint64_t link_ps(const LaunchClock& clock, int link_class, std::uint64_t bytes) {
  return bytes * clock.link_fs_per_byte[link_class] / kFsPerPs * clock.grid_ctas;
}

}  // namespace hostcuda::clock
