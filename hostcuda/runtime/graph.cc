// SPDX-License-Identifier: Apache-2.0
#include "runtime/graph.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <unordered_map>
#include <unordered_set>

namespace hostcuda::rt {
namespace {

std::unordered_map<const Graph*, std::shared_ptr<Graph>>& graphs() {
  static auto* all = new std::unordered_map<const Graph*, std::shared_ptr<Graph>>;
  return *all;
}

std::unordered_set<const Node*>& nodes() {
  static auto* all = new std::unordered_set<const Node*>;
  return *all;
}

// What the copy of a node does: a child graph belongs to one node only.
Task copied(const Task& task) {
  Task copy = task;
  if (auto* child = std::get_if<ChildTask>(&copy.body)) {
    child->graph = clone(*child->graph);
    child->graph->embedded = true;
  }
  return copy;
}

}  // namespace

Graph::~Graph() {
  for (const std::unique_ptr<Node>& node : nodes) {
    rt::nodes().erase(node.get());
    if (auto* child = std::get_if<ChildTask>(&node->task.body)) forget_graph(*child->graph);
  }
}

Node* Graph::add(Task task, std::vector<Edge> after) {
  static std::uint64_t made = 0;
  auto node = std::make_unique<Node>();
  node->id = ++made;
  node->graph = this;
  node->task = std::move(task);
  node->after = std::move(after);
  for (const Edge& edge : node->after) ++edge.node->dependents;
  rt::nodes().insert(node.get());
  nodes.push_back(std::move(node));
  return nodes.back().get();
}

void Graph::remove(Node* node) {
  for (const Edge& edge : node->after) --edge.node->dependents;
  for (const std::unique_ptr<Node>& other : nodes) {
    std::erase_if(other->after, [&](const Edge& edge) { return edge.node == node; });
  }
  if (auto* child = std::get_if<ChildTask>(&node->task.body)) forget_graph(*child->graph);
  rt::nodes().erase(node);
  std::erase_if(nodes, [&](const std::unique_ptr<Node>& other) { return other.get() == node; });
}

std::shared_ptr<Graph> make_graph() {
  auto graph = std::make_shared<Graph>();
  graphs()[graph.get()] = graph;
  return graph;
}

std::shared_ptr<Graph> find_graph(cudaGraph_t handle) {
  const auto found = graphs().find(reinterpret_cast<const Graph*>(handle));
  return found == graphs().end() ? nullptr : found->second;
}

cudaGraph_t handle_of(const Graph& graph) { return reinterpret_cast<cudaGraph_t>(const_cast<Graph*>(&graph)); }

void forget_graph(Graph& graph) { graphs().erase(&graph); }

Node* find_node(cudaGraphNode_t handle) {
  auto* node = reinterpret_cast<Node*>(handle);
  return nodes().count(node) != 0 ? node : nullptr;
}

cudaGraphNodeType type_of(const Task& task) {
  struct Typed {
    cudaGraphNodeType operator()(const KernelTask&) { return cudaGraphNodeTypeKernel; }
    cudaGraphNodeType operator()(const DescribedTask&) { return cudaGraphNodeTypeKernel; }
    cudaGraphNodeType operator()(const CopyTask&) { return cudaGraphNodeTypeMemcpy; }
    cudaGraphNodeType operator()(const SetTask&) { return cudaGraphNodeTypeMemset; }
    cudaGraphNodeType operator()(const HostTask&) { return cudaGraphNodeTypeHost; }
    cudaGraphNodeType operator()(const RecordTask&) { return cudaGraphNodeTypeEventRecord; }
    cudaGraphNodeType operator()(const WaitTask&) { return cudaGraphNodeTypeWaitEvent; }
    cudaGraphNodeType operator()(const EmptyTask&) { return cudaGraphNodeTypeEmpty; }
    cudaGraphNodeType operator()(const ChildTask&) { return cudaGraphNodeTypeGraph; }
    // The runtime has no name for it, the driver has.
    cudaGraphNodeType operator()(const MemoryTask&) {
      return static_cast<cudaGraphNodeType>(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    }
  };
  return std::visit(Typed{}, task.body);
}

cudaGraphNode_t node_with(const Graph& graph, std::uint64_t id) {
  for (const std::unique_ptr<Node>& node : graph.nodes) {
    if (node->id == id) return handle_of(node.get());
    const auto* child = std::get_if<ChildTask>(&node->task.body);
    if (cudaGraphNode_t found = child == nullptr ? nullptr : node_with(*child->graph, id); found != nullptr) {
      return found;
    }
  }
  return nullptr;
}

std::shared_ptr<Graph> clone(const Graph& graph) {
  auto copy = std::make_shared<Graph>(graph.users);
  graphs()[copy.get()] = copy;
  std::map<const Node*, Node*> made;
  for (const std::unique_ptr<Node>& node : graph.nodes) {
    Node* twin = copy->add(copied(node->task), {});
    twin->original = node->id;
    made[node.get()] = twin;
  }
  for (const std::unique_ptr<Node>& node : graph.nodes) {
    Node* twin = made[node.get()];
    twin->dependents = node->dependents;
    for (const Edge& edge : node->after) twin->after.push_back({made[edge.node], edge.data});
  }
  return copy;
}

void add_edges(std::vector<Edge>* edges, const std::vector<Edge>& more) {
  for (const Edge& edge : more) {
    if (std::find(edges->begin(), edges->end(), edge) == edges->end()) edges->push_back(edge);
  }
}

bool read_edges(const Graph& graph, const cudaGraphNode_t* dependencies, const cudaGraphEdgeData* data,
                std::size_t count, std::vector<Edge>* edges) {
  if (dependencies == nullptr && count != 0) return false;
  for (std::size_t i = 0; i < count; ++i) {
    Edge edge{find_node(dependencies[i]), data == nullptr ? cudaGraphEdgeData{} : data[i]};
    if (edge.node == nullptr || !graph.owns(edge.node) || edge.data.to_port != 0) return false;
    // Only kernels have more than an end, and only an edge that says so starts at it.
    const bool early = edge.data.from_port != cudaGraphKernelNodePortDefault;
    if (edge.data.from_port > cudaGraphKernelNodePortLaunchCompletion ||
        edge.data.type > cudaGraphDependencyTypeProgrammatic ||
        early != (edge.data.type == cudaGraphDependencyTypeProgrammatic) ||
        (early && type_of(edge.node->task) != cudaGraphNodeTypeKernel)) {
      return false;
    }
    edges->push_back(edge);
  }
  return true;
}

std::vector<Node*> in_order(const Graph& graph) {
  std::map<const Node*, std::size_t> waits_for;
  std::map<const Node*, std::vector<Node*>> behind;
  const auto older = [](const Node* a, const Node* b) { return a->id > b->id; };
  std::priority_queue<Node*, std::vector<Node*>, decltype(older)> ready(older);
  for (const std::unique_ptr<Node>& node : graph.nodes) {
    waits_for[node.get()] = node->after.size();
    for (const Edge& edge : node->after) behind[edge.node].push_back(node.get());
    if (node->after.empty()) ready.push(node.get());
  }
  std::vector<Node*> order;
  while (!ready.empty()) {
    Node* node = ready.top();
    ready.pop();
    order.push_back(node);
    for (Node* next : behind[node]) {
      if (--waits_for[next] == 0) ready.push(next);
    }
  }
  return order;
}

}  // namespace hostcuda::rt
