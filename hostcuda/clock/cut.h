// SPDX-License-Identifier: Apache-2.0
// A long program asks for an arrival at every collective, and each depends on everything before it. Mostly there is an
// operation that waits for all work before it and that all work after it waits for: nothing from both sides ever
// overlaps, so what an earlier question has found up to there still holds. Internal to clock/.
#pragma once

#include <cstddef>
#include <vector>

#include "clock/op.h"

namespace hostcuda::clock {

// How many of `ops` (in program order, the last one asks) need not run again: their ends found in the same view are
// what a run of all would find.
std::size_t already_found(const std::vector<Op*>& ops);

}  // namespace hostcuda::clock
