// SPDX-License-Identifier: Apache-2.0
// The parameters of graph nodes, read: what a node that has them does.
#pragma once

#include <cuda_runtime_api.h>

#include "runtime/graph.h"

namespace hostcuda::rt {

// What the node does, or the error in its parameters.
struct ReadParams {
  cudaError_t error = cudaSuccess;
  TaskBody body = EmptyTask{};
};

ReadParams read(const cudaKernelNodeParams* params);
ReadParams read(const cudaMemcpy3DParms* params);
ReadParams read(const cudaMemsetParams* params);
ReadParams read(const cudaHostNodeParams* params);
ReadParams read_copy(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind);

// These with the lock held.
ReadParams read_event_record(cudaEvent_t event);
ReadParams read_event_wait(cudaEvent_t event);
ReadParams read_child(cudaGraph_t graph);
ReadParams read(const cudaGraphNodeParams* params);  // of any kind

}  // namespace hostcuda::rt
