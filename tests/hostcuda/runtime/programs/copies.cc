// SPDX-License-Identifier: Apache-2.0
// Copies and fills of more than one dimension, and which of them the host waits for.
#include "check.h"

#include <cuda.h>

#include <vector>

constexpr int kWhile = 30;  // ms in which something that must not happen would have happened

char* pinned(size_t bytes) {
  void* made;
  OK(cudaMallocHost(&made, bytes));
  std::memset(made, 0, bytes);
  return static_cast<char*>(made);
}

// Every byte of `bytes` is `inside` where the box of rows and planes has it and `outside` elsewhere.
void expect_box(const char* bytes, size_t count, size_t pitch, size_t rows_a_plane, size_t width, size_t height,
                size_t depth, char inside, char outside) {
  for (size_t i = 0; i < count; ++i) {
    const size_t x = i % pitch, y = i / pitch % rows_a_plane, z = i / pitch / rows_a_plane;
    CHECK(bytes[i] == (x < width && y < height && z < depth ? inside : outside));
  }
}

CASE(fills_of_two_and_three_dimensions) {
  cudaStream_t stream = new_stream();
  char* bytes = device_array<char>(16 * 8 * 4);
  OK(cudaMemsetAsync(bytes, 1, 512, stream));
  OK(cudaMemset2DAsync(bytes, 16, 2, 11, 5, stream));
  OK(cudaStreamSynchronize(stream));
  expect_box(bytes, 512, 16, 32, 11, 5, 1, 2, 1);
  OK(cudaMemset(bytes, 1, 512));
  OK(cudaMemset3D({bytes, 16, 16, 8}, 3, {7, 6, 3}));
  OK(cudaDeviceSynchronize());
  expect_box(bytes, 512, 16, 8, 7, 6, 3, 3, 1);
  OK(cudaMemset2D(bytes, 16, 4, 16, 32));
  OK(cudaMemset3DAsync({bytes, 16, 16, 8}, 5, {16, 8, 4}, nullptr));
  OK(cudaDeviceSynchronize());
  for (int i = 0; i < 512; ++i) CHECK(bytes[i] == 5);
  OK(cudaMemset2DAsync(bytes, 16, 2, 0, 5, stream));  // nothing
  GIVES(cudaErrorInvalidValue, cudaMemset2DAsync(bytes, 10, 2, 11, 5, stream));  // rows that overlap
  GIVES(cudaErrorInvalidValue, cudaMemset2DAsync(bytes, 1 << 20, 2, 11, 5, stream));
  GIVES(cudaErrorInvalidValue, cudaMemset3DAsync({bytes, 16, 16, 2}, 2, {16, 3, 2}, stream));
  std::vector<char> pageable(64);
  GIVES(cudaErrorInvalidValue, cudaMemsetAsync(pageable.data(), 0, 64, stream));
}

