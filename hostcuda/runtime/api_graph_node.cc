// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's graph nodes by kind: adding them.
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/graph.h"
#include "runtime/graph_params.h"

namespace hostcuda::rt {
namespace {

// With the lock held.
cudaError_t add(cudaGraphNode_t* made, cudaGraph_t handle, const cudaGraphNode_t* dependencies,
                const cudaGraphEdgeData* data, size_t count, ReadParams what) {
  Device* here = current_device();
  if (here == nullptr) return cudaErrorNoDevice;
  const std::shared_ptr<Graph> graph = find_graph(handle);
  std::vector<Edge> after;
  if (what.error != cudaSuccess) return what.error;
  if (made == nullptr || !graph || !read_edges(*graph, dependencies, data, count, &after)) return cudaErrorInvalidValue;
  std::vector<Edge> once;
  add_edges(&once, after);
  if (once.size() != after.size()) return cudaErrorInvalidValue;  // an edge twice
  *made = handle_of(graph->add({here, 0, std::move(what.body)}, std::move(after)));
  return cudaSuccess;
}

cudaError_t add_locked(cudaGraphNode_t* made, cudaGraph_t graph, const cudaGraphNode_t* dependencies, size_t count,
                       ReadParams what) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  return report(add(made, graph, dependencies, nullptr, count, std::move(what)));
}

// What the node does is read from a handle, which takes the lock as well.
template <typename Handle>
cudaError_t add_locked(cudaGraphNode_t* made, cudaGraph_t graph, const cudaGraphNode_t* dependencies, size_t count,
                       ReadParams (*read_handle)(Handle), Handle handle) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  return report(add(made, graph, dependencies, nullptr, count, read_handle(handle)));
}

}  // namespace
}  // namespace hostcuda::rt

using namespace hostcuda::rt;

HC_EXPORT cudaError_t cudaGraphAddNode(cudaGraphNode_t* made, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                       const cudaGraphEdgeData* data, size_t count, cudaGraphNodeParams* params) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  return report(add(made, graph, dependencies, data, count, read(params)));
}

HC_EXPORT cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                            const cudaGraphNode_t* dependencies, size_t count) {
  return add_locked(made, graph, dependencies, count, {});
}

HC_EXPORT cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                             const cudaGraphNode_t* dependencies, size_t count,
                                             const cudaKernelNodeParams* params) {
  return add_locked(made, graph, dependencies, count, read(params));
}

HC_EXPORT cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                             const cudaGraphNode_t* dependencies, size_t count,
                                             const cudaMemcpy3DParms* params) {
  return add_locked(made, graph, dependencies, count, read(params));
}

HC_EXPORT cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* made, cudaGraph_t graph,
                                               const cudaGraphNode_t* dependencies, size_t count, void* dst,
                                               const void* src, size_t bytes, cudaMemcpyKind kind) {
  return add_locked(made, graph, dependencies, count, read_copy(dst, src, bytes, kind));
}

HC_EXPORT cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                             const cudaGraphNode_t* dependencies, size_t count,
                                             const cudaMemsetParams* params) {
  return add_locked(made, graph, dependencies, count, read(params));
}

HC_EXPORT cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                           const cudaGraphNode_t* dependencies, size_t count,
                                           const cudaHostNodeParams* params) {
  return add_locked(made, graph, dependencies, count, read(params));
}

HC_EXPORT cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                                  const cudaGraphNode_t* dependencies, size_t count,
                                                  cudaEvent_t event) {
  return add_locked(made, graph, dependencies, count, read_event_record, event);
}

HC_EXPORT cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                                const cudaGraphNode_t* dependencies, size_t count, cudaEvent_t event) {
  return add_locked(made, graph, dependencies, count, read_event_wait, event);
}

HC_EXPORT cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                                 const cudaGraphNode_t* dependencies, size_t count, cudaGraph_t child) {
  return add_locked(made, graph, dependencies, count, read_child, child);
}
