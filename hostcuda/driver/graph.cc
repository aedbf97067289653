// SPDX-License-Identifier: Apache-2.0
// The driver's stream capture, graphs and user objects. Handles, edges and most parameters are the runtime's own under
// other names.
#include "driver/driver.h"

using namespace hostcuda;
using namespace hostcuda::driver;

static_assert(sizeof(CUgraphEdgeData) == sizeof(cudaGraphEdgeData));
static_assert(sizeof(CUDA_HOST_NODE_PARAMS) == sizeof(cudaHostNodeParams));
static_assert(sizeof(CUgraphExecUpdateResultInfo) == sizeof(cudaGraphExecUpdateResultInfo));
static_assert(sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS) == sizeof(cudaGraphInstantiateParams));

namespace {

template <typename To, typename From>
To same(From from) {
  return reinterpret_cast<To>(from);
}

const cudaGraphEdgeData* edges(const CUgraphEdgeData* data) { return same<const cudaGraphEdgeData*>(data); }

}  // namespace

HC_EXPORT CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  return quietly([&] { return cudaStreamBeginCapture(stream, static_cast<cudaStreamCaptureMode>(mode)); });
}

HC_EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
                                               const CUgraphEdgeData* data, std::size_t count,
                                               CUstreamCaptureMode mode) {
  return quietly([&] {
    return cudaStreamBeginCaptureToGraph(stream, graph, dependencies, edges(data), count,
                                         static_cast<cudaStreamCaptureMode>(mode));
  });
}

HC_EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  return quietly([&] { return cudaStreamEndCapture(stream, graph); });
}

HC_EXPORT CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return quietly([&] { return cudaStreamIsCapturing(stream, same<cudaStreamCaptureStatus*>(status)); });
}

HC_EXPORT CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                          CUgraph* graph, const CUgraphNode** dependencies,
                                          const CUgraphEdgeData** data, std::size_t* count) {
  return quietly([&] {
    return cudaStreamGetCaptureInfo(stream, same<cudaStreamCaptureStatus*>(status), same<unsigned long long*>(id),
                                    graph, dependencies, same<const cudaGraphEdgeData**>(data), count);
  });
}

// The signature of CUDA 11.3, without edge data.
extern "C" __attribute__((visibility("default"))) CUresult cuStreamGetCaptureInfo_v2(
    CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph, const CUgraphNode** dependencies,
    std::size_t* count) {
  return cuStreamGetCaptureInfo(stream, status, id, graph, dependencies, nullptr, count);
}

HC_EXPORT CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* dependencies,
                                                     const CUgraphEdgeData* data, std::size_t count, unsigned flags) {
  return quietly(
      [&] { return cudaStreamUpdateCaptureDependencies(stream, dependencies, edges(data), count, flags); });
}

HC_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return quietly([&] { return cudaThreadExchangeStreamCaptureMode(same<cudaStreamCaptureMode*>(mode)); });
}

HC_EXPORT CUresult cuGraphCreate(CUgraph* graph, unsigned flags) {
  return quietly([&] { return cudaGraphCreate(graph, flags); });
}

HC_EXPORT CUresult cuGraphDestroy(CUgraph graph) {
  return quietly([&] { return cudaGraphDestroy(graph); });
}

HC_EXPORT CUresult cuGraphClone(CUgraph* copy, CUgraph graph) {
  return quietly([&] { return cudaGraphClone(copy, graph); });
}

HC_EXPORT CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                        std::size_t count, const CUDA_KERNEL_NODE_PARAMS* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  cudaKernelNodeParams told{};
  told.func = params->func != nullptr ? same<void*>(params->func) : same<void*>(params->kern);
  told.gridDim = dim3(params->gridDimX, params->gridDimY, params->gridDimZ);
  told.blockDim = dim3(params->blockDimX, params->blockDimY, params->blockDimZ);
  told.sharedMemBytes = params->sharedMemBytes;
  told.kernelParams = params->kernelParams;
  told.extra = params->extra;
  return quietly([&] { return cudaGraphAddKernelNode(node, graph, dependencies, count, &told); });
}

HC_EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                        std::size_t count, const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const cudaMemsetParams told{same<void*>(params->dst), params->pitch, params->value,
                              params->elementSize,      params->width, params->height};
  return quietly([&] { return cudaGraphAddMemsetNode(node, graph, dependencies, count, &told); });
}

HC_EXPORT CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                      std::size_t count, const CUDA_HOST_NODE_PARAMS* params) {
  return quietly(
      [&] { return cudaGraphAddHostNode(node, graph, dependencies, count, same<const cudaHostNodeParams*>(params)); });
}

HC_EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                            std::size_t count, CUgraph child) {
  return quietly([&] { return cudaGraphAddChildGraphNode(node, graph, dependencies, count, child); });
}

HC_EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                       std::size_t count) {
  return quietly([&] { return cudaGraphAddEmptyNode(node, graph, dependencies, count); });
}

HC_EXPORT CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                             std::size_t count, CUevent event) {
  return quietly([&] { return cudaGraphAddEventRecordNode(node, graph, dependencies, count, event); });
}

HC_EXPORT CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                           std::size_t count, CUevent event) {
  return quietly([&] { return cudaGraphAddEventWaitNode(node, graph, dependencies, count, event); });
}

HC_EXPORT CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                          const CUgraphEdgeData* data, std::size_t count) {
  return quietly([&] { return cudaGraphAddDependencies(graph, from, to, edges(data), count); });
}

HC_EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
  return quietly([&] { return cudaGraphGetNodes(graph, nodes, count); });
}

HC_EXPORT CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
  return quietly([&] { return cudaGraphGetRootNodes(graph, nodes, count); });
}

HC_EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  return quietly([&] { return cudaGraphNodeGetType(node, same<cudaGraphNodeType*>(type)); });
}

HC_EXPORT CUresult cuGraphDestroyNode(CUgraphNode node) {
  return quietly([&] { return cudaGraphDestroyNode(node); });
}

HC_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return quietly([&] { return cudaGraphInstantiateWithFlags(exec, graph, flags); });
}

HC_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                                CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return quietly([&] {
    return cudaGraphInstantiateWithParams(exec, graph, same<cudaGraphInstantiateParams*>(params));
  });
}

HC_EXPORT CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  return quietly([&] { return cudaGraphExecUpdate(exec, graph, same<cudaGraphExecUpdateResultInfo*>(info)); });
}

HC_EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  return quietly([&] { return cudaGraphUpload(exec, stream); });
}

HC_EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return quietly([&] { return cudaGraphLaunch(exec, stream); });
}

HC_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return quietly([&] { return cudaGraphExecDestroy(exec); });
}

HC_EXPORT CUresult cuUserObjectCreate(CUuserObject* object, void* pointer, CUhostFn destroy, unsigned references,
                                      unsigned flags) {
  return quietly([&] { return cudaUserObjectCreate(object, pointer, destroy, references, flags); });
}

HC_EXPORT CUresult cuUserObjectRetain(CUuserObject object, unsigned count) {
  return quietly([&] { return cudaUserObjectRetain(object, count); });
}

HC_EXPORT CUresult cuUserObjectRelease(CUuserObject object, unsigned count) {
  return quietly([&] { return cudaUserObjectRelease(object, count); });
}

HC_EXPORT CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
  return quietly([&] { return cudaGraphRetainUserObject(graph, object, count, flags); });
}

HC_EXPORT CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) {
  return quietly([&] { return cudaGraphReleaseUserObject(graph, object, count); });
}
