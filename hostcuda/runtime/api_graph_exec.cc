// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's executable graphs.
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/graph_exec.h"

namespace hostcuda::rt {
namespace {

constexpr unsigned long long kKnownFlags =
    cudaGraphInstantiateFlagAutoFreeOnLaunch | cudaGraphInstantiateFlagUpload | cudaGraphInstantiateFlagUseNodePriority;

Instantiated make(cudaGraphExec_t* made, cudaGraph_t handle, unsigned long long flags) {
  Instantiated found;
  found.error = cudaErrorInvalidValue;
  found.result = cudaGraphInstantiateError;
  if ((flags & cudaGraphInstantiateFlagDeviceLaunch) != 0) {
    found.error = refuse_unsupported("launching a graph from a device (cudaGraphInstantiateFlagDeviceLaunch)");
    return found;
  }
  if (made == nullptr || (flags & ~kKnownFlags) != 0) return found;
  *made = nullptr;
  std::lock_guard<std::mutex> guard(runtime_lock());
  const std::shared_ptr<Graph> graph = find_graph(handle);
  if (!graph || graph->capture != nullptr) return found;
  found = instantiate(*graph, flags);
  if (found.exec) *made = handle_of(*found.exec);
  found.exec.reset();  // the last reference goes with the lock held
  return found;
}

cudaError_t with_node(cudaGraphExec_t handle, cudaGraphNode_t node_handle, ExecNode** found) {
  const std::shared_ptr<Exec> exec = find_exec(handle);
  const Node* node = find_node(node_handle);
  *found = !exec || node == nullptr ? nullptr : exec->find(*node);
  if (*found == nullptr) return cudaErrorInvalidValue;
  const cudaGraphNodeType type = type_of((*found)->task);
  // As in CUDA, only nodes that do something on a device can be switched off.
  return type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemcpy || type == cudaGraphNodeTypeMemset
             ? cudaSuccess
             : cudaErrorInvalidValue;
}

}  // namespace
}  // namespace hostcuda::rt

using namespace hostcuda::rt;

HC_EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* made, cudaGraph_t graph,
                                                    unsigned long long flags) {
  HC_DEVICE(here);
  (void)here;
  return report(make(made, graph, flags).error);
}

HC_EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(made, graph, flags);
}

HC_EXPORT cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* made, cudaGraph_t graph,
                                                     cudaGraphInstantiateParams* params) {
  HC_DEVICE(here);
  (void)here;
  if (params == nullptr) return report(cudaErrorInvalidValue);
  const Instantiated found = make(made, graph, params->flags);
  params->result_out = found.result;
  params->errNode_out = found.node;
  return report(found.error);
}

HC_EXPORT cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t handle, unsigned long long* flags) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  const std::shared_ptr<Exec> exec = find_exec(handle);
  if (!exec || flags == nullptr) return report(cudaErrorInvalidValue);
  *flags = exec->flags;
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  return report(forget_exec(handle) ? cudaSuccess : cudaErrorInvalidValue);
}

HC_EXPORT cudaError_t cudaGraphExecUpdate(cudaGraphExec_t handle, cudaGraph_t graph_handle,
                                          cudaGraphExecUpdateResultInfo* info) {
  if (info == nullptr) return report(cudaErrorInvalidValue);
  *info = {cudaGraphExecUpdateError, nullptr, nullptr};
  std::lock_guard<std::mutex> guard(runtime_lock());
  const std::shared_ptr<Exec> exec = find_exec(handle);
  const std::shared_ptr<Graph> graph = find_graph(graph_handle);
  if (!exec || !graph || graph->capture != nullptr) return report(cudaErrorInvalidValue);
  return report(update(*exec, *graph, info));
}

// There is nothing to carry to a device ahead of the launch.
HC_EXPORT cudaError_t cudaGraphUpload(cudaGraphExec_t handle, cudaStream_t stream) {
  HC_DEVICE(here);
  (void)here;
  std::lock_guard<std::mutex> guard(runtime_lock());
  if (!find_stream(stream)) return report(cudaErrorInvalidResourceHandle);
  return report(find_exec(handle) ? cudaSuccess : cudaErrorInvalidValue);
}

HC_EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  HC_DEVICE(here);
  (void)here;
  std::lock_guard<std::mutex> guard(runtime_lock());
  const StreamRef stream = find_stream(stream_handle);
  if (!stream) return report(cudaErrorInvalidResourceHandle);
  const std::shared_ptr<Exec> exec = find_exec(handle);
  if (!exec) return report(cudaErrorInvalidValue);
  return report(launch_graph(*exec, stream));
}

HC_EXPORT cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned enabled) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  ExecNode* found;
  if (const cudaError_t error = with_node(exec, node, &found); error != cudaSuccess) return report(error);
  found->enabled = enabled != 0;
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned* enabled) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  ExecNode* found;
  if (enabled == nullptr) return report(cudaErrorInvalidValue);
  if (const cudaError_t error = with_node(exec, node, &found); error != cudaSuccess) return report(error);
  *enabled = found->enabled ? 1 : 0;
  return cudaSuccess;
}
