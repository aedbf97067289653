// SPDX-License-Identifier: Apache-2.0
// A grid of CTAs that runs on CPU threads: every device thread is a fiber. This is the whole interface of the
// simulator; who launches kernels (runtime/) and who places them in time (clock/) sees nothing else of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "clock/clock.h"

namespace hostcuda::simt {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

// What a launch asks for. `entry` is the kernel; the rewriter has turned its by-value parameter into a const
// reference, so that it takes the address of `args` (copied into the grid, aligned to 16 bytes).
struct GridSpec {
  void (*entry)(const void* args) = nullptr;
  std::vector<std::byte> args;
  Dim3 grid, block;
  std::size_t static_shared_bytes = 0;   // what the kernel declares itself; comes first in the CTA's shared block
  std::size_t dynamic_shared_bytes = 0;
  int device = 0;
  const char* name = "";  // for messages; must outlive the grid
  clock::LaunchClock clock;
};

// Virtual times of one CTA in picoseconds, counted from the grid's own start.
struct CtaTimes {
  std::uint64_t start_ps = 0, stop_ps = 0;
};

struct GridResult {
  std::uint64_t duration_ps = 0;       // latest stop of any CTA
  std::uint64_t peers_arrival_ps = 0;  // latest modelled arrival of any rank that this grid heard of, absolute
  std::vector<CtaTimes> ctas;
  std::uint64_t bytes_loaded = 0, bytes_stored = 0;  // global memory traffic that the kernel charged
  bool failed = false;
  std::string error;  // why, when failed: names the kernel, the CTA and the thread
};

class Grid;

enum class Progress {
  none,      // every fiber only polled: the caller may sleep before it tries again
  some,      // work was done and more is left
  finished,  // all CTAs have returned, or the grid has failed; ask grid_result
};

// Throws std::invalid_argument where the launch is impossible (no threads, block over 1024, shared memory over the
// limit) and std::bad_alloc where stacks cannot be mapped.
Grid* grid_create(GridSpec&& spec);

// Runs a bounded share of the grid's fibers on the calling thread. One thread at a time for a grid; the thread may
// change between calls.
Progress grid_run(Grid* grid);

GridResult grid_result(Grid* grid);  // only after Progress::finished
void grid_destroy(Grid* grid);       // at any time; fibers that have not returned are dropped, not unwound

}  // namespace hostcuda::simt
