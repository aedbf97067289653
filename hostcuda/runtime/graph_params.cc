// SPDX-License-Identifier: Apache-2.0
#include "runtime/graph_params.h"

#include <utility>

#include "runtime/copy.h"
#include "runtime/error.h"
#include "runtime/extent.h"

namespace hostcuda::rt {
namespace {

ReadParams wrong(cudaError_t error = cudaErrorInvalidValue) { return {error, EmptyTask{}}; }

template <typename Params>  // cudaKernelNodeParams, of either version
ReadParams read_kernel(const Params* params) {
  if (params == nullptr) return wrong();
  LaunchRequest request;
  request.symbol = params->func;
  request.grid = {params->gridDim.x, params->gridDim.y, params->gridDim.z};
  request.block = {params->blockDim.x, params->blockDim.y, params->blockDim.z};
  request.dynamic_shared_bytes = params->sharedMemBytes;
  request.params = params->kernelParams;
  if (params->extra != nullptr && (params->kernelParams != nullptr || !read_extra(params->extra, &request))) {
    return wrong();
  }
  KernelTask task;
  const cudaError_t error = kernel_task(request, &task);
  return {error, std::move(task)};
}

ReadParams checked(std::optional<CopyTask> task, cudaMemcpyKind kind) {
  if (!task) return wrong(refuse_unsupported("a copy of a CUDA array"));
  CopyEnds ends;
  const cudaError_t error = is_empty(*task) ? cudaErrorInvalidValue : plan(&*task, kind, &ends);
  return {error, std::move(*task)};
}

template <typename Params>  // cudaMemsetParams, of either version
ReadParams read_set(const Params* params) {
  if (params == nullptr) return wrong();
  if (params->elementSize != 1 && params->elementSize != 2 && params->elementSize != 4) return wrong();
  SetTask task;
  task.address = static_cast<char*>(params->dst);
  const std::size_t pitch = params->height == 1 ? product(params->width, params->elementSize) : params->pitch;
  task.layout = {pitch, product(pitch, params->height)};
  task.value = params->value;
  task.value_bytes = params->elementSize;
  task.width = params->width;
  task.rows = params->height;
  const cudaError_t error = is_empty(task) ? cudaErrorInvalidValue : plan(&task);
  return {error, task};
}

template <typename Params>  // cudaHostNodeParams, of either version
ReadParams read_host(const Params* params) {
  if (params == nullptr || params->fn == nullptr) return wrong();
  return {cudaSuccess, HostTask{params->fn, params->userData}};
}

template <typename EventTask>
ReadParams read_event(cudaEvent_t handle) {
  EventRef event = find_event(handle);
  if (!event) return wrong(cudaErrorInvalidResourceHandle);
  return {cudaSuccess, EventTask{std::move(event)}};
}

}  // namespace

ReadParams read(const cudaKernelNodeParams* params) { return read_kernel(params); }

ReadParams read(const cudaMemcpy3DParms* params) {
  return params == nullptr ? wrong() : checked(task_of(*params), params->kind);
}

ReadParams read(const cudaMemsetParams* params) { return read_set(params); }

ReadParams read(const cudaHostNodeParams* params) { return read_host(params); }

ReadParams read_copy(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind) {
  return checked(one_row(dst, src, bytes), kind);
}

ReadParams read_event_record(cudaEvent_t event) { return read_event<RecordTask>(event); }

ReadParams read_event_wait(cudaEvent_t event) { return read_event<WaitTask>(event); }

ReadParams read_child(cudaGraph_t handle) {
  const std::shared_ptr<Graph> graph = find_graph(handle);
  if (!graph || graph->capture != nullptr) return wrong();
  std::shared_ptr<Graph> copy = clone(*graph);
  copy->embedded = true;
  return {cudaSuccess, ChildTask{std::move(copy)}};
}

ReadParams read(const cudaGraphNodeParams* params) {
  if (params == nullptr) return wrong();
  switch (params->type) {
    case cudaGraphNodeTypeKernel: return read_kernel(&params->kernel);
    case cudaGraphNodeTypeMemcpy: return read(&params->memcpy.copyParams);
    case cudaGraphNodeTypeMemset: return read_set(&params->memset);
    case cudaGraphNodeTypeHost: return read_host(&params->host);
    case cudaGraphNodeTypeGraph: return read_child(params->graph.graph);
    case cudaGraphNodeTypeEmpty: return {};
    case cudaGraphNodeTypeWaitEvent: return read_event_wait(params->eventWait.event);
    case cudaGraphNodeTypeEventRecord: return read_event_record(params->eventRecord.event);
    default: return wrong(refuse_unsupported("a graph node of this type"));
  }
}

}  // namespace hostcuda::rt
