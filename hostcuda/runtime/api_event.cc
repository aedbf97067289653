// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's events.
#include <map>

#include "runtime/device.h"
#include "runtime/error.h"

namespace hostcuda::rt {
namespace {

std::map<cudaEvent_t, std::unique_ptr<Event>>& events() {
  static auto* all = new std::map<cudaEvent_t, std::unique_ptr<Event>>;
  return *all;
}

cudaError_t create(cudaEvent_t* handle, unsigned flags) {
  constexpr unsigned kKnown = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  HC_DEVICE(here);
  if (handle == nullptr || (flags & ~kKnown) != 0) return report(cudaErrorInvalidValue);
  if ((flags & cudaEventInterprocess) != 0) return refuse_unsupported("an event shared between processes");
  auto event = std::make_unique<Event>();
  event->device = here;
  event->flags = flags;
  *handle = reinterpret_cast<cudaEvent_t>(event.get());
  std::lock_guard<std::mutex> guard(runtime_lock());
  events()[*handle] = std::move(event);
  return cudaSuccess;
}

}  // namespace

Event* find_event(cudaEvent_t handle) {
  const auto found = events().find(handle);
  return found == events().end() ? nullptr : found->second.get();
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
  if ((flags & cudaEventRecordExternal) != 0) return refuse_unsupported("recording an event as a node of a graph");
  std::lock_guard<std::mutex> guard(runtime_lock());
  Event* event = find_event(handle);
  const StreamRef stream = find_stream(stream_handle);
  if (event == nullptr || !stream || event->device != stream->device) return report(cudaErrorInvalidResourceHandle);
  const OpRef op = make_op(OpKind::record);
  op->cost = hostcuda::clock::EventRecord{};
  if (const cudaError_t error = enqueue(stream, op); error != cudaSuccess) return report(error);
  event->op = op;
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

HC_EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned flags) {
  HC_DEVICE(here);
  (void)here;
  if ((flags & cudaEventWaitExternal) != 0) return refuse_unsupported("waiting for an event as a node of a graph");
  std::lock_guard<std::mutex> guard(runtime_lock());
  const Event* event = find_event(handle);
  const StreamRef stream = find_stream(stream_handle);
  if (event == nullptr || !stream) return report(cudaErrorInvalidResourceHandle);
  if (!event->op) return cudaSuccess;
  const OpRef op = make_op(OpKind::wait);
  op->cost = hostcuda::clock::EventWait{};
  op->dependencies.push_back(event->op);
  return report(enqueue(stream, op));
}

HC_EXPORT cudaError_t cudaEventQuery(cudaEvent_t handle) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  const Event* event = find_event(handle);
  if (event == nullptr) return report(cudaErrorInvalidResourceHandle);
  return report(poll(event->device, event->op));
}

HC_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  std::unique_lock<std::mutex> lock(runtime_lock());
  Event* event = find_event(handle);
  if (event == nullptr) return report(cudaErrorInvalidResourceHandle);
  const OpRef op = event->op;
  return report(wait_for(lock, event->device, {op}));
}

HC_EXPORT cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  if (ms == nullptr) return report(cudaErrorInvalidValue);
  OpRef from, to;
  {
    std::lock_guard<std::mutex> guard(runtime_lock());
    const Event* first = find_event(start);
    const Event* second = find_event(end);
    if (first == nullptr || second == nullptr || ((first->flags | second->flags) & cudaEventDisableTiming) != 0 ||
        !first->op || !second->op) {
      return report(cudaErrorInvalidResourceHandle);
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
