// SPDX-License-Identifier: Apache-2.0
// Errors of the CUDA API: the thread's last one, a device's sticky one, and the line on standard error that says more
// than a number can.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace hostcuda::rt {

// What each host thread has of its own. libnccl keeps its thread-local data in the static TLS block, so this library
// has to as well and must take little of it: one small object, found with the initial-exec model.
inline constexpr int kMostPushedContexts = 16;
struct ThreadState {
  int device;               // the program's number of the current device
  cudaError_t last_error;
  bool helper;              // see hostcudaHelperThread
  bool callback;            // it runs the program's host functions and callbacks
  int capture_mode;         // see cudaThreadExchangeStreamCaptureMode
  int pushed;               // see cuCtxPushCurrent: how many of `below` are in use, the devices to go back to
  std::int16_t below[kMostPushedContexts];
};
extern thread_local ThreadState t_state __attribute__((tls_model("initial-exec")));

// Every API call returns through this: it records failures for cudaGetLastError and passes `error` on.
cudaError_t report(cudaError_t error);

// A line on standard error, "hostcuda: ...", for refusals that a caller would otherwise have to guess at.
void complain(const char* format, ...) __attribute__((format(printf, 1, 2)));

// complain + report: a call that hostcuda does not offer.
cudaError_t refuse_unsupported(const char* what);

CUresult to_driver(cudaError_t error);
cudaError_t from_driver(CUresult result);
const char* error_name(cudaError_t error);
const char* error_text(cudaError_t error);

}  // namespace hostcuda::rt

#define HC_EXPORT extern "C" __attribute__((visibility("default")))
