// SPDX-License-Identifier: Apache-2.0
// What the test programs share: named cases, checks that end the program with the line that failed, and a kernel that
// holds its stream until the test opens a gate.
#pragma once

#include <cuda_runtime_api.h>
#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "../../cases.h"
#include "hostcuda.h"
#include "simt/device_thread.h"

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      std::printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);      \
      std::fflush(stdout);                                                     \
      std::_Exit(1);                                                           \
    }                                                                          \
  } while (false)

#define GIVES(expected, call)                                                                                    \
  do {                                                                                                           \
    const int got = static_cast<int>(call), wanted = static_cast<int>(expected);                                 \
    if (got != wanted) {                                                                                         \
      std::printf("%s:%d: %s gives %d, not %d\n", __FILE__, __LINE__, #call, got, wanted);                       \
      std::fflush(stdout);                                                                                       \
      std::_Exit(1);                                                                                             \
    }                                                                                                            \
  } while (false)

#define OK(call) GIVES(cudaSuccess, call)

inline void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// What this process has used of the CPUs.
inline double cpu_s() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

// ---- kernels ----

struct GateArgs {
  std::atomic<int>* open;
  int* write_to;  // by thread 0, once the gate is open
  int value;
};

inline void gate_entry(const void* raw) {
  const auto* args = static_cast<const GateArgs*>(raw);
  while (args->open->load() == 0) hostcuda::simt::poll_yield();
  if (args->write_to != nullptr && hostcuda_device_thread->linear_index == 0) *args->write_to = args->value;
}

inline void broken_entry(const void*) { hostcuda::simt::device_fail("broken on purpose"); }

inline char gate_symbol, broken_symbol, absent_symbol, unknown_symbol;  // their addresses stand for the kernels

inline void register_kernel(const void* symbol, const char* name, void (*entry)(const void*), size_t args_bytes) {
  hostcudaKernelEntry_t kernel{};
  kernel.size = sizeof kernel;
  kernel.version = HOSTCUDA_KERNEL_ENTRY_VERSION;
  kernel.symbol = symbol;
  kernel.name = name;
  kernel.entry = entry;
  kernel.args_bytes = args_bytes;
  OK(hostcudaRegisterKernel(&kernel));
}

static const bool registered_kernels = [] {
  register_kernel(&gate_symbol, "gate_kernel", gate_entry, sizeof(GateArgs));
  register_kernel(&broken_symbol, "broken_kernel", broken_entry, 0);
  register_kernel(&absent_symbol, "absent_kernel", nullptr, 0);
  return true;
}();

// Holds the streams it is put in until it is opened.
struct Gate {
  std::atomic<int> is_open{0};
  void hold(cudaStream_t stream, int* write_to = nullptr, int value = 0, unsigned ctas = 1, unsigned threads = 1) {
    GateArgs args{&is_open, write_to, value};
    void* params[] = {&args};
    OK(cudaLaunchKernel(&gate_symbol, dim3(ctas), dim3(threads), params, 0, stream));
  }
  // `started` is to be done once the kernel runs.
  void hold(cudaStream_t stream, cudaEvent_t started) {
    GateArgs args{&is_open, nullptr, 0};
    void* params[] = {&args};
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeLaunchCompletionEvent;
    attribute.val.launchCompletionEvent.event = started;
    cudaLaunchConfig_t config{};
    config.gridDim = config.blockDim = dim3(1);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    OK(cudaLaunchKernelExC(&config, &gate_symbol, params));
  }
  void open() { is_open = 1; }
};

inline cudaStream_t new_stream(unsigned flags = cudaStreamNonBlocking) {
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, flags));
  return stream;
}

inline cudaEvent_t new_event(unsigned flags = cudaEventDefault) {
  cudaEvent_t event;
  OK(cudaEventCreateWithFlags(&event, flags));
  return event;
}

template <typename T>
T* device_array(size_t count) {
  void* made = nullptr;
  OK(cudaMalloc(&made, count * sizeof(T)));
  return static_cast<T*>(made);
}

// A little device memory that nobody reads; made at first use, which must not be during a capture.
inline char* scratch() {
  static char* bytes = device_array<char>(64);
  return bytes;
}

template <typename T>
T read(const T* on_device, cudaStream_t stream) {  // does not touch the default stream
  T value;
  OK(cudaMemcpyAsync(&value, on_device, sizeof value, cudaMemcpyDeviceToHost, stream));
  return value;
}
