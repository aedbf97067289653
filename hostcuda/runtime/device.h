// SPDX-License-Identifier: Apache-2.0
// A simulated device at run time: its streams, its executor thread, its failure if it has one.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/clock_glue.h"
#include "runtime/machine.h"
#include "runtime/stream.h"

namespace hostcuda::rt {

struct Device {
  int number = 0;      // the program's
  int place = 0;       // on the machine
  std::vector<StreamRef> streams;
  StreamRef legacy;
  std::atomic<cudaError_t> failure{cudaSuccess};
  std::uint64_t peers_enabled = 0;  // a bit a device number, for the answers of cudaDeviceEnablePeerAccess
  std::condition_variable work;  // with runtime_lock: something may be runnable
  std::uint64_t events = 0;      // counts what `work` was notified of, so that nothing is missed while shares run
  std::thread executor;
  std::thread callbacks;         // for cudaLaunchHostFunc: may block, which the executor must not
  std::condition_variable callbacks_work;
  std::deque<OpRef> callbacks_due;
};

// The program's device `number`, or nullptr: no machine, or no such device (said on standard error, once a number).
Device* device(int number);
// A device by number for calls that take one; says why where there is none, because "more ranks than GPUs" is the
// mistake that everybody makes once.
Device* asked(int number);
// The error of a call for which there was none.
cudaError_t no_such_device();
Device* current_device();

// The error that has made the device unusable, cudaSuccess if none. Never fails itself.
cudaError_t device_failure(int number);

// Some operation is done: wakes waiting hosts and all executors. With the lock held.
void announce_done();
std::condition_variable& host_waiters();

// Starts the executor at the first operation. With the lock held.
void start_executor(Device* device);

// The process ends: nothing runs any more, and nobody may wait. With the lock held.
bool stopping();

}  // namespace hostcuda::rt

// For API functions: the calling thread's device, or return the error that stands in its way.
#define HC_DEVICE(variable)                                                       \
  ::hostcuda::rt::Device* variable = ::hostcuda::rt::current_device();           \
  if (variable == nullptr) return ::hostcuda::rt::report(                        \
      ::hostcuda::rt::machine() == nullptr ? cudaErrorInitializationError : cudaErrorNoDevice); \
  if (variable->failure != cudaSuccess) return ::hostcuda::rt::report(variable->failure)
