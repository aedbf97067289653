// SPDX-License-Identifier: Apache-2.0
// A graph's launch: its nodes become operations as if the program had enqueued them one after the other.
#include "runtime/device.h"
#include "runtime/graph_exec.h"

namespace hostcuda::rt {
namespace {

// The lane that is the launch stream itself: the first one on its device.
std::size_t main_lane(const Exec& exec, const Stream& stream) {
  std::size_t lane = 0;
  while (lane < exec.lanes.size() && exec.lanes[lane].device != stream.device) ++lane;
  return lane;
}

// Sets the priority with which a stream's operations are enqueued, for as long as it lives.
class Priority {
 public:
  Priority(Stream* stream, int priority) : stream_(stream), before_(stream->clock.priority) {
    stream->clock.priority = priority;
  }
  ~Priority() { stream_->clock.priority = before_; }
  Priority(const Priority&) = delete;
  Priority& operator=(const Priority&) = delete;

 private:
  Stream* stream_;
  int before_;
};

}  // namespace

cudaError_t launch_graph(Exec& exec, const StreamRef& stream) {
  const OpRef head = make_op(OpKind::wait);
  head->cost = clock::GraphLaunch{};
  if (exec.last) head->dependencies.push_back(exec.last);  // one launch at a time
  if (const cudaError_t error = enqueue(stream, head); error != cudaSuccess) return error;

  const std::size_t main = main_lane(exec, *stream);
  const bool own_priorities = (exec.flags & cudaGraphInstantiateFlagUseNodePriority) != 0;
  std::vector<OpRef> ops(exec.nodes.size()), ends(exec.lanes.size());
  cudaError_t error = cudaSuccess;
  for (std::size_t n = 0; n < exec.nodes.size() && error == cudaSuccess; ++n) {
    const ExecNode& node = exec.nodes[n];
    Exec::Lane& lane = exec.lanes[node.lane];
    if (node.lane != main && !lane.stream) lane.stream = make_stream(lane.device, cudaStreamNonBlocking, 0);
    const StreamRef& goes_to = node.lane == main ? stream : lane.stream;
    const OpRef op = node.enabled ? op_of(node.task) : make_op(OpKind::wait);
    if (node.starts_others) op->start_event = make_op(OpKind::record);
    if (node.after.empty()) op->dependencies.push_back(head);
    for (const ExecEdge& edge : node.after) {
      const bool start_only = edge.from_port == cudaGraphKernelNodePortLaunchCompletion;
      op->dependencies.push_back(start_only ? ops[edge.node]->start_event : ops[edge.node]);
    }
    const Priority priority(goes_to.get(), own_priorities ? node.task.priority : stream->priority);
    error = enqueue(goes_to, op, stream.get());
    if (error != cudaSuccess) break;
    if (node.enabled) issued(node.task, op);
    ops[n] = ends[node.lane] = op;
  }

  const OpRef tail = make_op(OpKind::wait);
  tail->cost = clock::EventWait{};
  for (const OpRef& end : ends) {
    if (end) tail->dependencies.push_back(end);
  }
  tail->work = [kept = exec.users] { return true; };  // let go when the launch has ended
  const cudaError_t ending = enqueue(stream, tail, stream.get());
  exec.last = tail;
  return error != cudaSuccess ? error : ending;
}

}  // namespace hostcuda::rt
