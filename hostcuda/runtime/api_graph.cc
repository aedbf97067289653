// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's graphs: making them, their edges, their user objects. Nodes by kind are in api_graph_node.cc.
#include <algorithm>

#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/graph.h"

namespace hostcuda::rt {
namespace {

// The two-call way of CUDA: without room the number of entries, else up to as many as there is room for, the rest null.
cudaError_t tell(const std::vector<Edge>& found, cudaGraphNode_t* nodes, cudaGraphEdgeData* data, size_t* count) {
  if (count == nullptr) return cudaErrorInvalidValue;
  if (nodes == nullptr) {
    *count = found.size();
    return cudaSuccess;
  }
  bool lossy = false;
  for (size_t i = 0; i < *count; ++i) {
    const Edge edge = i < found.size() ? found[i] : Edge{};
    nodes[i] = edge.node == nullptr ? nullptr : handle_of(edge.node);
    if (data != nullptr) data[i] = edge.data;
    lossy |= data == nullptr && edge.data.type != cudaGraphDependencyTypeDefault;
  }
  *count = std::min(*count, found.size());
  return lossy ? cudaErrorLossyQuery : cudaSuccess;
}

std::vector<Edge> as_edges(const Graph& graph, bool roots_only) {
  std::vector<Edge> found;
  for (const std::unique_ptr<Node>& node : graph.nodes) {
    if (!roots_only || node->after.empty()) found.push_back({node.get(), {}});
  }
  return found;
}

std::vector<Edge> dependents_of(const Node& node) {
  std::vector<Edge> found;
  for (const std::unique_ptr<Node>& other : node.graph->nodes) {
    for (const Edge& edge : other->after) {
      if (edge.node == &node) found.push_back({other.get(), edge.data});
    }
  }
  return found;
}

cudaError_t change_edges(cudaGraph_t handle, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                         const cudaGraphEdgeData* data, size_t count, bool add) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  const std::shared_ptr<Graph> graph = find_graph(handle);
  std::vector<Edge> sources, targets;
  if (!graph || !read_edges(*graph, from, data, count, &sources) || !read_edges(*graph, to, nullptr, count, &targets)) {
    return report(cudaErrorInvalidValue);
  }
  for (size_t i = 0; i < count; ++i) {
    const auto& after = targets[i].node->after;
    const bool there = std::find(after.begin(), after.end(), sources[i]) != after.end();
    if (there == add || sources[i].node == targets[i].node) return report(cudaErrorInvalidValue);
  }
  for (size_t i = 0; i < count; ++i) {
    auto& after = targets[i].node->after;
    if (add) {
      after.push_back(sources[i]);
      ++sources[i].node->dependents;
    } else if (std::erase(after, sources[i]) != 0) {
      --sources[i].node->dependents;
    }
  }
  return cudaSuccess;
}

cudaError_t with_object(cudaUserObject_t handle, unsigned count, bool (*change)(UserObject*, unsigned)) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  UserObject* object = find_user_object(handle);
  if (object == nullptr || count == 0 || count > INT32_MAX) return report(cudaErrorInvalidValue);
  return report(change(object, count) ? cudaSuccess : cudaErrorInvalidValue);
}

}  // namespace
}  // namespace hostcuda::rt

using namespace hostcuda::rt;

HC_EXPORT cudaError_t cudaGraphCreate(cudaGraph_t* made, unsigned flags) {
  if (made == nullptr || flags != 0) return report(cudaErrorInvalidValue);
  std::lock_guard<std::mutex> guard(runtime_lock());
  *made = handle_of(*make_graph());
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t handle) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  const std::shared_ptr<Graph> graph = find_graph(handle);
  if (!graph || graph->embedded || graph->capture != nullptr) return report(cudaErrorInvalidValue);
  forget_graph(*graph);
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaGraphClone(cudaGraph_t* made, cudaGraph_t handle) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  const std::shared_ptr<Graph> graph = find_graph(handle);
  if (made == nullptr || !graph || graph->capture != nullptr) return report(cudaErrorInvalidValue);
  *made = handle_of(*clone(*graph));
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* found, cudaGraphNode_t handle,
                                               cudaGraph_t clone_handle) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  const Node* node = find_node(handle);
  const std::shared_ptr<Graph> graph = find_graph(clone_handle);
  if (found == nullptr || node == nullptr || !graph) return report(cudaErrorInvalidValue);
  for (const std::unique_ptr<Node>& twin : graph->nodes) {
    if (twin->original != node->id) continue;
    *found = handle_of(twin.get());
    return cudaSuccess;
  }
  return report(cudaErrorInvalidValue);
}

HC_EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, size_t* count) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  const std::shared_ptr<Graph> graph = find_graph(handle);
  return report(graph ? tell(as_edges(*graph, false), nodes, nullptr, count) : cudaErrorInvalidValue);
}

