// SPDX-License-Identifier: Apache-2.0
// Graphs: tasks as nodes, and which waits for which. Everything here is called with the lock held.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/stream.h"
#include "runtime/task.h"
#include "runtime/user_object.h"

namespace hostcuda::rt {

struct Node {
  std::uint64_t id = 0;  // never used twice
  Graph* graph = nullptr;
  Task task;
  std::vector<Edge> after;     // what it depends on
  std::size_t dependents = 0;  // edges that lead away from it
  bool must_join = false;      // captured, so the end of the capture has to have waited for it
  std::uint64_t original = 0;  // in a clone: the id of the node it was made from
  void* told_params[1] = {};   // of a kernel: what the program was given when it asked for the parameters
};

struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;  // in the order of their making
  UserReferences users;
  Capture* capture = nullptr;  // that adds to it at present
  bool embedded = false;       // the graph of a child node, which the program may not destroy

  Graph() = default;
  explicit Graph(const UserReferences& kept) : users(kept) {}
  ~Graph();
  Node* add(Task task, std::vector<Edge> after);
  void remove(Node* node);
  bool owns(const Node* node) const { return node->graph == this; }
};

// Handles: what is not known gives nullptr.
std::shared_ptr<Graph> make_graph();
std::shared_ptr<Graph> find_graph(cudaGraph_t handle);
cudaGraph_t handle_of(const Graph& graph);
// The handle means nothing from now on, and the program's reference is gone.
void forget_graph(Graph& graph);

Node* find_node(cudaGraphNode_t handle);
inline cudaGraphNode_t handle_of(const Node* node) {
  return reinterpret_cast<cudaGraphNode_t>(const_cast<Node*>(node));
}
cudaGraphNodeType type_of(const Task& task);

// The handle of the node with this id, in `graph` or a child graph of it; nullptr where there is none.
cudaGraphNode_t node_with(const Graph& graph, std::uint64_t id);

// A copy with the same nodes and edges, user objects retained once more. Graphs of child nodes are copied too.
std::shared_ptr<Graph> clone(const Graph& graph);

// Adds edges that are not there yet.
void add_edges(std::vector<Edge>* edges, const std::vector<Edge>& more);

// The nodes of `dependencies` as edges; false where one is no node of `graph` or its annotation is impossible.
bool read_edges(const Graph& graph, const cudaGraphNode_t* dependencies, const cudaGraphEdgeData* data,
                std::size_t count, std::vector<Edge>* edges);

// Nodes in an order in which each comes after what it depends on, among equals the older first; shorter than the graph
// where it has a cycle.
std::vector<Node*> in_order(const Graph& graph);

}  // namespace hostcuda::rt
