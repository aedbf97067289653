// SPDX-License-Identifier: Apache-2.0
// One operation of the timeline, from its enqueue to its place in time. Internal to clock/.
#pragma once

#include <cstdint>
#include <vector>

#include "clock/sms.h"
#include "clock/timeline.h"

namespace hostcuda::clock {

inline constexpr std::uint64_t kNotPlaced = UINT64_MAX;
inline constexpr std::uint64_t kLatestView = UINT64_MAX;  // of placement itself

inline constexpr std::uint64_t kPsPerS = 1000000000000;

enum class OpKind { grid, kernel, copy, marker, host_function, host_wait };

// What an operation drew in one span of time.
struct Span {
  std::uint64_t from_ps, to_ps;
  std::uint64_t memory_bytes_per_s, flops_per_s;
  std::uint64_t buffer_bytes;  // of communication that moved then
  std::uint64_t placed_at;
};

// SMs that it held in one span of time.
struct Hold {
  std::uint64_t from_ps = 0, to_ps = 0;
  CtaRoom room;
  Placement placement;
  std::uint64_t placed_at = kNotPlaced;
};

struct Usage {
  std::vector<Span> spans;
  std::vector<Hold> holds;
};

class Op {
 public:
  OpKind kind = OpKind::marker;
  int device = -1;  // -1: of the host alone
  std::string name;

  // Order among equals: never by who got the lock first.
  int priority = 0;
  std::uint64_t stream_id = 0, stream_sequence = 0;

  // What it waits for, all enqueued before it. Let go once nobody looks at it as not placed.
  std::vector<OpRef> after;
  OpRef host_since;                 // the host thread's last synchronization before the call
  std::uint64_t host_ahead_ps = 0;  // from there (from 0, where there is none) to the earliest start
  std::uint64_t host_number = 0;    // the host thread
  std::uint64_t earliest_ps = 0;    // no view of it starts earlier

  // What it costs alone.
  std::uint32_t ctas = 0;
  CtaRoom room;
  std::uint64_t gap_ps = 0;       // from what it waits for to its start
  std::uint64_t duration_ps = 0;  // grid, copy, host function, marker
  std::uint64_t bytes = 0;        // memory traffic
  std::uint64_t flops = 0;
  std::uint64_t buffer_bytes = 0;  // of a grid: in flight
  CopyKind copy_kind = CopyKind::within_device;

  // Of a grid.
  std::uint32_t launch_id = 0;
  std::uint16_t epoch = 0;
  bool has_arrival = false, has_run = false;
  std::uint64_t arrival_ps = 0;        // own, provisional
  std::uint64_t peers_arrival_ps = 0;  // own included

  // Placements count from 0. A grid's arrival is a question about the moment of its enqueue: what was placed later
  // counts as not placed yet, because how much later the grid starts is the CPU's choice. Such a view is the number of
  // placements before that moment.
  std::uint64_t view = 0;  // that of its own enqueue
  std::uint64_t placed_at = kNotPlaced;
  bool placed_in(std::uint64_t in_view) const { return placed_at < in_view; }
  OpTimes times;  // where it is placed

  // Its end as a grid's arrival found it, in that view.
  std::uint64_t found_view = kNotPlaced;
  std::uint64_t found_ps = 0;

  // Scratch of one walk over open operations.
  std::uint64_t walk_needed = 0, walk_seen = 0;
  std::size_t run_index = 0;
};

}  // namespace hostcuda::clock
