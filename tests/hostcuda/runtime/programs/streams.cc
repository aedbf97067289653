// SPDX-License-Identifier: Apache-2.0
#include "check.h"

#include <vector>

constexpr int kWhile = 30;  // ms in which something that must not happen would have happened

CASE(wait_event) {
  int* cell = device_array<int>(1);
  cudaStream_t first = new_stream(), second = new_stream();
  cudaEvent_t event = new_event();
  Gate gate;
  gate.hold(first, cell, 7);
  OK(cudaEventRecord(event, first));
  OK(cudaStreamWaitEvent(second, event, 0));
  int* host;
  OK(cudaMallocHost(reinterpret_cast<void**>(&host), sizeof(int)));
  *host = 0;
  OK(cudaMemcpyAsync(host, cell, sizeof(int), cudaMemcpyDeviceToHost, second));
  sleep_ms(kWhile);
  GIVES(cudaErrorNotReady, cudaStreamQuery(second));
  CHECK(*host == 0);
  gate.open();
  OK(cudaStreamSynchronize(second));
  CHECK(*host == 7);
}

// The wait is for what the event recorded when cudaStreamWaitEvent was called, not for a later record.
CASE(wait_is_for_the_record_so_far) {
  cudaStream_t first = new_stream(), second = new_stream();
  cudaEvent_t event = new_event();
  OK(cudaEventRecord(event, first));
  OK(cudaStreamWaitEvent(second, event, 0));
  Gate gate;
  gate.hold(first);
  OK(cudaEventRecord(event, first));
  OK(cudaStreamSynchronize(second));  // hangs if it waits for the second record
  GIVES(cudaErrorNotReady, cudaEventQuery(event));
  gate.open();
  OK(cudaEventSynchronize(event));
}

// An event captures what the stream had when it was recorded: no more, no less.
CASE(record_is_where_it_was_called) {
  cudaStream_t stream = new_stream(), other = new_stream();
  cudaEvent_t before = new_event(), between = new_event();
  Gate first, second;
  OK(cudaEventRecord(before, stream));
  first.hold(stream);
  OK(cudaEventRecord(between, stream));
  second.hold(stream);
  OK(cudaEventSynchronize(before));
  GIVES(cudaErrorNotReady, cudaEventQuery(between));
  first.open();
  OK(cudaEventSynchronize(between));  // hangs if it waits for the second kernel too
  GIVES(cudaErrorNotReady, cudaStreamQuery(stream));
  OK(cudaStreamWaitEvent(other, between, 0));
  OK(cudaStreamSynchronize(other));
  second.open();
  OK(cudaStreamSynchronize(stream));
}

CASE(events_never_recorded) {
  cudaStream_t stream = new_stream();
  cudaEvent_t never = new_event(), timing = new_event();
  OK(cudaEventQuery(never));
  OK(cudaEventSynchronize(never));
  OK(cudaStreamWaitEvent(stream, never, 0));
  OK(cudaStreamSynchronize(stream));
  OK(cudaEventRecord(timing, stream));
  OK(cudaEventSynchronize(timing));
  float ms;
  GIVES(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, never, timing));
  GIVES(cudaErrorInvalidValue, cudaEventElapsedTime(nullptr, timing, timing));
}

CASE(kinds_of_events) {
  cudaStream_t stream = new_stream();
  cudaEvent_t waiting = new_event(cudaEventBlockingSync), bad, timing = new_event();
  Gate gate;
  OK(cudaEventRecord(timing, stream));
  gate.hold(stream);
  OK(cudaEventRecord(waiting, stream));
  float ms = -1;
  GIVES(cudaErrorNotReady, cudaEventElapsedTime(&ms, timing, waiting));
  std::thread opener([&] {
    sleep_ms(kWhile);
    gate.open();
  });
  OK(cudaEventSynchronize(waiting));
  CHECK(gate.is_open == 1);
  opener.join();
  OK(cudaEventElapsedTime(&ms, timing, waiting));
  CHECK(ms >= 0);
  OK(cudaEventElapsedTime(&ms, timing, timing));
  CHECK(ms == 0);
  GIVES(cudaErrorInvalidValue, cudaEventCreateWithFlags(&bad, 0x100));
  GIVES(cudaErrorInvalidValue, cudaEventRecordWithFlags(timing, stream, 0x100));
  GIVES(cudaErrorInvalidValue, cudaStreamWaitEvent(stream, timing, 0x100));
  OK(cudaSetDevice(1));
  cudaEvent_t elsewhere = new_event();
  GIVES(cudaErrorInvalidResourceHandle, cudaEventRecord(elsewhere, stream));  // of another device
  OK(cudaEventRecord(elsewhere, cudaStreamLegacy));
  OK(cudaEventSynchronize(elsewhere));
  GIVES(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, timing, elsewhere));
  OK(cudaEventDestroy(timing));
  GIVES(cudaErrorInvalidResourceHandle, cudaEventDestroy(timing));
}

