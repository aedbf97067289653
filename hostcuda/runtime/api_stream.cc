// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's streams, and host functions in them.
#include <algorithm>
#include <map>
#include <thread>

#include "runtime/attributes.h"
#include "runtime/capture.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/task.h"

namespace hostcuda::rt {
namespace {

std::map<cudaStream_t, StreamRef>& streams() {
  static auto* all = new std::map<cudaStream_t, StreamRef>;
  return *all;
}

// Streams that helper threads make are numbered apart: when they do is no part of the program, and the clock breaks
// ties by these numbers.
std::uint64_t next_id() {
  static std::uint64_t program = 1, helpers = std::uint64_t{1} << 32;
  return t_state.helper ? helpers++ : program++;
}

StreamRef per_thread_stream(Device* device) {
  static auto* known = new std::map<std::pair<std::thread::id, int>, StreamRef>;
  StreamRef& stream = (*known)[{std::this_thread::get_id(), device->number}];
  if (!stream) stream = make_stream(device, cudaStreamDefault, kLeastPriority);
  return stream;
}

cudaError_t create(cudaStream_t* handle, unsigned flags, int priority) {
  HC_DEVICE(here);
  if (handle == nullptr || (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) != 0) {
    return report(cudaErrorInvalidValue);
  }
  std::lock_guard<std::mutex> guard(runtime_lock());
  StreamRef stream = make_stream(here, flags, priority);
  *handle = reinterpret_cast<cudaStream_t>(stream.get());
  streams()[*handle] = std::move(stream);
  return cudaSuccess;
}

}  // namespace

StreamRef make_stream(Device* device, unsigned flags, int priority) {
  auto stream = std::make_shared<Stream>();
  stream->device = device;
  stream->flags = flags;
  stream->priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
  stream->id = next_id();
  stream->clock.device = device->place;
  stream->clock.id = stream->id;
  stream->clock.priority = stream->priority;
  device->streams.push_back(stream);
  return stream;
}

void retire_stream(const StreamRef& stream) {
  leave_capture(*stream);
  stream->destroyed = true;  // what is in it still runs, and the executor lets go of it then
  if (stream->queue.empty()) std::erase(stream->device->streams, stream);
}

StreamRef find_stream(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread) {
    Device* here = current_device();
    if (here == nullptr) return nullptr;
    return handle == cudaStreamPerThread ? per_thread_stream(here) : here->legacy;
  }
  const auto found = streams().find(handle);
  return found == streams().end() ? nullptr : found->second;
}

}  // namespace hostcuda::rt

using namespace hostcuda::rt;

HC_EXPORT cudaError_t cudaStreamCreate(cudaStream_t* handle) {
  return create(handle, cudaStreamDefault, kLeastPriority);
}

HC_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned flags) {
  return create(handle, flags, kLeastPriority);
}

HC_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned flags, int priority) {
  return create(handle, flags, priority);
}

HC_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  const auto found = streams().find(handle);
  if (found == streams().end()) return report(cudaErrorInvalidResourceHandle);
  const StreamRef stream = std::move(found->second);
  streams().erase(found);
  retire_stream(stream);
  return cudaSuccess;
}

// For the calls on one stream that follow: its reference under the lock, or the error.
#define HC_STREAM(stream, handle)                                                  \
  HC_DEVICE(here);                                                                 \
  (void)here;                                                                      \
  std::unique_lock<std::mutex> lock(runtime_lock());                               \
  const StreamRef stream = find_stream(handle);                                    \
  if (!stream) return report(cudaErrorInvalidResourceHandle)

// For those that look at what has happened in it.
#define HC_OBSERVED_STREAM(stream, handle)                                                     \
  HC_STREAM(stream, handle);                                                                   \
  if (const cudaError_t error = observable(stream); error != cudaSuccess) return report(error)

HC_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  HC_OBSERVED_STREAM(stream, handle);
  return report(wait_for(lock, stream->device, {stream->last}));
}

HC_EXPORT cudaError_t cudaStreamQuery(cudaStream_t handle) {
  HC_OBSERVED_STREAM(stream, handle);
  // Programs spin on this one until the stream is done; what finds it done is a synchronization.
  const cudaError_t state = poll(stream->device, stream->last);
  return report(state == cudaSuccess ? wait_for(lock, stream->device, {stream->last}) : state);
}

HC_EXPORT cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  HC_STREAM(stream, handle);
  if (id == nullptr) return report(cudaErrorInvalidValue);
  *id = stream->id;
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  HC_STREAM(stream, handle);
  if (flags == nullptr) return report(cudaErrorInvalidValue);
  *flags = stream->flags;
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  HC_STREAM(stream, handle);
  if (priority == nullptr) return report(cudaErrorInvalidValue);
  *priority = stream->priority;
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* number) {
  HC_STREAM(stream, handle);
  if (number == nullptr) return report(cudaErrorInvalidValue);
  *number = stream->device->number;
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  HC_STREAM(stream, handle);
  if (function == nullptr) return report(cudaErrorInvalidValue);
  return report(submit(stream, HostTask{function, argument}));
}

HC_EXPORT cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t function, void* argument,
                                            unsigned flags) {
  HC_STREAM(stream, handle);
  if (function == nullptr || flags != 0) return report(cudaErrorInvalidValue);
  // Unlike a host function it is called where the device has failed too, and told so.
  const OpRef op = make_op(OpKind::host, "stream callback");
  op->cost = hostcuda::clock::HostFunction{};
  op->despite_failure = true;
  op->work = [function, handle, argument, device = stream->device] {
    function(handle, device->failure, argument);
    return true;
  };
  return report(enqueue(stream, op));
}

HC_EXPORT cudaError_t hostcudaStreamMark(cudaStream_t handle, uint64_t* mark) {
  HC_STREAM(stream, handle);
  if (mark == nullptr) return report(cudaErrorInvalidValue);
  stream->records.keep();
  *mark = stream->next_sequence;
  return cudaSuccess;
}

HC_EXPORT cudaError_t hostcudaStreamOpTimes(cudaStream_t handle, uint64_t mark, hostcudaOpTime_t* times,
                                            size_t capacity, size_t* count) {
  HC_STREAM(stream, handle);
  hostcuda::clock::HostThread* host = host_thread();
  if (count == nullptr || (times == nullptr && capacity != 0) || host == nullptr) return report(cudaErrorInvalidValue);
  if (const cudaError_t error = wait_for(lock, stream->device, {stream->last}); error != cudaSuccess) {
    return report(error);
  }
  const std::vector<hostcudaOpTime_t> found = stream->records.since(mark, *host);
  *count = found.size();
  std::copy_n(found.begin(), std::min(capacity, found.size()), times);
  return cudaSuccess;
}
