// SPDX-License-Identifier: Apache-2.0
// Stream capture and graphs. This version has none: no stream is ever being captured, which the questions answer
// truthfully, and everything that would begin or build a graph is refused by name.
#include "runtime/device.h"
#include "runtime/error.h"

using namespace hostcuda::rt;

HC_EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  if (status == nullptr) return report(cudaErrorInvalidValue);
  std::lock_guard<std::mutex> guard(runtime_lock());
  if (!find_stream(handle)) return report(cudaErrorInvalidResourceHandle);
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                               unsigned long long* id, cudaGraph_t* graph,
                                               const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                                               size_t* dependency_count) {
  const cudaError_t error = cudaStreamIsCapturing(handle, status);
  if (error != cudaSuccess) return error;
  if (id != nullptr) *id = 0;
  if (graph != nullptr) *graph = nullptr;
  if (dependencies != nullptr) *dependencies = nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (dependency_count != nullptr) *dependency_count = 0;
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (mode == nullptr || *mode < cudaStreamCaptureModeGlobal || *mode > cudaStreamCaptureModeRelaxed) {
    return report(cudaErrorInvalidValue);
  }
  const auto before = static_cast<cudaStreamCaptureMode>(t_state.capture_mode);
  t_state.capture_mode = *mode;
  *mode = before;
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  return refuse_unsupported("cudaStreamBeginCapture (CUDA graphs)");
}
HC_EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*) {
  return refuse_unsupported("cudaStreamEndCapture (CUDA graphs)");
}
HC_EXPORT cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t, cudaGraphNode_t*, const cudaGraphEdgeData*,
                                                          size_t, unsigned) {
  return refuse_unsupported("cudaStreamUpdateCaptureDependencies (CUDA graphs)");
}
HC_EXPORT cudaError_t cudaGraphCreate(cudaGraph_t*, unsigned) {
  return refuse_unsupported("cudaGraphCreate (CUDA graphs)");
}
HC_EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long) {
  return refuse_unsupported("cudaGraphInstantiate (CUDA graphs)");
}
HC_EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) {
  return refuse_unsupported("cudaGraphLaunch (CUDA graphs)");
}
HC_EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t) { return refuse_unsupported("cudaGraphDestroy (CUDA graphs)"); }
HC_EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) {
  return refuse_unsupported("cudaGraphExecDestroy (CUDA graphs)");
}
HC_EXPORT cudaError_t cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t*, const cudaGraphNode_t*,
                                               const cudaGraphEdgeData*, size_t) {
  return refuse_unsupported("cudaGraphAddDependencies (CUDA graphs)");
}
HC_EXPORT cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t*, size_t,
                                                  cudaEvent_t) {
  return refuse_unsupported("cudaGraphAddEventRecordNode (CUDA graphs)");
}
HC_EXPORT cudaError_t cudaGraphRetainUserObject(cudaGraph_t, cudaUserObject_t, unsigned, unsigned) {
  return refuse_unsupported("cudaGraphRetainUserObject (CUDA graphs)");
}
HC_EXPORT cudaError_t cudaUserObjectCreate(cudaUserObject_t*, void*, cudaHostFn_t, unsigned, unsigned) {
  return refuse_unsupported("cudaUserObjectCreate (CUDA graphs)");
}
HC_EXPORT cudaError_t cudaUserObjectRelease(cudaUserObject_t, unsigned) {
  return refuse_unsupported("cudaUserObjectRelease (CUDA graphs)");
}
HC_EXPORT cudaError_t cudaMemcpyBatchAsync(void* const*, const void* const*, const size_t*, size_t,
                                           cudaMemcpyAttributes*, size_t*, size_t, cudaStream_t) {
  return refuse_unsupported("cudaMemcpyBatchAsync (copy-engine collectives)");
}