HC_EXPORT cudaError_t cudaGraphGetRootNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, size_t* count) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  const std::shared_ptr<Graph> graph = find_graph(handle);
  return report(graph ? tell(as_edges(*graph, true), nodes, nullptr, count) : cudaErrorInvalidValue);
}

HC_EXPORT cudaError_t cudaGraphGetEdges(cudaGraph_t handle, cudaGraphNode_t* from, cudaGraphNode_t* to,
                                        cudaGraphEdgeData* data, size_t* count) {
  if ((from == nullptr) != (to == nullptr)) return report(cudaErrorInvalidValue);
  std::lock_guard<std::mutex> guard(runtime_lock());
  const std::shared_ptr<Graph> graph = find_graph(handle);
  if (!graph || count == nullptr) return report(cudaErrorInvalidValue);
  std::vector<Edge> sources, targets;
  for (const std::unique_ptr<Node>& node : graph->nodes) {
    for (const Edge& edge : node->after) {
      sources.push_back(edge);
      targets.push_back({node.get(), {}});
    }
  }
  size_t room = *count;
  const cudaError_t error = tell(targets, to, nullptr, &room);
  return report(error != cudaSuccess ? error : tell(sources, from, data, count));
}

HC_EXPORT cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t handle, cudaGraphNode_t* nodes,
                                                   cudaGraphEdgeData* data, size_t* count) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  const Node* node = find_node(handle);
  return report(node == nullptr ? cudaErrorInvalidValue : tell(node->after, nodes, data, count));
}

HC_EXPORT cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t handle, cudaGraphNode_t* nodes,
                                                     cudaGraphEdgeData* data, size_t* count) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  const Node* node = find_node(handle);
  return report(node == nullptr ? cudaErrorInvalidValue : tell(dependents_of(*node), nodes, data, count));
}

HC_EXPORT cudaError_t cudaGraphNodeGetType(cudaGraphNode_t handle, cudaGraphNodeType* type) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  const Node* node = find_node(handle);
  if (node == nullptr || type == nullptr) return report(cudaErrorInvalidValue);
  *type = type_of(node->task);
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                               const cudaGraphNode_t* to, const cudaGraphEdgeData* data, size_t count) {
  return change_edges(graph, from, to, data, count, true);
}

HC_EXPORT cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                  const cudaGraphNode_t* to, const cudaGraphEdgeData* data,
                                                  size_t count) {
  return change_edges(graph, from, to, data, count, false);
}

HC_EXPORT cudaError_t cudaGraphDestroyNode(cudaGraphNode_t handle) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  Node* node = find_node(handle);
  if (node == nullptr || node->graph->capture != nullptr) return report(cudaErrorInvalidValue);
  node->graph->remove(node);
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaUserObjectCreate(cudaUserObject_t* made, void* pointer, cudaHostFn_t destroy,
                                           unsigned references, unsigned flags) {
  if (made == nullptr || destroy == nullptr || references == 0 || references > INT32_MAX ||
      flags != cudaUserObjectNoDestructorSync) {
    return report(cudaErrorInvalidValue);
  }
  std::lock_guard<std::mutex> guard(runtime_lock());
  *made = handle_of(make_user_object(pointer, destroy, references));
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned count) {
  return with_object(object, count, [](UserObject* found, unsigned more) {
    retain(found, more);
    return true;
  });
}

HC_EXPORT cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
  return with_object(object, count, release);
}

HC_EXPORT cudaError_t cudaGraphRetainUserObject(cudaGraph_t handle, cudaUserObject_t object_handle, unsigned count,
                                                unsigned flags) {
  if (count == 0 || count > INT32_MAX || (flags & ~static_cast<unsigned>(cudaGraphUserObjectMove)) != 0) {
    return report(cudaErrorInvalidValue);
  }
  std::lock_guard<std::mutex> guard(runtime_lock());
  const std::shared_ptr<Graph> graph = find_graph(handle);
  UserObject* object = find_user_object(object_handle);
  if (!graph || object == nullptr) return report(cudaErrorInvalidValue);
  return report(graph->users.add(object, count, flags != 0) ? cudaSuccess : cudaErrorInvalidValue);
}

HC_EXPORT cudaError_t cudaGraphReleaseUserObject(cudaGraph_t handle, cudaUserObject_t object_handle, unsigned count) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  const std::shared_ptr<Graph> graph = find_graph(handle);
  UserObject* object = find_user_object(object_handle);
  if (!graph || object == nullptr || count == 0) return report(cudaErrorInvalidValue);
  return report(graph->users.remove(object, count) ? cudaSuccess : cudaErrorInvalidValue);
}
