// SPDX-License-Identifier: Apache-2.0
#include "runtime/stream.h"

#include <algorithm>

#include "runtime/capture.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/pool.h"

namespace hostcuda::rt {
namespace {

std::optional<hostcudaOpKind_t> recorded_kind(OpKind kind) {
  switch (kind) {
    case OpKind::kernel: return hostcudaOpKernel;
    case OpKind::described: return hostcudaOpDescribed;
    case OpKind::copy: return hostcudaOpCopy;
    case OpKind::set: return hostcudaOpSet;
    case OpKind::host: return hostcudaOpHost;
    default: return std::nullopt;
  }
}

}  // namespace

std::mutex& runtime_lock() {
  static auto* lock = new std::mutex;
  return *lock;
}

std::condition_variable& host_waiters() {
  static auto* waiters = new std::condition_variable;
  return *waiters;
}

OpRef make_op(OpKind kind, std::string name) {
  auto op = std::make_shared<Op>();
  op->kind = kind;
  op->name = std::move(name);
  return op;
}

bool operator==(const Edge& a, const Edge& b) {
  return a.node == b.node && a.data.from_port == b.data.from_port && a.data.to_port == b.data.to_port &&
         a.data.type == b.data.type;
}

cudaError_t enqueue(const StreamRef& stream, const OpRef& op, Stream* launched_in) {
  if (stopping()) return cudaErrorCudartUnloading;
  if (const cudaError_t error = usable_now(*stream); error != cudaSuccess) return error;
  // The legacy default stream waits for all blocking streams of its device, and they for it.
  if (stream->legacy) {
    for (const StreamRef& other : stream->device->streams) {
      if (other != stream && (other->flags & cudaStreamNonBlocking) == 0 && other->last) {
        op->dependencies.push_back(other->last);
      }
    }
  } else if ((stream->flags & cudaStreamNonBlocking) == 0 && stream->device->legacy->last) {
    op->dependencies.push_back(stream->device->legacy->last);
  }
  Stream& told_to = launched_in != nullptr ? *launched_in : *stream;
  // Done dependencies still count for the clock: they may end later in modelled time than this thread's now.
  if (clock::HostThread* host = host_thread(); host != nullptr && op->cost) {
    std::vector<clock::OpRef> after;
    for (const OpRef& other : op->dependencies) {
      if (other->clock) after.push_back(other->clock);
    }
    try {
      op->clock = timeline().enqueue(*host, stream->clock, *op->cost, after, launched_in != nullptr);
    } catch (const std::exception& error) {
      complain("%s", error.what());
      return op->kind == OpKind::kernel || op->kind == OpKind::described ? cudaErrorInvalidConfiguration
                                                                         : cudaErrorInvalidValue;
    }
    if (const auto kind = recorded_kind(op->kind)) {
      told_to.records.add(told_to.next_sequence, *kind, op->name, op->clock);
    }
  }
  std::erase_if(op->dependencies, [](const OpRef& other) { return other->done; });
  op->sequence = told_to.next_sequence++;
  stream->queue.push_back(op);
  stream->last = op;
  start_executor(stream->device);
  ++stream->device->events;
  stream->device->work.notify_one();
  return cudaSuccess;
}

namespace {

cudaError_t outcome(Device* device, const std::vector<OpRef>& ops) {
  if (device->failure != cudaSuccess) return device->failure;
  clock::HostThread* host = host_thread();
  std::vector<clock::OpRef> placed;
  for (const OpRef& op : ops) {
    if (op && op->failed) return cudaErrorLaunchFailure;
    if (op && op->clock) placed.push_back(op->clock);
  }
  if (host == nullptr) return cudaSuccess;
  try {
    timeline().synchronized(*host, placed);
  } catch (const std::exception& error) {
    complain("%s", error.what());
    return cudaErrorUnknown;
  }
  return cudaSuccess;
}

bool all_done(const std::vector<OpRef>& ops) {
  return std::all_of(ops.begin(), ops.end(), [](const OpRef& op) { return !op || op->done; });
}

}  // namespace

bool in_callback() {
  if (t_state.callback) complain("a host function or callback called what waits for a device, which CUDA forbids");
  return t_state.callback;
}

// The lock is let go while the timeline places what was waited for, which may take long.
cudaError_t wait_for(std::unique_lock<std::mutex>& lock, Device* device, const std::vector<OpRef>& ops) {
  if (in_callback()) return cudaErrorNotPermitted;
  host_waiters().wait(lock, [&] { return stopping() || all_done(ops); });
  if (!all_done(ops)) return cudaErrorCudartUnloading;
  lock.unlock();
  trim_all();
  const cudaError_t error = outcome(device, ops);
  lock.lock();
  return error;
}

cudaError_t poll(Device* device, const OpRef& op) {
  if (device->failure != cudaSuccess) return device->failure;
  if (op && op->failed) return cudaErrorLaunchFailure;
  return op && !op->done ? cudaErrorNotReady : cudaSuccess;
}

}  // namespace hostcuda::rt
