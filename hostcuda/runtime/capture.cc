// SPDX-License-Identifier: Apache-2.0
#include "runtime/capture.h"

#include <algorithm>
#include <atomic>

#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/graph.h"

namespace hostcuda::rt {
namespace {

std::vector<std::shared_ptr<Capture>>& active() {
  static auto* captures = new std::vector<std::shared_ptr<Capture>>;
  return *captures;
}
std::atomic<std::size_t> g_active_count{0};  // so that allocations outside of captures need no lock

void finish(const std::shared_ptr<Capture>& capture) {
  capture->ended = true;
  capture->graph->capture = nullptr;
  for (int number = 0; device(number) != nullptr; ++number) {
    for (const StreamRef& stream : device(number)->streams) {
      if (stream->capture != capture) continue;
      stream->capture.reset();
      stream->capture_tail.clear();
    }
  }
  std::erase(active(), capture);
  g_active_count = active().size();
}

// A node that a stream captured, that nothing depends on and that the origin has not waited for. What the program
// changed by hand (cudaStreamUpdateCaptureDependencies, nodes of its own) is its own business.
bool has_unjoined(const Capture& capture, const std::vector<Edge>& tail) {
  return std::any_of(capture.graph->nodes.begin(), capture.graph->nodes.end(), [&](const std::unique_ptr<Node>& node) {
    return node->must_join && node->dependents == 0 &&
           std::none_of(tail.begin(), tail.end(), [&](const Edge& edge) { return edge.node == node.get(); });
  });
}

bool forbids(const Capture& capture) {
  if (t_state.capture_mode == cudaStreamCaptureModeRelaxed) return false;
  if (capture.thread == std::this_thread::get_id()) return capture.mode != cudaStreamCaptureModeRelaxed;
  return t_state.capture_mode == cudaStreamCaptureModeGlobal && capture.mode == cudaStreamCaptureModeGlobal;
}

cudaError_t break_rule(Capture& capture, cudaError_t error) {
  if (capture.invalidated) return cudaErrorStreamCaptureInvalidated;
  invalidate(capture);
  return error;
}

}  // namespace

void invalidate(Capture& capture) { capture.invalidated = true; }

cudaError_t begin_capture(const StreamRef& stream, cudaStreamCaptureMode mode, std::shared_ptr<Graph> graph,
                          std::vector<Edge> tail) {
  static std::uint64_t captures = 0;
  if (stream->legacy) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture) return cudaErrorIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->id = ++captures;
  capture->into_own_graph = graph == nullptr;
  capture->graph = graph ? std::move(graph) : make_graph();
  if (capture->graph->capture != nullptr) return cudaErrorIllegalState;
  capture->graph->capture = capture.get();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream.get();
  stream->capture = capture;
  stream->capture_tail = std::move(tail);
  active().push_back(std::move(capture));
  g_active_count = active().size();
  return cudaSuccess;
}

cudaError_t end_capture(const StreamRef& stream, std::shared_ptr<Graph>* graph) {
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture) return cudaErrorIllegalState;
  if (capture->origin != stream.get()) return break_rule(*capture, cudaErrorStreamCaptureUnmatched);
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    return break_rule(*capture, cudaErrorStreamCaptureWrongThread);
  }
  const std::vector<Edge> tail = stream->capture_tail;
  finish(capture);
  cudaError_t error = cudaSuccess;
  if (capture->invalidated) {
    error = cudaErrorStreamCaptureInvalidated;
  } else if (has_unjoined(*capture, tail)) {
    error = cudaErrorStreamCaptureUnjoined;
  }
  if (error == cudaSuccess) {
    *graph = capture->graph;
  } else if (capture->into_own_graph) {
    forget_graph(*capture->graph);
  }
  capture->graph.reset();
  return error;
}

void leave_capture(Stream& stream) {
  const std::shared_ptr<Capture> capture = std::move(stream.capture);
  stream.capture_tail.clear();
  if (!capture || capture->origin != &stream) return;
  // Nobody can end it any more.
  invalidate(*capture);
  finish(capture);
  if (capture->into_own_graph) forget_graph(*capture->graph);
  capture->graph.reset();
}

