// SPDX-License-Identifier: Apache-2.0
#include "check.h"

#include <vector>

void describe(cudaStream_t stream, double flops = 1e9, const char* name = "product") {
  hostcudaKernel_t kernel{};
  kernel.size = sizeof kernel;
  kernel.version = HOSTCUDA_KERNEL_VERSION;
  kernel.name = name;
  kernel.flops = flops;
  kernel.bytes_read = kernel.bytes_written = 1e6;
  kernel.ctas = 84;
  kernel.threads_per_cta = 256;
  kernel.registers_per_thread = 64;
  OK(hostcudaLaunchDescribed(&kernel, stream));
}

// Events, copies and kernels over two streams, with pauses of the CPU that must not show. Prints every modelled time.
CASE(program) {
  cudaStream_t first = new_stream(), second = new_stream();
  char* bytes = device_array<char>(8 << 20);
  std::vector<char> host(8 << 20);
  std::vector<cudaEvent_t> events;
  const auto record = [&](cudaStream_t stream) {
    events.push_back(new_event());
    OK(cudaEventRecord(events.back(), stream));
  };
  srand(static_cast<unsigned>(std::chrono::steady_clock::now().time_since_epoch().count()));
  record(first);
  for (int round = 0; round < 5; ++round) {
    describe(first, 3e9);
    record(first);
    OK(cudaMemcpyAsync(bytes, host.data(), 1 << (20 + round % 3), cudaMemcpyHostToDevice, second));
    OK(cudaStreamWaitEvent(second, events.back(), 0));
    sleep_ms(rand() % 5);
    describe(second, 2e9);
    record(second);
    while (rand() % 3 != 0) {
      OK(cudaPeekAtLastError());
      (void)cudaEventQuery(events.back());  // whatever it answers
      (void)cudaGetLastError();
    }
    if (round % 2 == 1) OK(cudaStreamSynchronize(second));
    std::printf("host %llu\n", static_cast<unsigned long long>(hostcudaHostTimeNs()));
  }
  OK(cudaDeviceSynchronize());
  for (const cudaEvent_t event : events) {
    float ms;
    OK(cudaEventElapsedTime(&ms, events.front(), event));
    std::printf("%.6f\n", static_cast<double>(ms));
  }
  std::printf("host %llu\n", static_cast<unsigned long long>(hostcudaHostTimeNs()));
}

CASE(times_are_modelled) {
  cudaStream_t stream = new_stream();
  cudaEvent_t start = new_event(), end = new_event();
  OK(cudaEventRecord(start, stream));
  describe(stream, 1e15);  // seconds on any of the GPUs, nothing on the CPU
  OK(cudaEventRecord(end, stream));
  float ms;
  const auto before = std::chrono::steady_clock::now();
  OK(cudaEventSynchronize(end));
  OK(cudaEventElapsedTime(&ms, start, end));
  CHECK(ms > 500 && ms < 60000);
  CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(5));
  CHECK(hostcudaHostTimeNs() > 500000000);
}

// An event's query never moves time; a stream's does where it finds the stream done, for programs spin on it.
CASE(queries) {
  cudaStream_t stream = new_stream();
  cudaEvent_t event = new_event();
  describe(stream);
  OK(cudaEventRecord(event, stream));
  const uint64_t before = hostcudaHostTimeNs();
  while (cudaEventQuery(event) != cudaSuccess) sleep_ms(1);
  CHECK(hostcudaHostTimeNs() == before);
  OK(cudaStreamQuery(stream));
  CHECK(hostcudaHostTimeNs() > before);
}

CASE(helpers_do_not_move_time) {
  cudaStream_t stream = new_stream();
  char* bytes = device_array<char>(64 << 20);
  const auto measure = [&] {
    cudaEvent_t start = new_event(), end = new_event();
    OK(cudaEventRecord(start, stream));
    describe(stream);
    OK(cudaEventRecord(end, stream));
    OK(cudaEventSynchronize(end));
    float ms;
    OK(cudaEventElapsedTime(&ms, start, end));
    return ms;
  };
  measure();
  const float alone = measure();
  const uint64_t before = hostcudaHostTimeNs();
  std::thread([&] {
    OK(hostcudaHelperThread());
    cudaStream_t own = new_stream();
    for (int i = 0; i < 50; ++i) OK(cudaMemsetAsync(bytes, i, 64 << 10, own));
    OK(cudaStreamSynchronize(own));
    CHECK(bytes[5] == 49);
    CHECK(hostcudaHostTimeNs() == 0);
  }).join();
  CHECK(hostcudaHostTimeNs() == before);
  CHECK(measure() == alone);
}

