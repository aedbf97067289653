// SPDX-License-Identifier: Apache-2.0
// What lies behind a multicast address (NVLink SHARP): memory of several devices at once. The address itself maps
// nothing, so that a plain load of it faults; device code asks here and goes to each member's memory.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/va.h"

namespace hostcuda::rt {

inline constexpr unsigned kMostMulticastDevices = 64;

// One page of 2 MiB. A member's byte lies `distance` behind the multicast address, and its shadow where shadows lie.
// Members stand in the order of the machine's devices, so that floating sums come out the same on every rank.
struct MulticastPage {
  const std::atomic<std::uint64_t>* version_now;  // of the object's bindings
  std::uint64_t version;                          // that this page was made from
  const char* error;                              // why it cannot be used, or nullptr
  unsigned members;
  std::int64_t distance[kMostMulticastDevices];
};

}  // namespace hostcuda::rt

// The page around `address`, which page_owner says is kOwnerMulticast. Never nullptr; valid until the mapping ends.
extern "C" __attribute__((visibility("default"))) const hostcuda::rt::MulticastPage* hostcuda_multicast_page(
    const void* address);
