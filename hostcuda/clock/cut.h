// SPDX-License-Identifier: Apache-2.0
// A long program asks for an arrival at every collective, and each depends on everything before it. Mostly there is an
// operation that waits for all work before it and that all work after it waits for: nothing from both sides ever
// overlaps, so what an earlier question has found up to there still holds. Internal to clock/.
#pragma once

#include <cstddef>
#include <vector>

#include "clock/op.h"

namespace hostcuda::clock {

// Of operations in program order, the last of which asks.
struct Cut {
  std::size_t found = 0;    // so many first ones need not run again: their ends found in the same view hold
  std::size_t settled = 0;  // the ends of so many first ones do not depend on those after them
};
Cut cut(const std::vector<Op*>& ops);

}  // namespace hostcuda::clock
