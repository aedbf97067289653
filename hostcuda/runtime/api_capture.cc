// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's stream capture.
#include <cstring>

#include "runtime/capture.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/graph.h"

namespace hostcuda::rt {
namespace {

bool is_mode(int mode) {
  return mode == cudaStreamCaptureModeGlobal || mode == cudaStreamCaptureModeThreadLocal ||
         mode == cudaStreamCaptureModeRelaxed;
}

cudaStreamCaptureStatus status_of(const Stream& stream) {
  return !stream.capture               ? cudaStreamCaptureStatusNone
         : stream.capture->invalidated ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
}

cudaError_t begin(cudaStream_t handle, cudaStreamCaptureMode mode, cudaGraph_t into,
                  const cudaGraphNode_t* dependencies, const cudaGraphEdgeData* data, size_t count, bool own_graph) {
  HC_DEVICE(here);
  (void)here;
  if (!is_mode(mode)) return report(cudaErrorInvalidValue);
  std::lock_guard<std::mutex> guard(runtime_lock());
  const StreamRef stream = find_stream(handle);
  if (!stream) return report(cudaErrorInvalidResourceHandle);
  std::shared_ptr<Graph> graph;
  std::vector<Edge> tail;
  if (!own_graph) {
    graph = find_graph(into);
    if (!graph || graph->embedded || !read_edges(*graph, dependencies, data, count, &tail)) {
      return report(cudaErrorInvalidValue);
    }
  }
  return report(begin_capture(stream, mode, std::move(graph), std::move(tail)));
}

}  // namespace
}  // namespace hostcuda::rt

using namespace hostcuda::rt;

HC_EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return begin(stream, mode, nullptr, nullptr, nullptr, 0, true);
}

HC_EXPORT cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                                    const cudaGraphNode_t* dependencies, const cudaGraphEdgeData* data,
                                                    size_t count, cudaStreamCaptureMode mode) {
  return begin(stream, mode, graph, dependencies, data, count, false);
}

HC_EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* made) {
  if (made == nullptr) return report(cudaErrorInvalidValue);
  *made = nullptr;
  std::lock_guard<std::mutex> guard(runtime_lock());
  const StreamRef stream = find_stream(handle);
  if (!stream) return report(cudaErrorInvalidResourceHandle);
  std::shared_ptr<Graph> graph;
  const cudaError_t error = end_capture(stream, &graph);
  if (graph) *made = handle_of(*graph);
  return report(error);
}

HC_EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  if (status == nullptr) return report(cudaErrorInvalidValue);
  std::lock_guard<std::mutex> guard(runtime_lock());
  const StreamRef stream = find_stream(handle);
  if (!stream) return report(cudaErrorInvalidResourceHandle);
  if (legacy_conflict(*stream)) return report(cudaErrorStreamCaptureImplicit);
  *status = status_of(*stream);
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                               unsigned long long* id, cudaGraph_t* graph,
                                               const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                                               size_t* dependency_count) {
  if (status == nullptr || (edges != nullptr && dependencies == nullptr)) return report(cudaErrorInvalidValue);
  std::lock_guard<std::mutex> guard(runtime_lock());
  const StreamRef stream = find_stream(handle);
  if (!stream) return report(cudaErrorInvalidResourceHandle);
  if (legacy_conflict(*stream)) return report(cudaErrorStreamCaptureImplicit);
  *status = status_of(*stream);
  const bool active = *status == cudaStreamCaptureStatusActive;
  if (id != nullptr) *id = active ? stream->capture->id : 0;
  if (graph != nullptr) *graph = active ? handle_of(*stream->capture->graph) : nullptr;
  if (dependency_count != nullptr) *dependency_count = stream->capture_tail.size();
  // Kept until the next question about the stream.
  stream->told_nodes.clear();
  stream->told_data.clear();
  bool plain = true;
  for (const Edge& edge : stream->capture_tail) {
    stream->told_nodes.push_back(handle_of(edge.node));
    stream->told_data.push_back(edge.data);
    plain = plain && edge.data.type == cudaGraphDependencyTypeDefault;
  }
  if (dependencies != nullptr) *dependencies = stream->told_nodes.data();
  if (edges != nullptr) *edges = stream->told_data.data();
  return report(dependencies != nullptr && edges == nullptr && !plain ? cudaErrorLossyQuery : cudaSuccess);
}

HC_EXPORT cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t handle, cudaGraphNode_t* dependencies,
                                                          const cudaGraphEdgeData* data, size_t count, unsigned flags) {
  if (flags > cudaStreamSetCaptureDependencies) return report(cudaErrorInvalidValue);
  std::lock_guard<std::mutex> guard(runtime_lock());
  const StreamRef stream = find_stream(handle);
  if (!stream) return report(cudaErrorInvalidResourceHandle);
  if (!stream->capture) return report(cudaErrorIllegalState);
  if (stream->capture->invalidated) return report(cudaErrorStreamCaptureInvalidated);
  std::vector<Edge> told;
  if (!read_edges(*stream->capture->graph, dependencies, data, count, &told)) return report(cudaErrorInvalidValue);
  if (flags == cudaStreamSetCaptureDependencies) {
    for (const Edge& edge : stream->capture_tail) edge.node->must_join = false;
    stream->capture_tail.clear();
  }
  add_edges(&stream->capture_tail, told);
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (mode == nullptr) return report(cudaErrorInvalidValue);
  int asked = 0;  // a caller's number may be none of the enum's, which a variable of its type may not hold
  std::memcpy(&asked, mode, sizeof asked);
  if (!is_mode(asked)) return report(cudaErrorInvalidValue);
  const auto before = static_cast<cudaStreamCaptureMode>(t_state.capture_mode);
  t_state.capture_mode = asked;
  *mode = before;
  return cudaSuccess;
}
