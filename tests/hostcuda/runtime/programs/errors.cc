// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#include <vector>

cudaError_t launch(const void* symbol, dim3 grid = dim3(1), dim3 block = dim3(1), size_t shared = 0) {
  static std::atomic<int> open{1};
  GateArgs args{&open, nullptr, 0};
  void* params[] = {&args};
  return cudaLaunchKernel(symbol, grid, block, params, shared, nullptr);
}

CASE(last_error_is_the_threads_own) {
  GIVES(cudaErrorInvalidValue, cudaMalloc(nullptr, 1));
  std::thread([] { OK(cudaGetLastError()); }).join();
  GIVES(cudaErrorInvalidValue, cudaPeekAtLastError());
  GIVES(cudaErrorInvalidValue, cudaGetLastError());
  OK(cudaGetLastError());
  CHECK(std::string(cudaGetErrorName(cudaErrorInvalidValue)) == "cudaErrorInvalidValue");
  CHECK(std::string(cudaGetErrorString(cudaErrorInvalidValue)) == "invalid value");
  const char* text;
  OK(cuGetErrorString(CUDA_ERROR_INVALID_DEVICE, &text));
  CHECK(std::string(text) == "invalid device");
  OK(cuGetErrorName(CUDA_ERROR_INVALID_DEVICE, &text));
  CHECK(std::string(text) == "CUDA_ERROR_INVALID_DEVICE");
}

CASE(current_device_is_the_threads_own) {
  OK(cudaSetDevice(3));
  std::thread([] {
    int device = -1;
    OK(cudaGetDevice(&device));
    CHECK(device == 0);
    OK(cudaSetDevice(1));
  }).join();
  int device = -1;
  OK(cudaGetDevice(&device));
  CHECK(device == 3);
}

CASE(failed_kernel_is_sticky) {
  cudaStream_t stream = new_stream();
  OK(cudaLaunchKernel(&broken_symbol, dim3(1), dim3(1), nullptr, 0, stream));
  int* cell = nullptr;
  GIVES(cudaErrorLaunchFailure, cudaStreamSynchronize(stream));
  GIVES(cudaErrorLaunchFailure, cudaGetLastError());
  GIVES(cudaErrorLaunchFailure, cudaGetLastError());  // not cleared
  GIVES(cudaErrorLaunchFailure, cudaMalloc(reinterpret_cast<void**>(&cell), 4));
  GIVES(cudaErrorLaunchFailure, launch(&gate_symbol));
  GIVES(cudaErrorLaunchFailure, cudaDeviceSynchronize());
  OK(cudaSetDevice(1));  // other devices work on
  OK(launch(&gate_symbol));
  OK(cudaDeviceSynchronize());
}

// What was behind the failed kernel does not run, and nobody waits for it forever.
CASE(failure_ends_what_follows) {
  cudaStream_t first = new_stream(), second = new_stream();
  static std::atomic<int> called{0};
  Gate gate;
  gate.hold(first);
  OK(cudaLaunchKernel(&broken_symbol, dim3(1), dim3(1), nullptr, 0, first));
  OK(cudaLaunchHostFunc(first, [](void*) { called = 1; }, nullptr));
  cudaEvent_t event = new_event();
  OK(cudaEventRecord(event, first));
  OK(cudaStreamWaitEvent(second, event, 0));
  gate.open();
  GIVES(cudaErrorLaunchFailure, cudaStreamSynchronize(second));
  GIVES(cudaErrorLaunchFailure, cudaEventQuery(event));
  CHECK(called == 0);
}

// Unlike host functions, callbacks are told of a failure and called all the same.
CASE(callbacks_hear_of_failures) {
  cudaStream_t stream = new_stream();
  static std::vector<cudaError_t> told;
  Gate gate;
  gate.hold(stream);
  OK(cudaLaunchKernel(&broken_symbol, dim3(1), dim3(1), nullptr, 0, stream));
  const auto callback = [](cudaStream_t, cudaError_t status, void*) { told.push_back(status); };
  OK(cudaStreamAddCallback(stream, callback, nullptr, 0));
  OK(cudaStreamAddCallback(stream, callback, nullptr, 0));
  gate.open();
  GIVES(cudaErrorLaunchFailure, cudaStreamSynchronize(stream));
  CHECK(told.size() == 2 && told[0] == cudaErrorLaunchFailure && told[1] == cudaErrorLaunchFailure);
}