CASE(wait_across_devices) {
  OK(cudaSetDevice(1));
  cudaStream_t there = new_stream();
  OK(cudaSetDevice(0));
  cudaStream_t here = new_stream();
  cudaEvent_t event = new_event();
  Gate gate;
  gate.hold(here);
  OK(cudaEventRecord(event, here));
  OK(cudaStreamWaitEvent(there, event, 0));
  sleep_ms(kWhile);
  GIVES(cudaErrorNotReady, cudaStreamQuery(there));
  gate.open();
  OK(cudaStreamSynchronize(there));
}

CASE(queries_are_honest) {
  cudaStream_t stream = new_stream();
  cudaEvent_t event = new_event();
  OK(cudaEventQuery(event));  // nothing recorded
  OK(cudaStreamQuery(stream));
  Gate gate;
  gate.hold(stream);
  OK(cudaEventRecord(event, stream));
  for (int i = 0; i < kWhile; ++i) {
    GIVES(cudaErrorNotReady, cudaEventQuery(event));
    GIVES(cudaErrorNotReady, cudaStreamQuery(stream));
    sleep_ms(1);
  }
  gate.open();
  OK(cudaEventSynchronize(event));
  OK(cudaEventQuery(event));
  OK(cudaStreamQuery(stream));
}

CASE(host_functions_in_order) {
  cudaStream_t stream = new_stream();
  static std::vector<int> calls;
  static int* cell = device_array<int>(1);
  static std::atomic<int> seen{0};
  Gate gate;
  gate.hold(stream, cell, 5);
  for (int i = 0; i < 3; ++i) {
    OK(cudaLaunchHostFunc(
        stream, [](void* i) { calls.push_back(static_cast<int>(reinterpret_cast<intptr_t>(i))); sleep_ms(5); },
        reinterpret_cast<void*>(static_cast<intptr_t>(i))));
  }
  OK(cudaLaunchHostFunc(stream, [](void*) { seen = *cell; }, nullptr));
  OK(cudaMemsetAsync(cell, 0, sizeof(int), stream));  // after the functions
  sleep_ms(kWhile);
  CHECK(calls.empty());
  gate.open();
  OK(cudaStreamSynchronize(stream));
  CHECK((calls == std::vector<int>{0, 1, 2}));
  CHECK(seen == 5);
  CHECK(*cell == 0);
}

// A host function may wait for the program while other streams go on.
CASE(host_function_that_blocks) {
  cudaStream_t first = new_stream(), second = new_stream();
  static std::atomic<int> go{0};
  OK(cudaLaunchHostFunc(first, [](void*) { while (go == 0) sleep_ms(1); }, nullptr));
  int* cell = device_array<int>(1);
  OK(cudaMemsetAsync(cell, 0x11, sizeof(int), second));
  OK(cudaStreamSynchronize(second));
  CHECK(read(cell, second) == 0x11111111);
  GIVES(cudaErrorNotReady, cudaStreamQuery(first));
  go = 1;
  OK(cudaStreamSynchronize(first));
}

// A stream's functions are called in its order, each once, also where other streams have some too.
CASE(host_functions_of_several_streams) {
  static std::vector<int> calls[3];
  cudaStream_t streams[3] = {new_stream(), new_stream(), new_stream()};
  for (int i = 0; i < 300; ++i) {
    OK(cudaLaunchHostFunc(
        streams[i % 3], [](void* i) {
          const int number = static_cast<int>(reinterpret_cast<intptr_t>(i));
          calls[number % 3].push_back(number);
        },
        reinterpret_cast<void*>(static_cast<intptr_t>(i))));
  }
  OK(cudaDeviceSynchronize());
  for (int stream = 0; stream < 3; ++stream) {
    CHECK(calls[stream].size() == 100);
    for (int i = 0; i < 100; ++i) CHECK(calls[stream][static_cast<size_t>(i)] == 3 * i + stream);
  }
}

