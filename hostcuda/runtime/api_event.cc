// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's events.
#include <map>

#include "runtime/capture.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/task.h"

namespace hostcuda::rt {
namespace {

std::map<cudaEvent_t, EventRef>& events() {
  static auto* all = new std::map<cudaEvent_t, EventRef>;
  return *all;
}

cudaError_t create(cudaEvent_t* handle, unsigned flags) {
  constexpr unsigned kKnown = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  HC_DEVICE(here);
  if (handle == nullptr || (flags & ~kKnown) != 0) return report(cudaErrorInvalidValue);
  if ((flags & cudaEventInterprocess) != 0) return refuse_unsupported("an event shared between processes");
  auto event = std::make_shared<Event>();
  event->device = here;
  event->flags = flags;
  *handle = reinterpret_cast<cudaEvent_t>(event.get());
  std::lock_guard<std::mutex> guard(runtime_lock());
  events()[*handle] = std::move(event);
  return cudaSuccess;
}

}  // namespace

EventRef find_event(cudaEvent_t handle) {
  const auto found = events().find(handle);
  return found == events().end() ? nullptr : found->second;
}

}  // namespace hostcuda::rt

using namespace hostcuda::rt;

HC_EXPORT cudaError_t cudaEventCreate(cudaEvent_t* handle) { return create(handle, cudaEventDefault); }
HC_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned flags) { return create(handle, flags); }

HC_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  return report(events().erase(handle) == 1 ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

HC_EXPORT cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream_handle, unsigned flags) {
  HC_DEVICE(here);
  (void)here;
  if ((flags & ~static_cast<unsigned>(cudaEventRecordExternal)) != 0) return report(cudaErrorInvalidValue);
  const bool external = (flags & cudaEventRecordExternal) != 0;
  std::lock_guard<std::mutex> guard(runtime_lock());
  const EventRef event = find_event(handle);
  const StreamRef stream = find_stream(stream_handle);
  if (event == nullptr || !stream || event->device != stream->device) return report(cudaErrorInvalidResourceHandle);
  if (external && !stream->capture) return report(cudaErrorInvalidValue);  // means nothing outside of a capture
  if (!stream->capture || external) return report(submit(stream, RecordTask{event}));
  if (stream->capture->invalidated) return report(cudaErrorStreamCaptureInvalidated);
  event->captured = {stream->capture, stream->capture_tail};
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

HC_EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned flags) {
  HC_DEVICE(here);
  (void)here;
  if ((flags & ~static_cast<unsigned>(cudaEventWaitExternal)) != 0) return report(cudaErrorInvalidValue);
  const bool external = (flags & cudaEventWaitExternal) != 0;
  std::lock_guard<std::mutex> guard(runtime_lock());
  const EventRef event = find_event(handle);
  const StreamRef stream = find_stream(stream_handle);
  if (event == nullptr || !stream) return report(cudaErrorInvalidResourceHandle);
  if (external && !stream->capture) return report(cudaErrorInvalidValue);  // means nothing outside of a capture
  cudaError_t error;
  if (!external && captures_wait(stream, event, &error)) return report(error);
  if (!external && !event->op) return cudaSuccess;
  return report(submit(stream, WaitTask{event}));
}

// For calls that look at whether an event has happened: it under the lock, or the error.
#define HC_OBSERVED_EVENT(event, handle)                                                        \
  std::unique_lock<std::mutex> lock(runtime_lock());                                            \
  const EventRef event = find_event(handle);                                                    \
  if (event == nullptr) return report(cudaErrorInvalidResourceHandle);                          \
  if (const cudaError_t error = observable(event); error != cudaSuccess) return report(error)

HC_EXPORT cudaError_t cudaEventQuery(cudaEvent_t handle) {
  HC_OBSERVED_EVENT(event, handle);
  return report(poll(event->device, event->op));
}

HC_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  HC_OBSERVED_EVENT(event, handle);
  const OpRef op = event->op;
  return report(wait_for(lock, event->device, {op}));
}

HC_EXPORT cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  if (ms == nullptr) return report(cudaErrorInvalidValue);
  OpRef from, to;
  {
    std::lock_guard<std::mutex> guard(runtime_lock());
    const EventRef first = find_event(start), second = find_event(end);
    if (first == nullptr || second == nullptr || first->device != second->device ||
        ((first->flags | second->flags) & cudaEventDisableTiming) != 0) {
      return report(cudaErrorInvalidResourceHandle);
    }
    for (const EventRef& event : {first, second}) {
      if (const cudaError_t error = observable(event); error != cudaSuccess) return report(error);
      if (!event->op) return report(cudaErrorInvalidResourceHandle);
    }
    if (!first->op->done || !second->op->done) return report(cudaErrorNotReady);
    from = first->op;
    to = second->op;
  }
  hostcuda::clock::HostThread* host = host_thread();
  if (host == nullptr || !from->clock || !to->clock) {
    complain("cudaEventElapsedTime: an event that a helper thread recorded has no modelled time");
    return report(cudaErrorInvalidResourceHandle);
  }
  try {
    const std::uint64_t from_ps = timeline().times(*host, from->clock).end_ps;
    const std::uint64_t to_ps = timeline().times(*host, to->clock).end_ps;
    *ms = static_cast<float>((static_cast<double>(to_ps) - static_cast<double>(from_ps)) / 1e9);
  } catch (const std::exception& error) {
    complain("%s", error.what());
    return report(cudaErrorUnknown);
  }
  return cudaSuccess;
}