CASE(copies_of_two_and_three_dimensions) {
  cudaStream_t stream = new_stream();
  char* bytes = device_array<char>(512);
  std::vector<char> host(512, 7), back(512, 1);
  OK(cudaMemset(bytes, 1, 512));
  OK(cudaMemcpy2DAsync(bytes, 16, host.data(), 32, 9, 4, cudaMemcpyHostToDevice, stream));
  std::fill(host.begin(), host.end(), 8);  // the copy has taken its source along
  OK(cudaStreamSynchronize(stream));
  expect_box(bytes, 512, 16, 32, 9, 4, 1, 7, 1);
  cudaMemcpy3DParms box{};
  box.srcPtr = {host.data(), 16, 16, 8};
  box.dstPtr = {bytes, 16, 16, 8};
  box.extent = {5, 3, 2};
  box.kind = cudaMemcpyHostToDevice;
  OK(cudaMemset(bytes, 1, 512));
  OK(cudaMemcpy3D(&box));
  expect_box(bytes, 512, 16, 8, 5, 3, 2, 8, 1);
  box.srcPtr = {bytes, 16, 16, 8};
  box.dstPtr = {back.data(), 16, 16, 8};
  box.srcPos = {1, 1, 0};  // the box less its first column and row
  box.kind = cudaMemcpyDefault;
  OK(cudaMemcpy3DAsync(&box, stream));
  expect_box(back.data(), 512, 16, 8, 4, 2, 2, 8, 1);
  GIVES(cudaErrorInvalidPitchValue, cudaMemcpy2D(bytes, 8, host.data(), 16, 9, 2, cudaMemcpyDefault));
  GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpy(bytes, bytes, 1, static_cast<cudaMemcpyKind>(9)));
  void* pitched;
  size_t pitch;
  OK(cudaMallocPitch(&pitched, &pitch, 100, 3));
  CHECK(pitch >= 100 && pitch % 256 == 0);
  OK(cudaMemset2D(pitched, pitch, 1, 100, 3));
  cudaPitchedPtr made;
  OK(cudaMalloc3D(&made, {100, 3, 2}));
  OK(cudaMemset3D(made, 1, {100, 3, 2}));
  OK(cudaDeviceSynchronize());
}

