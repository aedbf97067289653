// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's graph nodes by kind: adding them, asking for their parameters and changing those, in a graph and in
// an executable one.
#include "runtime/copy.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/graph.h"
#include "runtime/graph_exec.h"

namespace hostcuda::rt {
namespace {

// What a node of these parameters does, or the error in them.
struct Read {
  cudaError_t error = cudaSuccess;
  TaskBody body = EmptyTask{};
};
Read wrong(cudaError_t error = cudaErrorInvalidValue) { return {error, EmptyTask{}}; }

template <typename Params>  // cudaKernelNodeParams, of either version
Read read_kernel(const Params* params) {
  if (params == nullptr) return wrong();
  LaunchRequest request;
  request.symbol = params->func;
  request.grid = {params->gridDim.x, params->gridDim.y, params->gridDim.z};
  request.block = {params->blockDim.x, params->blockDim.y, params->blockDim.z};
  request.dynamic_shared_bytes = params->sharedMemBytes;
  request.params = params->kernelParams;
  if (params->extra != nullptr && (params->kernelParams != nullptr || !read_extra(params->extra, &request))) return wrong();
  KernelTask task;
  const cudaError_t error = kernel_task(request, &task);
  return {error, std::move(task)};
}

Read read(const cudaKernelNodeParams* params) { return read_kernel(params); }

Read checked(std::optional<CopyTask> task, cudaMemcpyKind kind) {
  if (!task) return wrong(refuse_unsupported("a copy of a CUDA array"));
  CopyEnds ends;
  const cudaError_t error = is_empty(*task) ? cudaErrorInvalidValue : plan(&*task, kind, &ends);
  return {error, std::move(*task)};
}

Read read(const cudaMemcpy3DParms* params) {
  return params == nullptr ? wrong() : checked(task_of(*params), params->kind);
}

template <typename Params>  // cudaMemsetParams, of either version
Read read_set(const Params* params) {
  if (params == nullptr || (params->elementSize != 1 && params->elementSize != 2 && params->elementSize != 4)) return wrong();
  SetTask task;
  task.address = static_cast<char*>(params->dst);
  const std::size_t pitch = params->height == 1 ? params->width * params->elementSize : params->pitch;
  task.layout = {pitch, pitch * params->height};
  task.value = params->value;
  task.value_bytes = params->elementSize;
  task.width = params->width;
  task.rows = params->height;
  const cudaError_t error = is_empty(task) ? cudaErrorInvalidValue : plan(&task);
  return {error, task};
}

Read read(const cudaMemsetParams* params) { return read_set(params); }

template <typename Params>  // cudaHostNodeParams, of either version
Read read_host(const Params* params) {
  if (params == nullptr || params->fn == nullptr) return wrong();
  return {cudaSuccess, HostTask{params->fn, params->userData}};
}

Read read(const cudaHostNodeParams* params) { return read_host(params); }

// With the lock held, these two.
template <typename EventTask>
Read read_event(cudaEvent_t handle) {
  EventRef event = find_event(handle);
  if (!event) return wrong(cudaErrorInvalidResourceHandle);
  return {cudaSuccess, EventTask{std::move(event)}};
}

Read read_child(cudaGraph_t handle) {
  const std::shared_ptr<Graph> graph = find_graph(handle);
  if (!graph || graph->capture != nullptr) return wrong();
  std::shared_ptr<Graph> copy = clone(*graph);
  copy->embedded = true;
  return {cudaSuccess, ChildTask{std::move(copy)}};
}

// With the lock held.
cudaError_t add(cudaGraphNode_t* made, cudaGraph_t handle, const cudaGraphNode_t* dependencies,
                const cudaGraphEdgeData* data, size_t count, Read what) {
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
                       Read what) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  return report(add(made, graph, dependencies, nullptr, count, std::move(what)));
}

cudaError_t change(cudaGraphNode_t handle, Read what) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  Node* node = find_node(handle);
  if (what.error != cudaSuccess) return report(what.error);
  if (node == nullptr || node->task.body.index() != what.body.index()) return report(cudaErrorInvalidValue);
  node->task.body = std::move(what.body);
  return cudaSuccess;
}

// With the lock held.
cudaError_t change(cudaGraphExec_t exec_handle, cudaGraphNode_t handle, Read what) {
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

cudaError_t change_locked(cudaGraphExec_t exec, cudaGraphNode_t node, Read what) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  return report(change(exec, node, std::move(what)));
}

// The node's task of one kind, or nullptr. With the lock held.
template <typename Body>
Body* body_of(cudaGraphNode_t handle) {
  Node* node = find_node(handle);
  return node == nullptr ? nullptr : std::get_if<Body>(&node->task.body);
}

template <typename EventTask>
cudaError_t tell_event(cudaGraphNode_t handle, cudaEvent_t* event) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  const auto* task = body_of<EventTask>(handle);
  if (task == nullptr || event == nullptr) return report(cudaErrorInvalidValue);
  *event = reinterpret_cast<cudaEvent_t>(task->event.get());
  return cudaSuccess;
}

