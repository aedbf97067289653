// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's graph nodes by kind: asking for their parameters and changing those, in a graph and in an
// executable one.
#include "runtime/copy.h"
#include "runtime/error.h"
#include "runtime/graph.h"
#include "runtime/graph_exec.h"
#include "runtime/graph_params.h"

namespace hostcuda::rt {
namespace {

cudaError_t change(cudaGraphNode_t handle, ReadParams what) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  Node* node = find_node(handle);
  if (what.error != cudaSuccess) return report(what.error);
  if (node == nullptr || node->task.body.index() != what.body.index()) return report(cudaErrorInvalidValue);
  node->task.body = std::move(what.body);
  return cudaSuccess;
}

// With the lock held.
cudaError_t change_in(cudaGraphExec_t exec_handle, cudaGraphNode_t handle, ReadParams what) {
  const std::shared_ptr<Exec> exec = find_exec(exec_handle);
  const Node* node = find_node(handle);
  ExecNode* mine = exec && node != nullptr ? exec->find(*node) : nullptr;
  if (what.error != cudaSuccess) return what.error;
  if (mine == nullptr) return cudaErrorInvalidValue;
  const Task changed{mine->task.device, mine->task.priority, std::move(what.body)};
  if (may_become(mine->task, changed, exec->flags) != cudaGraphExecUpdateSuccess) return cudaErrorInvalidValue;
  mine->task = changed;
  return cudaSuccess;
}

cudaError_t change(cudaGraphExec_t exec, cudaGraphNode_t node, ReadParams what) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  return report(change_in(exec, node, std::move(what)));
}

cudaMemsetParams params_of(const SetTask& task) {
  return {task.address, task.layout.pitch, task.value, task.value_bytes, task.width, task.rows};
}

cudaHostNodeParams params_of(const HostTask& task) { return {task.function, task.argument}; }

template <typename EventTask>
cudaEvent_t event_of(const EventTask& task) {
  return reinterpret_cast<cudaEvent_t>(task.event.get());
}

// What `answer` says of the node's task, which has to be of its kind; called with the lock held.
template <typename Body, typename Told>
cudaError_t tell(cudaGraphNode_t handle, Told* told, Told (*answer)(const Body&)) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  const Node* node = find_node(handle);
  const Body* task = node == nullptr ? nullptr : std::get_if<Body>(&node->task.body);
  if (task == nullptr || told == nullptr) return report(cudaErrorInvalidValue);
  *told = answer(*task);
  return cudaSuccess;
}

}  // namespace
}  // namespace hostcuda::rt

using namespace hostcuda::rt;

HC_EXPORT cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* graph) {
  return tell<ChildTask, cudaGraph_t>(node, graph, [](const ChildTask& child) { return handle_of(*child.graph); });
}

HC_EXPORT cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t handle, cudaKernelNodeParams* params) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  Node* node = find_node(handle);
  auto* task = node == nullptr ? nullptr : std::get_if<KernelTask>(&node->task.body);
  if (task == nullptr || params == nullptr) return report(cudaErrorInvalidValue);
  node->told_params[0] = task->args.data();
  *params = {};
  params->func = const_cast<void*>(task->kernel->symbol);
  params->gridDim = dim3(task->grid.x, task->grid.y, task->grid.z);
  params->blockDim = dim3(task->block.x, task->block.y, task->block.z);
  params->sharedMemBytes = static_cast<unsigned>(task->dynamic_shared_bytes);
  params->kernelParams = node->told_params;
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* params) {
  return change(node, read(params));
}

HC_EXPORT cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                       const cudaKernelNodeParams* params) {
  return change(exec, node, read(params));
}

HC_EXPORT cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* params) {
  return tell<CopyTask>(node, params, params_of);
}

HC_EXPORT cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* params) {
  return change(node, read(params));
}

HC_EXPORT cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* dst, const void* src, size_t bytes,
                                                     cudaMemcpyKind kind) {
  return change(node, read_copy(dst, src, bytes, kind));
}

HC_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                       const cudaMemcpy3DParms* params) {
  return change(exec, node, read(params));
}

HC_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* dst,
                                                         const void* src, size_t bytes, cudaMemcpyKind kind) {
  return change(exec, node, read_copy(dst, src, bytes, kind));
}

HC_EXPORT cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* params) {
  return tell<SetTask>(node, params, params_of);
}

HC_EXPORT cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* params) {
  return change(node, read(params));
}

HC_EXPORT cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                       const cudaMemsetParams* params) {
  return change(exec, node, read(params));
}

HC_EXPORT cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams* params) {
  return tell<HostTask>(node, params, params_of);
}

HC_EXPORT cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* params) {
  return change(node, read(params));
}

HC_EXPORT cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                     const cudaHostNodeParams* params) {
  return change(exec, node, read(params));
}

HC_EXPORT cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return tell<RecordTask>(node, event, event_of);
}

HC_EXPORT cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return tell<WaitTask>(node, event, event_of);
}

HC_EXPORT cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                           cudaEvent_t event) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  return report(change_in(exec, node, read_event_record(event)));
}

HC_EXPORT cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                         cudaEvent_t event) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  return report(change_in(exec, node, read_event_wait(event)));
}
