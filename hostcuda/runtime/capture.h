// SPDX-License-Identifier: Apache-2.0
// Stream capture: streams whose work becomes nodes of a graph, and what may not be done meanwhile. All functions that
// take a stream or a capture are called with the lock held.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/stream.h"
#include "runtime/task.h"

namespace hostcuda::rt {

// One sequence from cudaStreamBeginCapture to cudaStreamEndCapture, with every stream that joined it.
struct Capture {
  std::uint64_t id = 0;
  std::shared_ptr<Graph> graph;
  bool into_own_graph = true;  // false: into a graph that the program had made
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  Stream* origin = nullptr;
  bool invalidated = false, ended = false;
};

cudaError_t begin_capture(const StreamRef& stream, cudaStreamCaptureMode mode, std::shared_ptr<Graph> graph,
                          std::vector<Edge> tail);
cudaError_t end_capture(const StreamRef& stream, std::shared_ptr<Graph>* graph);
// The program broke a rule: nothing more goes into the capture, and its end returns no graph.
void invalidate(Capture& capture);
// The stream goes away.
void leave_capture(Stream& stream);

// A node behind what `stream` has captured so far, behind which its next one will be.
cudaError_t capture_task(const StreamRef& stream, Task task, Node** made = nullptr);

// cudaStreamWaitEvent where stream or event take part in a capture. False: neither does, and the wait is an ordinary
// one.
bool captures_wait(const StreamRef& stream, const EventRef& event, cudaError_t* error);

// ---- what may not be done during a capture; each returns the error that the caller has to return ----

// Calls that a capture cannot see (allocation, synchronization): forbidden to the calling thread by its own captures
// and those of other threads, as cudaThreadExchangeStreamCaptureMode says. Invalidates the captures that forbid it.
cudaError_t forbidden_by_capture();
// The same for callers that have not got the lock.
cudaError_t unsafe_call();
// The same for a call that works in the legacy default stream and waits for it.
cudaError_t synchronous_call();
// Waiting for or asking about a stream, which is one of those calls.
cudaError_t observable(const StreamRef& stream);
// The same for an event.
cudaError_t observable(const EventRef& event);
// Waiting for all of a device.
cudaError_t observable(const Device& device);
// Enqueueing: not while the stream is being captured, nor on the legacy default stream beside one that it would wait
// for.
cudaError_t usable_now(Stream& stream);
// The latter alone, and without a trace.
bool legacy_conflict(const Stream& stream);

}  // namespace hostcuda::rt

// For API functions that allocate, free or wait.
#define HC_UNSAFE_IN_CAPTURE()                                                         \
  if (const cudaError_t unsafe = ::hostcuda::rt::unsafe_call(); unsafe != cudaSuccess) \
  return ::hostcuda::rt::report(unsafe)