// With the lock held.
Read read_any(const cudaGraphNodeParams* params) {
  if (params == nullptr) return wrong();
  switch (params->type) {
    case cudaGraphNodeTypeKernel: return read_kernel(&params->kernel);
    case cudaGraphNodeTypeMemcpy: return read(&params->memcpy.copyParams);
    case cudaGraphNodeTypeMemset: return read_set(&params->memset);
    case cudaGraphNodeTypeHost: return read_host(&params->host);
    case cudaGraphNodeTypeGraph: return read_child(params->graph.graph);
    case cudaGraphNodeTypeEmpty: return {};
    case cudaGraphNodeTypeWaitEvent: return read_event<WaitTask>(params->eventWait.event);
    case cudaGraphNodeTypeEventRecord: return read_event<RecordTask>(params->eventRecord.event);
    default: return wrong(refuse_unsupported("a graph node of this type"));
  }
}

}  // namespace
}  // namespace hostcuda::rt

using namespace hostcuda::rt;

HC_EXPORT cudaError_t cudaGraphAddNode(cudaGraphNode_t* made, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                       const cudaGraphEdgeData* data, size_t count, cudaGraphNodeParams* params) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  return report(add(made, graph, dependencies, data, count, read_any(params)));
}

HC_EXPORT cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* made, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                            size_t count) {
  return add_locked(made, graph, dependencies, count, {});
}

HC_EXPORT cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* made, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                             size_t count, const cudaKernelNodeParams* params) {
  return add_locked(made, graph, dependencies, count, read(params));
}

HC_EXPORT cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* made, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                             size_t count, const cudaMemcpy3DParms* params) {
  return add_locked(made, graph, dependencies, count, read(params));
}

HC_EXPORT cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* made, cudaGraph_t graph,
                                               const cudaGraphNode_t* dependencies, size_t count, void* dst,
                                               const void* src, size_t bytes, cudaMemcpyKind kind) {
  return add_locked(made, graph, dependencies, count, checked(one_row(dst, src, bytes), kind));
}

HC_EXPORT cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* made, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                             size_t count, const cudaMemsetParams* params) {
  return add_locked(made, graph, dependencies, count, read(params));
}

HC_EXPORT cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* made, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                           size_t count, const cudaHostNodeParams* params) {
  return add_locked(made, graph, dependencies, count, read(params));
}

HC_EXPORT cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                                  const cudaGraphNode_t* dependencies, size_t count, cudaEvent_t event) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  return report(add(made, graph, dependencies, nullptr, count, read_event<RecordTask>(event)));
}

HC_EXPORT cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                                const cudaGraphNode_t* dependencies, size_t count, cudaEvent_t event) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  return report(add(made, graph, dependencies, nullptr, count, read_event<WaitTask>(event)));
}

HC_EXPORT cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                                 const cudaGraphNode_t* dependencies, size_t count, cudaGraph_t child) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  return report(add(made, graph, dependencies, nullptr, count, read_child(child)));
}

HC_EXPORT cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* graph) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  const auto* child = body_of<ChildTask>(node);
  if (child == nullptr || graph == nullptr) return report(cudaErrorInvalidValue);
  *graph = handle_of(*child->graph);
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t handle, cudaKernelNodeParams* params) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  auto* task = body_of<KernelTask>(handle);
  if (task == nullptr || params == nullptr) return report(cudaErrorInvalidValue);
  Node* node = find_node(handle);
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
  return change_locked(exec, node, read(params));
}

HC_EXPORT cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* params) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  const auto* task = body_of<CopyTask>(node);
  if (task == nullptr || params == nullptr) return report(cudaErrorInvalidValue);
  *params = params_of(*task);
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* params) {
  return change(node, read(params));
}

HC_EXPORT cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* dst, const void* src, size_t bytes,
                                                     cudaMemcpyKind kind) {
  return change(node, checked(one_row(dst, src, bytes), kind));
}

HC_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                       const cudaMemcpy3DParms* params) {
  return change_locked(exec, node, read(params));
}

HC_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* dst,
                                                         const void* src, size_t bytes, cudaMemcpyKind kind) {
  return change_locked(exec, node, checked(one_row(dst, src, bytes), kind));
}

HC_EXPORT cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* params) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  const auto* task = body_of<SetTask>(node);
  if (task == nullptr || params == nullptr) return report(cudaErrorInvalidValue);
  *params = {task->address, task->layout.pitch, task->value, task->value_bytes, task->width, task->rows};
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* params) {
  return change(node, read(params));
}

HC_EXPORT cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                       const cudaMemsetParams* params) {
  return change_locked(exec, node, read(params));
}

HC_EXPORT cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams* params) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  const auto* task = body_of<HostTask>(node);
  if (task == nullptr || params == nullptr) return report(cudaErrorInvalidValue);
  *params = {task->function, task->argument};
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* params) {
  return change(node, read(params));
}

HC_EXPORT cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                     const cudaHostNodeParams* params) {
  return change_locked(exec, node, read(params));
}

HC_EXPORT cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return tell_event<RecordTask>(node, event);
}

HC_EXPORT cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return tell_event<WaitTask>(node, event);
}

HC_EXPORT cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  return report(change(exec, node, read_event<RecordTask>(event)));
}

HC_EXPORT cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  return report(change(exec, node, read_event<WaitTask>(event)));
}