CASE(every_byte_and_no_more) {
  cudaStream_t stream = new_stream();
  char *from = device_array<char>(10 << 20), *to = device_array<char>(10 << 20);
  for (const size_t bytes : {size_t{1}, size_t{4095}, size_t{4} << 20, (size_t{4} << 20) + 1, (size_t{9} << 20) - 3}) {
    OK(cudaMemsetAsync(from, 5, bytes + 2, stream));
    OK(cudaMemsetAsync(to, 1, bytes + 2, stream));
    OK(cudaMemcpyAsync(to + 1, from + 1, bytes, cudaMemcpyDeviceToDevice, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(to[0] == 1 && to[1] == 5 && to[bytes] == 5 && to[bytes + 1] == 1);
  }
}

// Whether `call` returns while what is ahead of its copy is still held up.
template <typename Call>
bool returns_early(cudaStream_t stream, Call call) {
  Gate gate;
  gate.hold(stream);
  std::atomic<bool> opened{false};
  std::thread opener([&] {
    sleep_ms(kWhile);
    opened = true;
    gate.open();
  });
  OK(call());
  const bool early = !opened;
  opener.join();
  OK(cudaDeviceSynchronize());
  return early;
}

CASE(what_the_host_waits_for) {
  cudaStream_t stream = new_stream();
  char *device = device_array<char>(64), *host = pinned(64);
  std::vector<char> pageable(64);
  const auto async = [&](void* dst, const void* src) {
    return returns_early(stream, [&] { return cudaMemcpyAsync(dst, src, 64, cudaMemcpyDefault, stream); });
  };
  CHECK(async(device, host));
  CHECK(async(host, device));
  CHECK(async(device, pageable.data()));
  CHECK(!async(pageable.data(), device));
  CHECK(!async(host, pageable.data()));  // from host to host
  CHECK(!async(pageable.data(), host));
  CHECK(async(device, device));
  const auto plain = [&](void* dst, const void* src) {
    return returns_early(nullptr, [&] { return cudaMemcpy(dst, src, 64, cudaMemcpyDefault); });
  };
  CHECK(!plain(device, host));
  CHECK(!plain(host, device));
  CHECK(!plain(device, pageable.data()));
  CHECK(!plain(pageable.data(), device));
  CHECK(plain(device, device));  // nothing that the host could see
  CHECK(returns_early(nullptr, [&] { return cudaMemset(device, 0, 64); }));
  CHECK(!returns_early(nullptr, [&] { return cudaMemset(host, 0, 64); }));
  CHECK(returns_early(stream, [&] { return cudaMemsetAsync(host, 0, 64, stream); }));
}

CASE(default_stream_copies_wait) {
  cudaStream_t blocking = new_stream(cudaStreamDefault);
  int* cell = device_array<int>(1);
  Gate gate;
  gate.hold(blocking, cell, 9);
  std::thread opener([&] {
    sleep_ms(kWhile);
    gate.open();
  });
  int value = 0;
  OK(cudaMemcpy(&value, cell, sizeof value, cudaMemcpyDeviceToHost));
  CHECK(value == 9);
  opener.join();
}

// Fills of elements of `Value` through the driver: all of them, nothing beside them, in stream order.
template <typename Value>
void check_driver_fills(CUresult (*fill)(CUdeviceptr, Value, size_t),
                        CUresult (*fill_async)(CUdeviceptr, Value, size_t, CUstream), Value value) {
  cudaStream_t stream = new_stream();
  constexpr size_t kCount = 3 << 19;  // large enough for what clears whole pages at once
  Value* device = device_array<Value>(kCount);
  std::vector<Value> host(kCount);
  const auto at = [&](size_t first) { return reinterpret_cast<CUdeviceptr>(device + first); };
  const auto expect = [&](Value inside, Value outside) {
    OK(cudaMemcpy(host.data(), device, kCount * sizeof(Value), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < kCount; ++i) CHECK(host[i] == (i >= 3 && i < kCount - 5 ? inside : outside));
  };
  OK(fill(at(0), 1, kCount));
  OK(fill(at(3), value, kCount - 8));
  expect(value, 1);
  OK(fill(at(3), 0, kCount - 8));
  expect(0, 1);
  Gate gate;
  gate.hold(stream);
  OK(fill_async(at(3), value, kCount - 8, stream));
  expect(0, 1);
  gate.open();
  OK(cudaStreamSynchronize(stream));
  expect(value, 1);
  auto* seen = reinterpret_cast<Value*>(pinned(64));
  const auto seen_at = reinterpret_cast<CUdeviceptr>(seen);
  CHECK(!returns_early(nullptr, [&] { return fill(seen_at, value, 64 / sizeof(Value)); }));
  for (size_t i = 0; i < 64 / sizeof(Value); ++i) CHECK(seen[i] == value);

  OK(fill(at(0), 1, 0));
  OK(fill_async(at(0), 1, 0, stream));
  std::vector<Value> pageable(4);
  GIVES(CUDA_ERROR_INVALID_VALUE, fill(reinterpret_cast<CUdeviceptr>(pageable.data()), 1, 4));
  GIVES(CUDA_ERROR_INVALID_VALUE, fill(at(0) + 1, 1, 1));                            // not at a whole element
  GIVES(CUDA_ERROR_INVALID_VALUE, fill_async(at(4), 1, kCount - 3, stream));         // one too many
  GIVES(CUDA_ERROR_INVALID_VALUE, fill(at(0), 1, SIZE_MAX / sizeof(Value) + 2));     // would wrap around to few bytes
  GIVES(CUDA_ERROR_INVALID_VALUE, fill_async(0, 1, 1, stream));
  GIVES(cudaSuccess, cudaGetLastError());  // the runtime hears nothing of all that
  OK(cudaDeviceSynchronize());
  expect(value, 1);
}

CASE(driver_fills_of_two_bytes) { check_driver_fills<unsigned short>(cuMemsetD16, cuMemsetD16Async, 0xa55b); }

CASE(driver_fills_of_four_bytes) { check_driver_fills<unsigned>(cuMemsetD32, cuMemsetD32Async, 0x89abcdef); }

CASE(driver_fills_by_name) {
  const auto is = [](const char* name, auto* function) {
    void* found = nullptr;
    OK(cuGetProcAddress(name, &found, CUDA_VERSION, 0, nullptr));
    CHECK(found == reinterpret_cast<void*>(function));
  };
  is("cuMemsetD16", cuMemsetD16);
  is("cuMemsetD16Async", cuMemsetD16Async);
  is("cuMemsetD32", cuMemsetD32);
  is("cuMemsetD32Async", cuMemsetD32Async);
}

int main(int argc, char** argv) { return run_case(argc, argv); }