CASE(stream_callbacks) {
  static cudaStream_t stream;
  stream = new_stream();
  static std::vector<int> calls;
  const auto called = [](cudaStream_t in, cudaError_t status, void* what) {
    CHECK(in == stream);
    OK(status);
    calls.push_back(static_cast<int>(reinterpret_cast<intptr_t>(what)));
  };
  Gate gate;
  gate.hold(stream);
  OK(cudaStreamAddCallback(stream, called, reinterpret_cast<void*>(1), 0));
  OK(cudaLaunchHostFunc(stream, [](void*) { calls.push_back(2); }, nullptr));
  OK(cudaStreamAddCallback(stream, called, reinterpret_cast<void*>(3), 0));
  GIVES(cudaErrorInvalidValue, cudaStreamAddCallback(stream, called, nullptr, 1));
  GIVES(cudaErrorInvalidValue, cudaStreamAddCallback(stream, nullptr, nullptr, 0));
  GIVES(cudaErrorInvalidValue, cudaLaunchHostFunc(stream, nullptr, nullptr));
  sleep_ms(kWhile);
  CHECK(calls.empty());
  gate.open();
  OK(cudaStreamSynchronize(stream));
  CHECK((calls == std::vector<int>{1, 2, 3}));
}

CASE(memset_in_order) {
  cudaStream_t stream = new_stream();
  int* cell = device_array<int>(1);
  Gate gate;
  gate.hold(stream, cell, 5);
  OK(cudaMemsetAsync(cell, 0x22, sizeof(int), stream));
  sleep_ms(kWhile);
  CHECK(*cell == 0);  // fresh memory; neither has happened
  gate.open();
  OK(cudaStreamSynchronize(stream));
  CHECK(*cell == 0x22222222);
}

