// SPDX-License-Identifier: Apache-2.0
// The thread behind a device. It takes the heads of all streams in turn, runs a share of each that may run, and sleeps
// when there is nothing to run. Grids that wait for another rank only poll; then it sleeps as well, a share of the time
// that it has waited, so that an idle rank costs little and a short wait stays short.
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>
#include <stdexcept>

#include "runtime/device.h"
#include "runtime/error.h"

namespace hostcuda::rt {
namespace {

using Time = std::chrono::steady_clock::time_point;
using std::chrono::nanoseconds;

bool g_stopping = false;  // with the lock: the process ends
pid_t g_process = 0;      // whose threads the executors are
std::vector<Device*>& running_devices() {
  static auto* devices = new std::vector<Device*>;
  return *devices;
}

// How long to sleep before the next look at grids that only poll. A wait of t is noticed at most t/8 late, and once the
// pauses are long looking and waking up take no more than 1/30 of the time.
class Patience {
 public:
  void progress() { waiting_ = false; }

  nanoseconds pause(nanoseconds look) {
    const Time now = std::chrono::steady_clock::now();
    if (!waiting_) {
      waiting_ = true;
      since_ = now;
    }
    const nanoseconds waited = now - since_;
    return std::min({nanoseconds(waited / 8), (look + kWakeUp) * kLooks, nanoseconds(kLongest)});
  }