cudaError_t capture_task(const StreamRef& stream, Task task, Node** made) {
  Capture& capture = *stream->capture;
  if (capture.invalidated) return cudaErrorStreamCaptureInvalidated;
  Node* node = capture.graph->add(std::move(task), stream->capture_tail);
  node->must_join = true;
  stream->capture_tail = {Edge{node, {}}};
  if (made != nullptr) *made = node;
  return cudaSuccess;
}

bool captures_wait(const StreamRef& stream, const EventRef& event, cudaError_t* error) {
  const std::shared_ptr<Capture>& of_event = event->captured.capture;
  if (!of_event && !stream->capture) return false;
  *error = cudaSuccess;
  if (!of_event) {
    *error = break_rule(*stream->capture, cudaErrorStreamCaptureIsolation);
  } else if (of_event->ended) {
    if (stream->capture) invalidate(*stream->capture);
    *error = cudaErrorCapturedEvent;
  } else if (of_event->invalidated) {
    *error = cudaErrorStreamCaptureInvalidated;
  } else if (stream->legacy) {
    *error = break_rule(*of_event, legacy_conflict(*stream) ? cudaErrorStreamCaptureImplicit
                                                            : cudaErrorStreamCaptureUnsupported);
  } else if (!stream->capture) {
    stream->capture = of_event;
    stream->capture_tail = event->captured.tail;
  } else if (stream->capture != of_event) {
    invalidate(*of_event);
    *error = break_rule(*stream->capture, cudaErrorStreamCaptureMerge);
  } else {
    add_edges(&stream->capture_tail, event->captured.tail);
  }
  return true;
}

cudaError_t unsafe_call() {
  if (g_active_count == 0) return cudaSuccess;
  std::lock_guard<std::mutex> guard(runtime_lock());
  return forbidden_by_capture();
}

cudaError_t forbidden_by_capture() {
  cudaError_t error = cudaSuccess;
  for (const std::shared_ptr<Capture>& capture : active()) {
    if (!forbids(*capture)) continue;
    invalidate(*capture);
    error = cudaErrorStreamCaptureUnsupported;
  }
  return error;
}

cudaError_t synchronous_call() {
  if (g_active_count == 0) return cudaSuccess;
  std::lock_guard<std::mutex> guard(runtime_lock());
  const cudaError_t error = usable_now(*find_stream(cudaStreamLegacy));
  return error != cudaSuccess ? error : forbidden_by_capture();
}

cudaError_t observable(const StreamRef& stream) {
  if (stream->capture) return break_rule(*stream->capture, cudaErrorStreamCaptureUnsupported);
  const cudaError_t error = usable_now(*stream);
  return error != cudaSuccess ? error : forbidden_by_capture();
}

cudaError_t observable(const EventRef& event) {
  if (!event->captured.capture) return forbidden_by_capture();
  if (!event->captured.capture->ended) invalidate(*event->captured.capture);
  return cudaErrorCapturedEvent;
}

cudaError_t observable(const Device& device) {
  cudaError_t error = cudaSuccess;
  for (const StreamRef& stream : device.streams) {
    if (!stream->capture) continue;
    invalidate(*stream->capture);
    error = cudaErrorStreamCaptureUnsupported;
  }
  return error != cudaSuccess ? error : forbidden_by_capture();
}

cudaError_t usable_now(Stream& stream) {
  if (stream.capture) return break_rule(*stream.capture, cudaErrorStreamCaptureUnsupported);
  if (!legacy_conflict(stream)) return cudaSuccess;
  for (const StreamRef& other : stream.device->streams) {
    if (other->capture && (other->flags & cudaStreamNonBlocking) == 0) invalidate(*other->capture);
  }
  return cudaErrorStreamCaptureImplicit;
}

bool legacy_conflict(const Stream& stream) {
  if (!stream.legacy || g_active_count == 0) return false;
  const auto& all = stream.device->streams;
  return std::any_of(all.begin(), all.end(), [](const StreamRef& other) {
    return other->capture && (other->flags & cudaStreamNonBlocking) == 0;
  });
}

}  // namespace hostcuda::rt