CASE(memset_zero_of_a_large_range) {
  constexpr size_t kBytes = (3 << 20) + 77;
  cudaStream_t stream = new_stream();
  auto* bytes = device_array<unsigned char>(kBytes + 2);
  OK(cudaMemsetAsync(bytes, 0xff, kBytes + 2, stream));
  OK(cudaMemsetAsync(bytes + 1, 0, kBytes, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(bytes[0] == 0xff && bytes[kBytes + 1] == 0xff);
  for (size_t i = 1; i <= kBytes; ++i) CHECK(bytes[i] == 0);
}

CASE(pageable_source_is_staged) {
  constexpr int kCount = 1 << 20;
  cudaStream_t stream = new_stream();
  int* on_device = device_array<int>(kCount);
  std::vector<int> source(kCount, 1);
  Gate gate;
  gate.hold(stream);
  OK(cudaMemcpyAsync(on_device, source.data(), kCount * sizeof(int), cudaMemcpyHostToDevice, stream));
  std::fill(source.begin(), source.end(), 2);
  gate.open();
  OK(cudaStreamSynchronize(stream));
  for (int i = 0; i < kCount; ++i) CHECK(on_device[i] == 1);
}

CASE(pinned_source_is_read_in_order) {
  cudaStream_t stream = new_stream();
  int* on_device = device_array<int>(1);
  int* pinned;
  OK(cudaMallocHost(reinterpret_cast<void**>(&pinned), sizeof(int)));
  *pinned = 1;
  Gate gate;
  gate.hold(stream);
  OK(cudaMemcpyAsync(on_device, pinned, sizeof(int), cudaMemcpyHostToDevice, stream));
  *pinned = 2;
  gate.open();
  OK(cudaStreamSynchronize(stream));
  CHECK(*on_device == 2);
}

CASE(pageable_destination_is_complete) {
  cudaStream_t stream = new_stream();
  int* on_device = device_array<int>(1);
  Gate gate;
  gate.hold(stream, on_device, 9);
  std::thread opener([&] {
    sleep_ms(kWhile);
    gate.open();
  });
  int value = 0;
  OK(cudaMemcpyAsync(&value, on_device, sizeof value, cudaMemcpyDeviceToHost, stream));
  CHECK(value == 9);
  opener.join();
}

CASE(large_copies) {
  constexpr size_t kCount = 5 << 20;
  cudaStream_t stream = new_stream();
  int *a = device_array<int>(kCount), *b = device_array<int>(kCount);
  std::vector<int> source(kCount), back(kCount);
  for (size_t i = 0; i < kCount; ++i) source[i] = static_cast<int>(i * 2654435761u);
  OK(cudaMemcpy(a, source.data(), kCount * 4, cudaMemcpyHostToDevice));
  OK(cudaMemcpyAsync(b, a, kCount * 4, cudaMemcpyDeviceToDevice, stream));
  OK(cudaMemcpyAsync(back.data(), b, kCount * 4, cudaMemcpyDeviceToHost, stream));
  CHECK(back == source);
}

CASE(legacy_default_stream) {
  cudaStream_t blocking = new_stream(cudaStreamDefault), apart = new_stream(cudaStreamNonBlocking);
  int* cell = device_array<int>(1);
  Gate gate;
  gate.hold(blocking, cell, 3);
  OK(cudaMemsetAsync(cell, 0x33, sizeof(int), nullptr));  // waits for the blocking stream
  cudaEvent_t later = new_event();
  cudaStream_t other = new_stream(cudaStreamDefault);
  OK(cudaEventRecord(later, other));  // waits for the default stream
  OK(cudaMemsetAsync(device_array<int>(1), 0, sizeof(int), apart));
  OK(cudaStreamSynchronize(apart));  // minds neither
  sleep_ms(kWhile);
  GIVES(cudaErrorNotReady, cudaStreamQuery(nullptr));
  GIVES(cudaErrorNotReady, cudaEventQuery(later));
  CHECK(*cell == 0);
  gate.open();
  OK(cudaEventSynchronize(later));
  CHECK(*cell == 0x33333333);
}

CASE(per_thread_default_stream) {
  Gate gate;
  gate.hold(cudaStreamPerThread);
  GIVES(cudaErrorNotReady, cudaStreamQuery(cudaStreamPerThread));
  std::thread([] { OK(cudaStreamQuery(cudaStreamPerThread)); }).join();
  gate.open();
  OK(cudaStreamSynchronize(cudaStreamPerThread));
}

CASE(streams_run_side_by_side) {
  cudaStream_t first = new_stream(), second = new_stream();
  Gate gate, other;
  gate.hold(first, nullptr, 0, 2, 64);
  other.hold(second, nullptr, 0, 2, 64);
  other.open();
  OK(cudaStreamSynchronize(second));
  GIVES(cudaErrorNotReady, cudaStreamQuery(first));
  gate.open();
  OK(cudaDeviceSynchronize());
  OK(cudaStreamQuery(first));
}

CASE(destroyed_stream_finishes) {
  cudaStream_t stream = new_stream();
  int* cell = device_array<int>(1);
  cudaEvent_t event = new_event();
  Gate gate;
  gate.hold(stream, cell, 4);
  OK(cudaEventRecord(event, stream));
  OK(cudaStreamDestroy(stream));
  GIVES(cudaErrorInvalidResourceHandle, cudaStreamQuery(stream));
  gate.open();
  OK(cudaEventSynchronize(event));
  CHECK(*cell == 4);
}

CASE(free_waits_for_the_device) {
  cudaStream_t stream = new_stream();
  int* cell = device_array<int>(1);
  Gate gate;
  gate.hold(stream, cell, 4);
  std::thread opener([&] {
    sleep_ms(kWhile);
    gate.open();
  });
  OK(cudaFree(cell));
  CHECK(gate.is_open == 1);
  opener.join();
}

CASE(idle_wait_is_cheap) {
  cudaStream_t stream = new_stream();
  Gate gate;
  gate.hold(stream, nullptr, 0, 8, 512);
  sleep_ms(300);  // until the pauses have grown
  const double before = cpu_s();
  sleep_ms(2000);
  const double share = (cpu_s() - before) / 2.0;
  gate.open();
  OK(cudaStreamSynchronize(stream));
  std::printf("%.4f\n", share);
  CHECK(share < 0.5);  // a thread that spins would have 1; `lagom bench host` measures how little it is
}

CASE(work_in_flight_at_exit) {
  static Gate gate;
  gate.hold(new_stream(), nullptr, 0, 2, 64);
  sleep_ms(10);
}

int main(int argc, char** argv) { return run_case(argc, argv); }