 private:
  static constexpr int kLooks = 30;
  static constexpr std::chrono::microseconds kWakeUp{15};
  static constexpr std::chrono::milliseconds kLongest{20};
  bool waiting_ = false;
  Time since_;
};

constexpr std::chrono::microseconds kShortestSleep{20};  // below, giving the core away once is enough

bool is_ready(const Op& op) {
  return std::all_of(op.dependencies.begin(), op.dependencies.end(), [](const OpRef& other) { return other->done; });
}

// What a stream remembers of its last operation is that it is done; a staged copy must not live as long.
void mark_done(const OpRef& op) {
  op->done = true;
  op->dependencies.clear();
  op->work = nullptr;
}

void finish(const StreamRef& stream, const OpRef& op) {
  mark_done(op);
  if (op->start_event && !op->start_event->done) mark_done(op->start_event);
  stream->queue.pop_front();
  announce_done();
}

void fail(Device* device, cudaError_t error, const Op& op, const std::string& why) {
  device->failure = error;
  const char* what = op.kind == OpKind::kernel ? "kernel " : "";
  complain("device %d: %s%s failed: %s", device->number, what, op.name.c_str(), why.c_str());
}

// One share of a kernel, with the lock released while device code runs.
simt::Progress run_grid(std::unique_lock<std::mutex>& lock, Device* device, const OpRef& op) {
  if (op->running == nullptr) {
    lock.unlock();
    simt::Grid* grid = nullptr;
    std::string why;
    cudaError_t error = cudaErrorLaunchFailure;
    try {
      if (op->clock) op->grid.clock = timeline().start_grid(op->clock);
      grid = simt::grid_create(std::move(op->grid));
    } catch (const std::bad_alloc&) {
      error = cudaErrorLaunchOutOfResources;
      why = "no memory for the stacks of its threads";
    } catch (const std::exception& refused) {
      why = refused.what();
    }
    lock.lock();
    if (grid == nullptr) {
      fail(device, error, *op, why);
      return simt::Progress::finished;
    }
    op->running = grid;
    if (op->start_event) {
      mark_done(op->start_event);
      announce_done();
    }
  }
  lock.unlock();
  const simt::Progress progress = simt::grid_run(op->running);
  if (progress != simt::Progress::finished) {
    lock.lock();
    return progress;
  }
  simt::GridResult result = simt::grid_result(op->running);
  simt::grid_destroy(op->running);
  try {
    if (op->clock && !result.failed) timeline().executed(op->clock, result);
  } catch (const std::exception& refused) {
    result.failed = true;
    result.error = refused.what();
  }
  lock.lock();
  op->running = nullptr;
  if (result.failed) fail(device, cudaErrorLaunchFailure, *op, result.error);
  return progress;
}

// A share of work of ours, with the lock released; whether it was the last.
bool run_work(std::unique_lock<std::mutex>& lock, Device* device, const OpRef& op) {
  lock.unlock();
  bool finished = true;
  std::string why;
  try {
    finished = op->work();
  } catch (const std::exception& refused) {
    why = refused.what();
  }
  lock.lock();
  if (!why.empty()) fail(device, cudaErrorIllegalAddress, *op, why);
  return finished;
}

void run_callbacks(Device* device) {
  t_state.helper = true;  // what a callback does is not in the program's order
  t_state.callback = true;
  t_state.device = device->number;
  std::unique_lock<std::mutex> lock(runtime_lock());
  while (!g_stopping) {
    if (device->callbacks_due.empty()) {
      device->callbacks_work.wait(lock);
      continue;
    }
    const OpRef op = device->callbacks_due.front();
    device->callbacks_due.pop_front();
    lock.unlock();
    op->work();
    lock.lock();
    op->called_back = true;
    announce_done();
  }
}

simt::Progress run_share(std::unique_lock<std::mutex>& lock, Device* device, const OpRef& op) {
  if (device->failure != cudaSuccess && op->running == nullptr && !op->handed_over) {
    op->failed = true;
    if (!op->despite_failure) return simt::Progress::finished;
  }
  switch (op->kind) {
    case OpKind::kernel:
      return run_grid(lock, device, op);
    case OpKind::copy:
    case OpKind::set:
    case OpKind::release:
      return run_work(lock, device, op) ? simt::Progress::finished : simt::Progress::some;
    case OpKind::memory:
      return run_work(lock, device, op) ? simt::Progress::finished : simt::Progress::none;
    case OpKind::host:
      if (op->called_back) return simt::Progress::finished;
      if (op->handed_over) return simt::Progress::none;
      op->handed_over = true;
      device->callbacks_due.push_back(op);
      if (!device->callbacks.joinable()) device->callbacks = std::thread(run_callbacks, device);
      device->callbacks_work.notify_one();
      return simt::Progress::none;
    case OpKind::described:
    case OpKind::record:
    case OpKind::wait:
      break;
  }
  return simt::Progress::finished;
}

void run_device(Device* device) {
  ::prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);  // ns: short sleeps should be short
  t_state.device = device->number;
  t_state.helper = true;
  Patience patience;
  std::vector<StreamRef> streams;
  std::unique_lock<std::mutex> lock(runtime_lock());
  while (!g_stopping) {
    const std::uint64_t seen = device->events;
    const Time start = std::chrono::steady_clock::now();
    bool progressed = false, polling = false;
    streams = device->streams;
    for (const StreamRef& stream : streams) {
      while (!g_stopping && !stream->queue.empty()) {
        const OpRef op = stream->queue.front();
        if (!is_ready(*op)) break;
        const simt::Progress step = run_share(lock, device, op);
        if (step == simt::Progress::finished) {
          finish(stream, op);
          progressed = true;
          continue;
        }
        progressed |= step == simt::Progress::some;
        polling |= op->running != nullptr || op->kind == OpKind::memory;
        break;
      }
    }
    std::erase_if(device->streams, [](const StreamRef& stream) { return stream->destroyed && stream->queue.empty(); });
    streams.clear();
    if (progressed) {
      patience.progress();
    } else if (device->events == seen && !polling) {
      patience.progress();
      device->work.wait(lock);
    } else if (device->events == seen) {
      const nanoseconds pause = patience.pause(std::chrono::steady_clock::now() - start);
      if (pause < kShortestSleep) {
        lock.unlock();
        ::sched_yield();
        lock.lock();
      } else {
        device->work.wait_for(lock, pause);
      }
    }
  }
}

// Of a fork only the calling thread survives, and our memory stays shared with the parent: as with CUDA, the child
// cannot use devices that the parent has used.
void lose_devices() {
  for (Device* device : running_devices()) device->failure = cudaErrorInitializationError;
}

// Runs before the destructors of libraries that were loaded when the first operation came, so that no device code runs
// on their remains.
void stop_all() {
  if (::getpid() != g_process) return;
  std::vector<Device*> devices;
  {
    std::lock_guard<std::mutex> guard(runtime_lock());
    g_stopping = true;
    devices = running_devices();
    for (Device* device : devices) {
      device->work.notify_all();
      device->callbacks_work.notify_all();
    }
    host_waiters().notify_all();
  }
  for (Device* device : devices) {
    for (std::thread* thread : {&device->executor, &device->callbacks}) {
      if (!thread->joinable()) continue;
      // A callback may be what ends the process, or may never return.
      if (thread == &device->callbacks || thread->get_id() == std::this_thread::get_id()) {
        thread->detach();
      } else {
        thread->join();
      }
    }
  }
}

}  // namespace

bool stopping() { return g_stopping; }

void announce_done() {
  host_waiters().notify_all();
  for (Device* device : running_devices()) {
    ++device->events;
    device->work.notify_one();
  }
}

void start_executor(Device* device) {
  if (device->executor.joinable() || g_stopping) return;
  if (running_devices().empty()) {
    g_process = ::getpid();
    std::atexit(stop_all);
    ::pthread_atfork(nullptr, nullptr, lose_devices);
  }
  running_devices().push_back(device);
  device->executor = std::thread(run_device, device);
}

}  // namespace hostcuda::rt
