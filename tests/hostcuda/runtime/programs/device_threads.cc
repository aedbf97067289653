// SPDX-License-Identifier: Apache-2.0
// Device threads as a launched kernel has them: barriers that hold, warps that meet. (Every operation by itself is
// tested in tests/hostcuda/simt.)
#include "check.h"

#include <functional>

#include "clock/clock.h"

namespace simt = hostcuda::simt;

std::function<void(unsigned)> g_body;  // what each thread does, given its number
char g_symbol;
void entry(const void*) { g_body(hostcuda_device_thread->linear_index); }
static const bool registered = (register_kernel(&g_symbol, "body", entry, 0), true);

void run(unsigned threads, std::function<void(unsigned)> body) {
  g_body = std::move(body);
  cudaStream_t stream = new_stream();
  OK(cudaLaunchKernel(&g_symbol, dim3(1), dim3(threads), nullptr, 0, stream));
  OK(cudaStreamSynchronize(stream));
}

CASE(barrier_of_a_cta) {
  int before = 0;
  run(544, [&](unsigned thread) {
    for (int round = 1; round <= 20; ++round) {
      if (thread % 100 == 99) simt::poll_yield();  // some are late
      ++before;
      simt::block_sync(0, 0);
      CHECK(before == round * 544);
      simt::block_sync(0, 0);
    }
  });
}

CASE(named_barriers) {
  int first = 0, second = 0;
  run(160, [&](unsigned thread) {
    const bool low = thread < 64;
    ++(low ? first : second);
    simt::block_sync(low ? 3 : 4, low ? 64 : 96);
    CHECK(low ? first == 64 : second == 96);
  });
  int passed = 0;
  run(100, [&](unsigned thread) {
    if (thread < 40) return;
    simt::block_sync(0, 0);  // for those that have not returned
    ++passed;
  });
  CHECK(passed == 60);
}

CASE(warps_meet) {
  int before = 0;
  unsigned order = 0;
  run(32, [&](unsigned lane) {
    for (unsigned i = 0; i < lane % 5; ++i) simt::poll_yield();
    ++before;
    simt::warp_vote(~0u, true);
    CHECK(before == 32);
    CHECK(order++ == lane);  // they go on in order
    CHECK(simt::warp_vote(~0u, lane % 2 != 0) == 0xaaaaaaaau);
    const simt::WarpValues all = simt::warp_exchange(~0u, lane * 10);
    CHECK(all.values[7] == 70 && all.values[31] == 310);
    const unsigned half = lane < 16 ? 0xffffu : 0xffff0000u;
    for (unsigned i = 0; i < (lane < 16 ? 3u : 7u); ++i) {
      CHECK(simt::warp_vote(half, lane % 16 == 2) == (half & 0x00040004u));
    }
  });
}

int main(int argc, char** argv) { return run_case(argc, argv); }
