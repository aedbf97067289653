// SPDX-License-Identifier: Apache-2.0
// Calls that CUDA has and this version has not, refused by name.
#include "runtime/error.h"

using namespace hostcuda::rt;

HC_EXPORT cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t*, size_t,
                                               cudaMemAllocNodeParams*) {
  return refuse_unsupported("cudaGraphAddMemAllocNode (memory that belongs to a graph)");
}

HC_EXPORT cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t*, size_t, void*) {
  return refuse_unsupported("cudaGraphAddMemFreeNode (memory that belongs to a graph)");
}

HC_EXPORT cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle*, cudaGraph_t, unsigned, unsigned) {
  return refuse_unsupported("cudaGraphConditionalHandleCreate (conditional nodes)");
}

HC_EXPORT cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t, cudaGraphNode_t, cudaGraph_t) {
  return refuse_unsupported("cudaGraphExecChildGraphNodeSetParams (cudaGraphExecUpdate is)");
}
