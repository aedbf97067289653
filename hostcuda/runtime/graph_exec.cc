// SPDX-License-Identifier: Apache-2.0
#include "runtime/graph_exec.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "runtime/device.h"

namespace hostcuda::rt {
namespace {

std::unordered_map<const Exec*, std::shared_ptr<Exec>>& execs() {
  static auto* all = new std::unordered_map<const Exec*, std::shared_ptr<Exec>>;
  return *all;
}

// Appends the nodes of `graph`, child graphs in place of their nodes. Its roots wait for `before`. The numbers of what
// stands behind all of it; false where the graph has a cycle, with a node of it in `*culprit`.
bool flatten(const Graph& graph, const std::vector<ExecEdge>& before, std::vector<ExecNode>* nodes,
             std::vector<ExecEdge>* ends, Node** culprit) {
  const std::vector<Node*> order = in_order(graph);
  if (order.size() != graph.nodes.size()) {
    for (const std::unique_ptr<Node>& node : graph.nodes) {
      if (std::find(order.begin(), order.end(), node.get()) == order.end()) *culprit = node.get();
    }
    return false;
  }
  std::map<const Node*, std::vector<ExecEdge>> end_of;  // what stands for a node's end: itself, or its graph's ends
  for (const Node* node : order) {
    std::vector<ExecEdge> after = node->after.empty() ? before : std::vector<ExecEdge>{};
    for (const Edge& edge : node->after) {
      for (ExecEdge end : end_of[edge.node]) {
        if (edge.data.from_port != cudaGraphKernelNodePortDefault) end.from_port = edge.data.from_port;
        after.push_back(end);
      }
    }
    if (const auto* child = std::get_if<ChildTask>(&node->task.body);
        child != nullptr && !child->graph->nodes.empty()) {
      if (!flatten(*child->graph, after, nodes, &end_of[node], culprit)) return false;
    } else {
      end_of[node] = {{nodes->size(), 0}};
      nodes->push_back({node->id, node->original, node->task, std::move(after), false, true, 0});
    }
    if (node->dependents == 0) ends->insert(ends->end(), end_of[node].begin(), end_of[node].end());
  }
  return true;
}

// Gives every node a lane: one whose last node has ended by then anyway, because the node waits for it, directly or
// not.
void assign_lanes(Exec* exec) {
  // By node and lane: how many of the lane's nodes have ended once the node may start.
  std::vector<std::vector<std::size_t>> ended(exec->nodes.size());
  std::vector<std::size_t> place(exec->nodes.size());  // in its lane
  std::vector<std::size_t> length;                     // of each lane
  for (std::size_t n = 0; n < exec->nodes.size(); ++n) {
    ExecNode& node = exec->nodes[n];
    std::vector<std::size_t>& mine = ended[n];
    const auto learn = [&](std::size_t lane, std::size_t count) {
      if (mine.size() <= lane) mine.resize(lane + 1);
      mine[lane] = std::max(mine[lane], count);
    };
    for (const ExecEdge& edge : node.after) {
      for (std::size_t lane = 0; lane < ended[edge.node].size(); ++lane) learn(lane, ended[edge.node][lane]);
      const bool whole = edge.from_port != cudaGraphKernelNodePortLaunchCompletion;
      if (whole) learn(exec->nodes[edge.node].lane, place[edge.node] + 1);
      exec->nodes[edge.node].starts_others |= !whole;
    }
    std::size_t lane = 0;
    for (; lane < length.size(); ++lane) {
      const std::size_t known = lane < mine.size() ? mine[lane] : 0;
      if (exec->lanes[lane].device == node.task.device && known == length[lane]) break;
    }
    if (lane == length.size()) {
      exec->lanes.push_back({node.task.device, nullptr});
      length.push_back(0);
    }
    node.lane = lane;
    place[n] = length[lane]++;
  }
}

}  // namespace

Exec::~Exec() {
  for (const Lane& lane : lanes) {
    if (lane.stream) retire_stream(lane.stream);
  }
}

ExecNode* Exec::find(const Node& node) {
  for (ExecNode& mine : nodes) {
    if (mine.id == node.id || (mine.original != 0 && mine.original == node.id)) return &mine;
  }
  return nullptr;
}

Instantiated instantiate(const Graph& graph, unsigned long long flags) {
  Instantiated made;
  auto exec = std::make_shared<Exec>();
  exec->flags = flags;
  std::vector<ExecEdge> ends;
  Node* culprit = nullptr;
  if (!flatten(graph, {}, &exec->nodes, &ends, &culprit)) {
    made.error = cudaErrorInvalidValue;
    made.result = cudaGraphInstantiateInvalidStructure;
    made.node = handle_of(culprit);
    return made;
  }
  assign_lanes(exec.get());
  exec->users = std::make_shared<UserReferences>(graph.users);
  execs()[exec.get()] = exec;
  made.exec = std::move(exec);
  return made;
}

std::shared_ptr<Exec> find_exec(cudaGraphExec_t handle) {
  const auto found = execs().find(reinterpret_cast<const Exec*>(handle));
  return found == execs().end() ? nullptr : found->second;
}

cudaGraphExec_t handle_of(const Exec& exec) { return reinterpret_cast<cudaGraphExec_t>(const_cast<Exec*>(&exec)); }

bool forget_exec(cudaGraphExec_t handle) { return execs().erase(reinterpret_cast<const Exec*>(handle)) == 1; }

cudaGraphExecUpdateResult may_become(const Task& before, const Task& after, unsigned long long flags) {
  if (before.body.index() != after.body.index()) return cudaGraphExecUpdateErrorNodeTypeChanged;
  if (before.device != after.device) {
    return std::holds_alternative<KernelTask>(after.body) ? cudaGraphExecUpdateErrorUnsupportedFunctionChange
                                                          : cudaGraphExecUpdateErrorParametersChanged;
  }
  if ((flags & cudaGraphInstantiateFlagUseNodePriority) != 0 && before.priority != after.priority) {
    return cudaGraphExecUpdateErrorAttributesChanged;
  }
  if (const auto* copy = std::get_if<CopyTask>(&before.body)) {
    const auto& next = std::get<CopyTask>(after.body);
    if (copy->cost.kind != next.cost.kind || copy->cost.link_bytes_per_s != next.cost.link_bytes_per_s) {
      return cudaGraphExecUpdateErrorParametersChanged;
    }
  }
  if (const auto* set = std::get_if<SetTask>(&before.body)) {
    const auto& next = std::get<SetTask>(after.body);
    const bool flat = set->rows * set->planes == 1 && next.rows * next.planes == 1;
    if (!flat && (set->width != next.width || set->rows != next.rows || set->planes != next.planes)) {
      return cudaGraphExecUpdateErrorParametersChanged;
    }
  }
  return cudaGraphExecUpdateSuccess;
}

cudaError_t update(Exec& exec, const Graph& graph, cudaGraphExecUpdateResultInfo* info) {
  *info = {};
  std::vector<ExecNode> nodes;
  std::vector<ExecEdge> ends;
  Node* culprit = nullptr;
  const auto fail = [&](cudaGraphExecUpdateResult result, cudaGraphNode_t node, cudaGraphNode_t from = nullptr) {
    *info = {result, node, from};
    return cudaErrorGraphExecUpdateFailure;
  };
  if (!flatten(graph, {}, &nodes, &ends, &culprit)) {
    return fail(cudaGraphExecUpdateErrorTopologyChanged, handle_of(culprit));
  }
  if (nodes.size() != exec.nodes.size()) return fail(cudaGraphExecUpdateErrorTopologyChanged, nullptr);
  const auto handle = [&](std::size_t n) { return node_with(graph, nodes[n].id); };
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const std::vector<ExecEdge>&before = exec.nodes[n].after, &after = nodes[n].after;
    if (const auto result = may_become(exec.nodes[n].task, nodes[n].task, exec.flags);
        result != cudaGraphExecUpdateSuccess) {
      return fail(result, handle(n));
    }
    if (before.size() != after.size()) return fail(cudaGraphExecUpdateErrorTopologyChanged, handle(n));
    for (std::size_t i = 0; i < after.size(); ++i) {
      if (before[i].node != after[i].node || before[i].from_port != after[i].from_port) {
        return fail(cudaGraphExecUpdateErrorTopologyChanged, handle(n), handle(after[i].node));
      }
    }
  }
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    exec.nodes[n].task = std::move(nodes[n].task);
  }
  exec.users = std::make_shared<UserReferences>(graph.users);
  return cudaSuccess;
}

}  // namespace hostcuda::rt
