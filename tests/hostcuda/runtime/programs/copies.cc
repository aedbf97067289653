// SPDX-License-Identifier: Apache-2.0
// Copies and fills of more than one dimension, and which of them the host waits for.
#include "check.h"

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

int main(int argc, char** argv) { return run_case(argc, argv); }