CASE(op_times) {
  cudaStream_t stream = new_stream();
  describe(stream, 1e9, "before");
  uint64_t mark;
  OK(hostcudaStreamMark(stream, &mark));
  describe(stream, 1e9, "first");
  char* bytes = device_array<char>(100);
  OK(cudaMemsetAsync(bytes, 1, 100, stream));
  Gate gate;
  gate.open();
  gate.hold(stream, nullptr, 0, 3, 32);
  describe(stream, 1e9, "last");
  hostcudaOpTime_t times[3];
  size_t count;
  OK(hostcudaStreamOpTimes(stream, mark, times, 3, &count));
  CHECK(count == 4);
  CHECK(std::string(times[0].name) == "first" && times[0].kind == hostcudaOpDescribed && times[0].ctas == 84);
  CHECK(times[1].kind == hostcudaOpSet);
  CHECK(std::string(times[2].name) == "gate_kernel" && times[2].kind == hostcudaOpKernel && times[2].ctas == 3);
  for (int i = 0; i < 3; ++i) {
    CHECK(times[i].start_ns <= times[i].end_ns);
    if (i > 0) CHECK(times[i].sequence > times[i - 1].sequence && times[i].start_ns >= times[i - 1].end_ns);
  }
  OK(hostcudaStreamOpTimes(stream, times[2].sequence, times, 3, &count));
  CHECK(count == 2 && std::string(times[1].name) == "last");
}

// Waiting for an event orders modelled times too, even where the event was done long before the wait was enqueued.
CASE(done_events_still_order_time) {
  cudaStream_t first = new_stream(), second = new_stream();
  cudaEvent_t event = new_event();
  uint64_t mark;
  OK(hostcudaStreamMark(first, &mark));
  OK(hostcudaStreamMark(second, &mark));
  describe(first, 1e12);
  OK(cudaEventRecord(event, first));
  while (cudaEventQuery(event) != cudaSuccess) sleep_ms(1);
  OK(cudaStreamWaitEvent(second, event, 0));
  describe(second, 1e9);
  hostcudaOpTime_t before, after;
  size_t count;
  OK(hostcudaStreamOpTimes(second, 0, &after, 1, &count));
  OK(hostcudaStreamOpTimes(first, 0, &before, 1, &count));
  CHECK(after.start_ns >= before.end_ns);
}

CASE(default_stream_orders_time) {
  cudaStream_t blocking = new_stream(cudaStreamDefault);
  uint64_t mark;
  OK(hostcudaStreamMark(blocking, &mark));
  OK(hostcudaStreamMark(nullptr, &mark));
  describe(blocking, 1e12);
  describe(nullptr, 1e12);
  describe(blocking, 1e12);
  hostcudaOpTime_t outer[2], inner;
  size_t count;
  OK(hostcudaStreamOpTimes(blocking, 0, outer, 2, &count));
  CHECK(count == 2);
  OK(hostcudaStreamOpTimes(nullptr, 0, &inner, 1, &count));
  CHECK(inner.start_ns >= outer[0].end_ns && outer[1].start_ns >= inner.end_ns);
}

CASE(wrong_descriptions) {
  hostcudaKernel_t kernel{};
  GIVES(cudaErrorInvalidValue, hostcudaLaunchDescribed(nullptr, nullptr));
  GIVES(cudaErrorInvalidValue, hostcudaLaunchDescribed(&kernel, nullptr));  // no size
  kernel.size = sizeof kernel;
  kernel.version = 99;
  GIVES(cudaErrorInvalidValue, hostcudaLaunchDescribed(&kernel, nullptr));
  kernel.version = HOSTCUDA_KERNEL_VERSION;
  kernel.name = "too_large";
  kernel.ctas = 1;
  kernel.threads_per_cta = 4096;
  GIVES(cudaErrorInvalidConfiguration, hostcudaLaunchDescribed(&kernel, nullptr));
  OK(cudaDeviceSynchronize());
}

CASE(freed_ranges_are_forgotten) {
  for (int round = 0; round < 2; ++round) {
    void* words;
    OK(cudaHostAlloc(&words, 4096, 0));
    OK(hostcudaClockRegister(words, 2048));
    OK(hostcudaClockRegister(static_cast<char*>(words) + 2048, 2048));
    OK(cudaFreeHost(words));
    GIVES(cudaErrorInvalidValue, hostcudaClockUnregister(words));
    GIVES(cudaErrorInvalidValue, hostcudaClockUnregister(static_cast<char*>(words) + 2048));
  }
}

int main(int argc, char** argv) { return run_case(argc, argv); }