// An error that ends with its call is told once by cudaGetLastError; the failure of a device stays.
CASE(lasting_and_passing_errors) {
  cudaStream_t stream = new_stream();
  Gate gate;
  gate.hold(stream);
  GIVES(cudaErrorNotReady, cudaStreamQuery(stream));
  GIVES(cudaErrorNotReady, cudaPeekAtLastError());
  GIVES(cudaErrorNotReady, cudaPeekAtLastError());
  GIVES(cudaErrorInvalidValue, cudaGetDevice(nullptr));
  int device;
  OK(cudaGetDevice(&device));                      // a success does not clear it
  GIVES(cudaErrorInvalidValue, cudaGetLastError());  // the latest
  OK(cudaGetLastError());
  OK(cudaPeekAtLastError());
  GIVES(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));  // the driver's calls leave it alone
  OK(cudaPeekAtLastError());
  gate.open();
  OK(cudaStreamSynchronize(stream));
  OK(cudaLaunchKernel(&broken_symbol, dim3(1), dim3(1), nullptr, 0, stream));
  GIVES(cudaErrorLaunchFailure, cudaDeviceSynchronize());
  for (int i = 0; i < 2; ++i) {
    GIVES(cudaErrorLaunchFailure, cudaPeekAtLastError());
    GIVES(cudaErrorLaunchFailure, cudaGetLastError());
    GIVES(cudaErrorLaunchFailure, cudaMemsetAsync(nullptr, 0, 0, stream));
    GIVES(cudaErrorLaunchFailure, cudaStreamQuery(stream));
  }
  std::thread([] { GIVES(cudaErrorLaunchFailure, cudaGetLastError()); }).join();  // every thread's
}

CASE(kernels_that_are_not_there) {
  GIVES(cudaErrorInvalidDeviceFunction, launch(&absent_symbol));
  GIVES(cudaErrorInvalidDeviceFunction, launch(&unknown_symbol));
  GIVES(cudaErrorInvalidDeviceFunction, launch(reinterpret_cast<const void*>(&cudaMalloc)));
  cudaFunction_t function;
  GIVES(cudaErrorInvalidDeviceFunction, cudaGetFuncBySymbol(&function, &unknown_symbol));
  OK(cudaGetFuncBySymbol(&function, &gate_symbol));
  OK(cudaDeviceSynchronize());
}

CASE(impossible_launches) {
  GIVES(cudaErrorInvalidConfiguration, launch(&gate_symbol, dim3(0)));
  GIVES(cudaErrorInvalidConfiguration, launch(&gate_symbol, dim3(1), dim3(1025)));
  GIVES(cudaErrorInvalidConfiguration, launch(&gate_symbol, dim3(1), dim3(1), 1 << 20));
  OK(cudaDeviceSynchronize());
}

CASE(packed_parameters) {
  CUfunction function;
  OK(cudaGetFuncBySymbol(reinterpret_cast<cudaFunction_t*>(&function), &gate_symbol));
  int* cell = device_array<int>(1);
  std::atomic<int> open{1};
  GateArgs args{&open, cell, 12};
  size_t bytes = sizeof args;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &args, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  cudaEvent_t started = new_event(cudaEventDisableTiming);
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
  attribute.value.launchCompletionEvent.event = started;
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  OK(cuLaunchKernelEx(&config, function, nullptr, extra));
  args.value = 13;  // taken along at the call
  OK(cudaDeviceSynchronize());
  CHECK(*cell == 12);
  OK(cudaEventQuery(started));
  extra[0] = &bytes;
  GIVES(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
}

// A launch completion event is done once the grid runs, not when it ends.
CASE(launch_completion_event) {
  Gate gate;
  cudaStream_t stream = new_stream(), other = new_stream();
  cudaEvent_t started = new_event(cudaEventDisableTiming);
  gate.hold(stream, started);
  OK(cudaStreamWaitEvent(other, started, 0));
  OK(cudaStreamSynchronize(other));
  GIVES(cudaErrorNotReady, cudaStreamQuery(stream));
  gate.open();
  OK(cudaDeviceSynchronize());
}

CASE(handles_that_are_none) {
  const auto stream = reinterpret_cast<cudaStream_t>(0x1234);
  const auto event = reinterpret_cast<cudaEvent_t>(0x1234);
  GIVES(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(stream));
  GIVES(cudaErrorInvalidResourceHandle, cudaStreamDestroy(stream));
  GIVES(cudaErrorInvalidResourceHandle, cudaEventQuery(event));
  GIVES(cudaErrorInvalidResourceHandle, cudaEventRecord(event, nullptr));
  GIVES(cudaErrorInvalidResourceHandle, cudaStreamWaitEvent(nullptr, event, 0));
  cudaEvent_t no_timing = new_event(cudaEventDisableTiming), timing = new_event(), never = new_event();
  OK(cudaEventRecord(no_timing, nullptr));
  OK(cudaEventRecord(timing, nullptr));
  OK(cudaDeviceSynchronize());
  float ms;
  GIVES(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, timing, no_timing));
  GIVES(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, timing, never));
}

// A forked child has none of our threads: it is told so, and can end in the ordinary way.
CASE(forked_child) {
  cudaStream_t stream = new_stream();
  Gate gate;
  gate.hold(stream);
  const pid_t child = fork();
  if (child == 0) {
    void* made;
    GIVES(cudaErrorInitializationError, cudaStreamSynchronize(stream));
    GIVES(cudaErrorInitializationError, cudaMalloc(&made, 1));
    std::exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  gate.open();
  OK(cudaStreamSynchronize(stream));
}

int main(int argc, char** argv) { return run_case(argc, argv); }
