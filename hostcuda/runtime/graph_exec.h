// SPDX-License-Identifier: Apache-2.0
// Executable graphs: a graph's tasks in an order that respects its edges, and on which lane each runs. Everything here
// is called with the lock held.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/graph.h"

namespace hostcuda::rt {

// A lane is a chain of nodes of one device, each of which waits for the one before it. A launch puts one of them into
// the launch stream itself and the others into streams of their own, so that nothing waits that need not.
struct ExecEdge {
  std::size_t node;
  unsigned char from_port;
};
struct ExecNode {
  std::uint64_t id = 0;        // of the node that it was made from
  std::uint64_t original = 0;  // of the node that that one was cloned from
  Task task;
  std::vector<ExecEdge> after;
  bool starts_others = false;  // something waits for its start only
  bool enabled = true;
  std::size_t lane = 0;
};

struct Exec {
  std::vector<ExecNode> nodes;  // in the order of their enqueue
  struct Lane {
    Device* device;
    StreamRef stream;  // made at the first launch that needs it
  };
  std::vector<Lane> lanes;
  unsigned long long flags = 0;
  std::shared_ptr<UserReferences> users;  // also kept by every launch that has not ended
  OpRef last;                             // the end of the latest launch

  ~Exec();
  ExecNode* find(const Node& node);
};

struct Instantiated {
  cudaError_t error = cudaSuccess;
  cudaGraphInstantiateResult result = cudaGraphInstantiateSuccess;
  cudaGraphNode_t node = nullptr;
  std::shared_ptr<Exec> exec;
};
Instantiated instantiate(const Graph& graph, unsigned long long flags);

std::shared_ptr<Exec> find_exec(cudaGraphExec_t handle);
cudaGraphExec_t handle_of(const Exec& exec);
bool forget_exec(cudaGraphExec_t handle);

cudaError_t launch_graph(Exec& exec, const StreamRef& stream);

// Takes the parameters of `graph`, which has to have the same nodes and edges.
cudaError_t update(Exec& exec, const Graph& graph, cudaGraphExecUpdateResultInfo* info);
// Whether a node that did `before` may do `after` in an executable graph.
cudaGraphExecUpdateResult may_become(const Task& before, const Task& after, unsigned long long flags);

}  // namespace hostcuda::rt
