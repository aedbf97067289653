// SPDX-License-Identifier: Apache-2.0
// Streams and the operations in them. One lock guards all queues of the process (`runtime_lock`); an operation is done
// when the executor of its device says so, and everything that waits, waits for operations: a stream for its head's
// dependencies, an event for its record, the host for the last one of a stream.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/clock_glue.h"
#include "simt/grid.h"

namespace hostcuda::rt {

struct Device;
struct Stream;
struct Op;
struct Event;
struct Node;
struct Capture;
using OpRef = std::shared_ptr<Op>;
using EventRef = std::shared_ptr<Event>;

// A place behind which work in a graph may be put: a node, and when in its course.
struct Edge {
  Node* node = nullptr;
  cudaGraphEdgeData data{};
};
bool operator==(const Edge& a, const Edge& b);

enum class OpKind {
  kernel,     // a grid
  described,  // costs time, does nothing
  copy,       // `work` in shares, on the executor
  set,
  host,       // `work` on the thread for callbacks
  release,    // `work` on the executor: memory given back in stream order
  record,     // an event's place
  wait,       // nothing but its dependencies
  memory,     // `work` on the executor; while it returns false the operation polls
};

struct Op {
  OpKind kind;
  std::weak_ptr<Stream> stream;
  std::uint64_t sequence = 0;
  std::vector<OpRef> dependencies;  // of other streams; emptied when done
  bool done = false;
  bool failed = false;  // ended without running, because its device had failed

  simt::GridSpec grid;      // kernel
  simt::Grid* running = nullptr;
  std::shared_ptr<Op> start_event;  // kernel: done as soon as the grid has started (launch completion events)
  std::function<bool()> work;   // does a share, true when nothing is left
  bool handed_over = false;     // host: the callback thread has it
  bool called_back = false;     // host: and is through with it
  bool despite_failure = false; // host: called also where the device has failed

  std::string name;
  std::optional<clock::Work> cost;  // what the clock is told; none: costs nothing and is not on the timeline
  clock::OpRef clock;               // its place there
};

struct Stream {
  Device* device;
  unsigned flags = 0;
  int priority = 0;
  std::uint64_t id = 0;
  bool legacy = false;
  bool destroyed = false;
  std::deque<OpRef> queue;  // not yet done, oldest first
  OpRef last;               // latest enqueued, done or not
  std::uint64_t next_sequence = 0;
  clock::Stream clock;
  OpRecords records;  // for hostcudaStreamOpTimes

  std::shared_ptr<Capture> capture;  // which it takes part in; none: its work is enqueued
  std::vector<Edge> capture_tail;    // what its next node will depend on
  std::vector<cudaGraphNode_t> told_nodes;   // the same, as the program was last told it
  std::vector<cudaGraphEdgeData> told_data;
};
using StreamRef = std::shared_ptr<Stream>;

struct Event {
  Device* device;
  unsigned flags = 0;
  OpRef op;  // the latest record outside of a capture; none before the first
  struct {
    std::shared_ptr<Capture> capture;  // none: the latest record was no part of one
    std::vector<Edge> tail;
  } captured;
};

std::mutex& runtime_lock();

// The event behind a handle, or nullptr. With the lock held.
EventRef find_event(cudaEvent_t handle);

// The stream behind a handle, made at first use for the special ones; nullptr for a handle that is none.
// With the lock held.
StreamRef find_stream(cudaStream_t handle);

// Appends in program order: adds what the legacy default stream imposes, tells the clock, wakes the executor. An error
// leaves the stream as it was. Refused on a stream that is being captured: what can be a node of a graph goes through
// submit(). With the lock held.
//
// Operations of a graph's launch cost the host nothing and are recorded with the stream that it was launched in.
cudaError_t enqueue(const StreamRef& stream, const OpRef& op, Stream* launched_in = nullptr);

// A new stream that no handle stands for, and the end of one: what is in it still runs. With the lock held.
StreamRef make_stream(Device* device, unsigned flags, int priority);
void retire_stream(const StreamRef& stream);

OpRef make_op(OpKind kind, std::string name = {});

// Whether the caller is a host function or callback, behind which its device waits; says that it must not wait itself.
bool in_callback();

// Waits until all of `ops` (null ones are skipped) are done; the calling thread's clock moves to their end.
cudaError_t wait_for(std::unique_lock<std::mutex>& lock, Device* device, const std::vector<OpRef>& ops);

// For queries: whether `op` is done. Modelled time does not move by it: when a query finds something done is the CPU's
// choice. With the lock held.
cudaError_t poll(Device* device, const OpRef& op);

}  // namespace hostcuda::rt
