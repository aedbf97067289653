// SPDX-License-Identifier: Apache-2.0
// Inside of the simulator: CTAs, their barriers and warps, and the queues of threads that can run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "simt/device_thread.h"
#include "simt/grid.h"
#include "simt/memory.h"
#include "simt/sanitizer.h"

extern "C" {
void hostcuda_switch(void** save, void* load);
extern const char hostcuda_switch_restore[];
void hostcuda_fiber_start();
[[noreturn]] void hostcuda_fiber_main();
}

namespace hostcuda::simt {

// First in, first out; links run through DeviceThread::next.
struct Queue {
  DeviceThread* head = nullptr;
  DeviceThread* tail = nullptr;

  void push(DeviceThread* thread) {
    thread->next = nullptr;
    if (tail)
      tail->next = thread;
    else
      head = thread;
    tail = thread;
  }
  DeviceThread* pop() {
    DeviceThread* first = head;
    if (first) {
      head = first->next;
      if (!head) tail = nullptr;
    }
    return first;
  }
};

struct Barrier {
  unsigned arrived = 0;
  unsigned threads = 0;  // as the first to arrive asked; 0: all that live
  unsigned votes = 0;
  std::uint64_t vt_ps = 0, arrival_ps = 0;
  Queue waiting;
};

// Lanes that take part in warp operations together, named by their mask. Values are kept twice, because a lane may
// start the next operation before another has read the results of this one.
struct WarpGroup {
  unsigned mask = ~0u;
  unsigned arrived = 0;
  unsigned votes = 0;
  bool stepped = false;  // a lane has done more than poll since the last operation
  unsigned turn = 0;
  std::uint64_t vt_ps = 0, arrival_ps = 0;
  std::uint64_t values[2][kWarpSize];
};

struct Warp {
  unsigned live = 0;
  DeviceThread* lanes = nullptr;  // lane 0; the others follow
  WarpGroup full;
  std::vector<std::unique_ptr<WarpGroup>> partial;
};

struct Cta {
  CtaView view{};
  Grid* grid = nullptr;
  unsigned index = 0;
  unsigned live = 0;
  bool started = false;
  std::uint64_t progress = 0;
  std::uint64_t stop_ps = 0, arrival_ps = 0;
  Queue current;  // what is left of this pass
  Queue next;     // the next pass
  void* scheduler_stack_pointer = nullptr;
  StackBounds scheduler_stack;  // known to AddressSanitizer builds only
  Barrier barriers[kBarriers];
  std::unique_ptr<DeviceThread[]> threads;
  std::vector<Warp> warps;
  std::vector<StackSlab> stacks;
  char* shared = nullptr;
};

class Grid {
 public:
  explicit Grid(GridSpec&& spec);
  ~Grid();
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;

  Progress run();
  GridResult result() const;
  const GridSpec& spec() const { return spec_; }
  const void* args() const { return args_; }

  void finish_cta(Cta& cta);
  void fail(Cta& cta, const DeviceThread* thread, const char* what);

 private:
  void start_cta(unsigned index);
  void release_memory(Cta& cta);
  bool run_cta(Cta& cta);
  void report_deadlock(Cta& cta);

  GridSpec spec_;
  std::unique_ptr<std::byte[]> args_storage_;
  const void* args_ = nullptr;
  std::size_t threads_per_cta_ = 0;
  std::size_t shared_bytes_ = 0;
  unsigned cta_count_ = 0;
  unsigned started_ = 0, finished_ = 0;
  std::vector<std::unique_ptr<Cta>> live_;
  GridResult result_;
};

// Runs the next thread of the CTA, or its scheduler where none is left in this pass. Returns when `self` runs again.
void suspend(DeviceThread* self);

// The stack of a thread of the CTA, or its scheduler's for null.
StackBounds stack_of(const Cta& cta, const DeviceThread* thread);

// Called when a thread returns: barriers and warp operations may have waited for nobody else.
void leave_groups(DeviceThread* self);

// Makes faults in device code fail the grid instead of ending the process. Once a CPU thread that runs grids.
void catch_faults();

}  // namespace hostcuda::simt
