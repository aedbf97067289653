// SPDX-License-Identifier: Apache-2.0
// Runs a set of operations through modelled time, event by event. Between two events every kernel, grid and copy moves
// at a constant rate. Whole-number arithmetic; the outcome depends on the operations alone. Internal to clock/.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "clock/op.h"

namespace hostcuda::clock {

struct Device {
  Gpu gpu;
  Links links;
  Usage placed;  // what placed operations hold while others may still overlap with them
};

struct RunRequest {
  std::vector<Op*> ops;     // not placed in the view; what they wait for is placed, found or among them
  std::vector<bool> open;   // by op: a grid whose end is not to be known. It takes its SMs and never begins; where
                            // nothing else can go on, open grids give their SMs back.
  std::vector<bool> wanted; // by op: the run ends once all of these have ended
  std::uint64_t view = kLatestView;
  Op* arriving = nullptr;   // instead of wanted: the run ends once all CTAs of this open grid have SMs
  bool keep_usage = false;  // of the wanted
};

struct RunOutcome {
  bool ended = false;
  OpTimes times;         // of one that has ended; of `arriving`, begin_ps is when its last CTA found its SM
  Usage usage;           // of an op that was wanted, with keep_usage
  Placement placement;   // of `arriving`
};

// By op of the request. Throws Error where something wanted can never end.
std::vector<RunOutcome> run(const std::map<int, Device>& devices, const RunRequest& request);

}  // namespace hostcuda::clock
