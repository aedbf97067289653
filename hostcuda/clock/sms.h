// SPDX-License-Identifier: Apache-2.0
// The SMs of one GPU and who sits on them. A CTA fits where threads, registers, shared memory and CTA slots are left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clock/gpu.h"

namespace hostcuda::clock {

// What one CTA takes from its SM, in the units in which an SM hands it out.
struct CtaRoom {
  std::uint32_t threads = 0, registers = 0;
  std::uint64_t shared_bytes = 0;
  bool computes = true;  // shares the SM's arithmetic
};

// Throws std::invalid_argument where not even an empty SM has room; `name` is for the message.
CtaRoom cta_room(const Gpu& gpu, const std::string& name, std::uint32_t threads, std::uint32_t registers_per_thread,
                 std::uint64_t shared_bytes);

// CTAs of one kernel on the SMs they were placed on.
struct Placed {
  std::uint16_t sm;
  std::uint16_t ctas;
};
using Placement = std::vector<Placed>;  // by rising SM

class SmArray {
 public:
  explicit SmArray(const Gpu& gpu);

  // Places up to `want` CTAs, emptiest SMs first and then by number, as far as there is room.
  Placement place(const CtaRoom& room, std::uint32_t want);
  void take(const CtaRoom& room, const Placement& placement);  // just there, whether it fits or not
  void release(const CtaRoom& room, const Placement& placement);

  std::uint32_t computing_on(std::uint16_t sm) const { return sms_[sm].computing; }

 private:
  struct Sm {
    std::uint32_t threads = 0, ctas = 0, registers = 0, computing = 0;
    std::uint64_t shared_bytes = 0;
  };
  std::uint32_t fitting(const Sm& sm, const CtaRoom& room) const;

  const Gpu* gpu_;
  std::vector<Sm> sms_;
  std::vector<std::uint32_t> fits_;  // scratch of place()
};

}  // namespace hostcuda::clock
