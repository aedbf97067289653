// SPDX-License-Identifier: Apache-2.0
// Where everything that a program enqueues lies in modelled time. One timeline a process; docs/clock.md has the rules.
//
// The host enqueues work in its own program order. Grids run on the CPU whenever they can; what they tell is how long
// they take alone and when their peers arrived. Once a host thread synchronizes, the work it waited for is placed:
// kernels share each modelled GPU, and what has been placed never moves again.
//
// Thread-safe. Times are picoseconds since the process began.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "clock/clock.h"
#include "clock/gpu.h"

namespace hostcuda::simt {
struct GridResult;
}

namespace hostcuda::clock {

class Op;
class Timeline;
using OpRef = std::shared_ptr<Op>;

// Wrong use or an impossible request; the text names the operation.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One host thread's own clock: keep one in thread_local storage. It starts at 0.
class HostThread {
 private:
  friend class Timeline;
  std::uint64_t number_ = 0;    // among the process's host threads; 0 before the first call
  OpRef since_;                 // the last synchronization
  std::uint64_t ahead_ps_ = 0;  // host time spent since then (since 0, where there is none)
};

// One stream. `id` tells a device's streams apart and breaks ties, so number them in the order of their creation.
struct Stream {
  int device = 0;
  std::uint64_t id = 0;
  int priority = 0;  // CUDA's: lower goes first

  // Kept by the timeline.
  OpRef last;  // tail of the stream
  std::uint64_t enqueued = 0;
};

// A grid that the CPU runs; its duration is known once it has run.
struct GridWork {
  std::string name;
  std::uint32_t ctas = 1, threads_per_cta = 1, registers_per_thread = 0 /* 0: the GPU's figure for NCCL */;
  std::uint64_t shared_bytes_per_cta = 0;  // static and dynamic
  bool collective = false;                 // announced as part of a group's communication
  std::uint16_t epoch = 0;                 // of a collective: the group's launch number
  std::uint64_t bytes_in_flight = 0;       // of a collective: communication buffers in use at once, all CTAs
};

// A compute kernel known by its cost. Bytes are memory traffic when it has the L2 to itself.
struct KernelWork {
  std::string name;
  double flops = 0, bytes_read = 0, bytes_written = 0;
  std::uint32_t ctas = 1, threads_per_cta = 1, registers_per_thread = 1;
  std::uint64_t shared_bytes_per_cta = 0;
};

enum class CopyKind { within_device, to_host, from_host, to_peer, set };
struct CopyWork {
  std::string name;
  CopyKind kind = CopyKind::within_device;
  std::uint64_t bytes = 0;
  std::uint64_t link_bytes_per_s = 0;  // of the link crossed, one direction; 0 within a device
};

struct EventRecord {};
struct EventWait {};  // pass what the event recorded in `after`
struct HostFunction {};
struct GraphLaunch {};  // a call of its own; the graph's operations follow it and cost the host nothing

// At least one CTA each; a kernel's figures are finite and not negative.
using Work = std::variant<GridWork, KernelWork, CopyWork, EventRecord, EventWait, HostFunction, GraphLaunch>;

// How a GPU's links look from one device of the machine; by class of link.
struct Links {
  std::uint64_t bytes_per_s[kLinkClasses] = {};  // one direction; 0: not there
  std::uint64_t latency_ps[kLinkClasses] = {};   // [0] is ignored: the GPU's own description has it
};

struct OpTimes {
  std::uint64_t start_ps = 0;  // a kernel: its first CTA has an SM; others: work begins
  std::uint64_t begin_ps = 0;  // a grid: all CTAs placed and all peers arrived; others: as start
  std::uint64_t end_ps = 0;
  std::uint32_t ctas = 0;
  std::uint32_t sms = 0;       // most SMs held at once
};

// What a device carried in one span of time; for tests and reports.
struct Load {
  std::uint64_t from_ps, to_ps;
  std::uint64_t memory_bytes_per_s;  // served
  std::uint64_t flops_per_s;
  std::uint32_t sms_busy;            // SMs with at least one CTA
};

class Timeline {
 public:
  Timeline();
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Before anything is enqueued on `device`.
  void add_device(int device, const Gpu& gpu, const Links& links);

  // Next operation of `stream`, which also waits for everything in `after`. Charges the host thread the cost of the
  // call, unless the operation is part of a graph's launch, which was the call. Throws Error where a kernel fits no SM
  // or a figure is impossible.
  OpRef enqueue(HostThread& host, Stream& stream, const Work& work, std::span<const OpRef> after = {},
                bool in_graph = false);

  // The grid starts to run on the CPU: every grid that it waits for has been reported by executed(). The figures that
  // its fibers read; arrival_ps is when it would start, given what its host thread had enqueued up to and with it.
  LaunchClock start_grid(const OpRef& grid);

  // The grid has run. Call it before anything that waits for the grid starts.
  void executed(const OpRef& grid, const simt::GridResult& result);

  // The host thread has waited until `ops` were done (a stream's tail, an event's record; null ones are none): its
  // clock moves to their end. Places what it waited for and corrects registered device times, see docs/clock.md. A
  // query that may find its event done or not is no such wait: what it finds is the CPU's choice.
  void synchronized(HostThread& host, std::span<const OpRef> ops);

  // Times of something that is done. Places it, and what this thread has synchronized with, where that has not
  // happened.
  OpTimes times(HostThread& host, const OpRef& op);
  std::uint64_t host_time_ps(HostThread& host);

  // The load of `device` by what has been placed, while record_loads is on.
  void record_loads(bool on);
  std::vector<Load> loads(int device);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Ranges of 8-byte words in which device code stores %globaltimer or clock64 words. Throws Error where the range is not
// aligned, empty, or overlaps a registered one; remove returns false where nothing starts at `base`.
void register_device_times(void* base, std::size_t bytes);
bool unregister_device_times(void* base);
// All ranges that begin in memory which is given back.
void forget_device_times(std::uint64_t address, std::size_t bytes);

}  // namespace hostcuda::clock
