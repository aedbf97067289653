# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (lines of C++)
"""The clock inside of device code: stamps, counters, charges; and two processes that agree however late they run."""

from pathlib import Path

import pytest

CASES = {
    "a_grid_starts_after_its_start_up_time": """
        GridSpec grid = spec([] { CHECK(self().vt_ps == 300); }, 1, 32);
        grid.clock.start_ps = 300;
        CHECK(finish(std::move(grid)).duration_ps == 300);
    """,
    "a_barrier_takes_the_latest": """
        GridSpec grid = spec([] {
          self().vt_ps = 1000 * tid();
          self().arrival_ps = tid() == 5 ? 77 : 1;
          block_sync(1, 64);
          CHECK(self().vt_ps == 63000 + 20 && self().arrival_ps == 77);
        }, 1, 64);
        grid.clock.barrier_ps = 20;
        GridResult result = finish(std::move(grid));
        CHECK(!result.failed && result.duration_ps == 63020 && result.peers_arrival_ps == 77);
    """,
    "a_warp_takes_the_latest": """
        launch([] { self().vt_ps = lane(); __shfl_sync(~0u, 1, 3); CHECK(self().vt_ps == 31); });
    """,
    "own_arrival_is_heard_of": """
        GridSpec grid = spec([] {}, 3, 32);
        grid.clock.arrival_ps = 1234;
        GridResult result = finish(std::move(grid));
        CHECK(result.peers_arrival_ps == 1234 && result.ctas.size() == 3);
    """,
    "each_cta_has_its_time": """
        GridResult result = launch([] { self().vt_ps = 10 * self().view->block_index.x; }, 4, 32);
        for (unsigned i = 0; i < 4; ++i) CHECK(result.ctas[i].start_ps == 0 && result.ctas[i].stop_ps == 10 * i);
        CHECK(result.duration_ps == 30);
    """,
    "a_line_carries_its_time": """
        char* line = map_windows() + 160;
        GridSpec grid = spec([&] {
          std::uint64_t a, b;
          if (tid() == 0) { self().vt_ps = 500; self().arrival_ps = 9; store_line128((std::uint64_t*)line, 1, 2); }
          __syncthreads();
          if (tid() == 1) { self().vt_ps = 100; self().arrival_ps = 0; load_line128((std::uint64_t*)line, a, b);
            CHECK(a == 1 && b == 2 && self().vt_ps == 500 + 3 + 3 + 50 && self().arrival_ps == 9); }
          if (tid() == 2) { self().vt_ps = 9000; load_line128((std::uint64_t*)line, a, b); CHECK(self().vt_ps == 9000); }
        }, 1, 3);
        grid.clock.latency_ps[0] = 3;
        grid.clock.poll_ps = 50;
        grid.clock.epoch = 4;
        CHECK(!finish(std::move(grid)).failed);
    """,
    "a_stamp_of_another_launch_says_nothing": """
        char* line = map_windows();
        GridSpec writer = spec([&] { self().vt_ps = 500; store_line128((std::uint64_t*)line, 1, 2); }, 1, 1);
        writer.clock.epoch = 4;
        CHECK(!finish(std::move(writer)).failed);
        GridSpec reader = spec([&] { std::uint64_t a, b; load_line128((std::uint64_t*)line, a, b); CHECK(self().vt_ps == 0); }, 1, 1);
        reader.clock.epoch = 5;
        CHECK(!finish(std::move(reader)).failed);
    """,
    "a_store_to_a_peer_takes_the_links_latency": """
        char* far = map_windows() + hostcuda::rt::kPageBytes;
        GridSpec grid = spec([&] {
          std::uint64_t a, b;
          store_line128((std::uint64_t*)far, 1, 2);
          load_line128((std::uint64_t*)far, a, b);
          CHECK(self().vt_ps == 1400);
        }, 1, 1);
        grid.clock.latency_ps[2] = 700;
        grid.clock.epoch = 1;
        CHECK(!finish(std::move(grid)).failed);
    """,
    "memory_without_a_shadow_has_no_stamps": """
        launch([] {
          alignas(16) static std::uint64_t line[2];
          std::uint64_t a, b;
          store_line128(line, 1, 2); load_line128(line, a, b); counter_stored(line, 3); counter_waited(line, 3);
          CHECK(a == 1 && b == 2 && self().vt_ps == 0);
        }, 1, 1);
    """,
    "a_later_value_of_a_counter_does_not_set_the_time": """
        auto* counter = reinterpret_cast<volatile std::uint64_t*>(map_windows());
        GridSpec grid = spec([&] {
          for (std::uint64_t value = 1; value <= 6; ++value) { self().vt_ps = 100 * value; counter_stored(counter, value); *counter = value; }
          self().vt_ps = 0;
          counter_waited(counter, 2);
          CHECK(self().vt_ps == 200);
          counter_waited(counter, 6);
          CHECK(self().vt_ps == 600);
        }, 1, 1);
        grid.clock.epoch = 1;
        CHECK(!finish(std::move(grid)).failed);
    """,
    "free_slots_of_a_new_fifo_cost_nothing": """
        auto* counter = reinterpret_cast<volatile std::uint64_t*>(map_windows());
        GridSpec grid = spec([&] {
          self().vt_ps = 100; counter_stored(counter, 1); *counter = 1;
          self().vt_ps = 0;
          for (std::int64_t value = -7; value <= 0; ++value) counter_waited(counter, std::uint64_t(value));
          CHECK(self().vt_ps == 0);
        }, 1, 1);
        grid.clock.epoch = 1;
        CHECK(!finish(std::move(grid)).failed);
    """,
    "a_jump_reaches_the_values_between": """
        auto* counter = reinterpret_cast<volatile std::uint64_t*>(map_windows());
        GridSpec grid = spec([&] {
          self().vt_ps = 100; counter_stored(counter, 1); *counter = 1;
          self().vt_ps = 900; counter_stored(counter, 5); *counter = 5;
          for (std::uint64_t value : {1, 2, 4, 5}) { self().vt_ps = 0; counter_waited(counter, value); CHECK(self().vt_ps == (value == 1 ? 100u : 900u)); }
          self().vt_ps = 5000; counter_stored(counter, 1000); *counter = 1000;
          for (std::uint64_t value = 1000 - kCounterHistory + 1; value <= 1000; ++value) { self().vt_ps = 0; counter_waited(counter, value); CHECK(self().vt_ps == 5000); }
        }, 1, 1);
        grid.clock.epoch = 1;
        CHECK(!finish(std::move(grid)).failed);
    """,
    "a_multicast_counter_is_stored_everywhere_and_waits_for_the_last": """
        char* near = map_windows();
        char* all = near + 3 * hostcuda::rt::kPageBytes;
        hostcuda_page_owner[0] += hostcuda::rt::kOwnerBound;
        hostcuda_page_owner[1] += hostcuda::rt::kOwnerBound;
        GridSpec grid = spec([&] {
          // Counters 32 bytes apart do not disturb each other, whatever their histories.
          for (std::uint64_t value = 1; value <= 100; ++value) {
            for (int which = 0; which < 2; ++which) {
              self().vt_ps = 1000 * value + 10 * which;
              store_counter(reinterpret_cast<std::uint64_t*>(all + 32 * which), value);
            }
          }
          for (int which = 0; which < 2; ++which) {
            for (int member = 0; member < 2; ++member) {
              auto* counter = reinterpret_cast<std::uint64_t*>(near + member * hostcuda::rt::kPageBytes + 32 * which);
              CHECK(*counter == 100);
              self().vt_ps = 0;
              counter_waited(counter, 60);
              // Link of the store, then of the wait: memory of device 1 is behind the link.
              CHECK(self().vt_ps == 60000u + 10u * which + 7 + (member ? 7 : 0));
            }
          }
          // The members arrive at different times; a wait on the multicast address takes the last.
          for (int member = 0; member < 3; ++member) {
            auto* counter = reinterpret_cast<std::uint64_t*>(near + member * hostcuda::rt::kPageBytes + 64);
            self().vt_ps = member == 1 ? 5000 : 300;
            put_counter_stamps(counter, 1, stamp_now(&self(), near), true);
            *counter = 1;
          }
          self().vt_ps = 0;
          counter_waited(all + 64, 1);
          CHECK(self().vt_ps == 5000 + 7);
        }, 1, 1);
        grid.clock.epoch = 1;
        grid.clock.latency_ps[2] = 7;
        CHECK(!finish(std::move(grid)).failed);
    """,
    "multicast_bytes_cost_what_all_members_ask_for": """
        char* near = map_windows();
        char* all = near + 3 * hostcuda::rt::kPageBytes;
        GridSpec grid = spec([&] {
          auto plain = [&](int) { return (void*)near; };
          auto multicast = [&](int) { return (void*)all; };
          charge_copy(0, 64, 1, multicast, 1, plain, 1000);  // 3 x 1000 out to the switch, 1000 in
          CHECK(self().vt_ps == 3000 * 50);
          self().vt_ps = 0;
          charge_copy(0, 64, 1, plain, 1, multicast, 1000);  // 1000 out, 3 x 1000 in
          CHECK(self().vt_ps == 3000 * 50);
          self().vt_ps = 0;
          charge_copy(0, 64, 1, multicast, 1, multicast, 1000);  // 4 x 1000 each way
          CHECK(self().vt_ps == 4000 * 50);
        }, 1, 1);
        grid.clock.load_fs_per_byte = 2000;
        grid.clock.store_fs_per_byte = 3000;
        grid.clock.link_fs_per_byte[2] = 50000;
        GridResult result = finish(std::move(grid));
        CHECK(!result.failed && result.bytes_loaded == 3000 + 1000 + 3000 && result.bytes_stored == 1000 + 3000 + 3000);
    """,
    "bytes_cost_time_and_are_counted": """
        char* near = map_windows();
        char* far = near + hostcuda::rt::kPageBytes;
        GridSpec grid = spec([&] {
          auto from = [&](int) { return (void*)near; };
          auto to = [&](int i) { return (void*)(i ? far : near); };
          charge_copy(int(tid()), 64, 1, from, 1, to, 10000);
          CHECK(self().vt_ps == 10000 * 2 + 10000 * 3);
          self().vt_ps = 0;
          charge_copy(int(tid()), 64, 1, from, 2, to, 10000);  // the link of this grid's two CTAs is the slowest
          CHECK(self().vt_ps == 10000 * 2 * 50);
          self().vt_ps = 0;
          charge_copy(int(tid()), 32, 1, from, 1, to, 10000);  // half the threads, half the rate
          CHECK(self().vt_ps == 100000);
          charge_copy(int(tid()), 32, 1, from, 1, to, 0);
          CHECK(self().vt_ps == 100000);
        }, 2, 64);
        grid.clock.load_fs_per_byte = 2000;
        grid.clock.store_fs_per_byte = 3000;
        grid.clock.full_threads = 64;
        grid.clock.grid_ctas = 2;
        grid.clock.link_fs_per_byte[2] = 50000;
        GridResult result = finish(std::move(grid));
        CHECK(!result.failed && result.bytes_loaded == 2 * 30000 && result.bytes_stored == 2 * 40000);
    """,
    "a_line_costs_each_thread_its_share": """
        char* near = map_windows();
        GridSpec grid = spec([&] {
          LineCost cost(64); cost.load(near, 16); cost.store(near, 8); cost.settle(); CHECK(self().vt_ps == 0); cost.pay();
          CHECK(self().vt_ps == 64 * (16 * 2 + 8 * 3));
        }, 1, 64);
        grid.clock.load_fs_per_byte = 2000;
        grid.clock.store_fs_per_byte = 3000;
        grid.clock.full_threads = 64;
        GridResult result = finish(std::move(grid));
        CHECK(!result.failed && result.bytes_loaded == 64 * 16 && result.bytes_stored == 64 * 8);
    """,
    "device_time_is_tagged": """
        GridSpec grid = spec([] { self().vt_ps = 5000; CHECK(device_timer() == (1ull << 63 | 9ull << 40 | 5)); }, 1, 1);
        grid.clock.launch_id = 9 + (1u << 23);
        CHECK(!finish(std::move(grid)).failed);
    """,
    "ctas_have_sms": """
        GridSpec grid = spec([] { CHECK(self().view->sm_id == 40 + 2 * self().view->block_index.x); }, 3, 1);
        grid.clock.sms = 84;
        for (int i = 0; i < 3; ++i) grid.clock.sm_of_cta[i] = std::uint16_t(40 + 2 * i);
        CHECK(!finish(std::move(grid)).failed);
    """,
}

# A FIFO of eight steps between two ranks, as NCCL's Simple protocol has: the writer waits for credits (head), the reader
# for data (tail). Each process sleeps at random places; the modelled times must not notice.
TWO_RANKS = """
#include <sys/wait.h>
#include <unistd.h>

volatile std::uint64_t* counter(int which) { return reinterpret_cast<volatile std::uint64_t*>(window + 4096 * which); }

void wait_for(volatile std::uint64_t* where, std::uint64_t needed) {
  int spins = 0;
  while (*where < needed) poll(spins);
  counter_waited(where, needed);
}

void post(volatile std::uint64_t* where, std::uint64_t value) { counter_stored(where, value); *where = value; }

GridResult rank(int number, bool sleepy) {
  constexpr int kSteps = 200;
  auto *head = counter(0), *tail = counter(1), *back = counter(2);
  GridSpec grid = spec([=] {
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      if (sleepy && tid() == 0 && rand() % 8 == 0) usleep(unsigned(rand() % 2000));
      if (number == 0) {
        if (tid() == 0 && step > 8) wait_for(head, step - 8);
        block_sync(1, 64);
        self().vt_ps += 100 + 70 * (step % 5);  // the time a chunk takes
        block_sync(1, 64);
        if (tid() == 63) post(tail, step);
        if (tid() == 5 && step % 7 == 0) wait_for(back, step);
      } else {
        if (tid() == 0) wait_for(tail, step);
        block_sync(1, 64);
        self().vt_ps += 150 + 90 * (step % 3);
        block_sync(1, 64);
        if (tid() == 63) post(head, step);
        if (tid() == 5 && step % 7 == 0) post(back, step);
      }
    }
  }, 1, 64);
  grid.device = number;
  grid.clock.epoch = 3;
  grid.clock.arrival_ps = number ? 5000 : 200;
  grid.clock.barrier_ps = 11;
  grid.clock.latency_ps[0] = 1;
  grid.clock.latency_ps[2] = 333;
  grid.clock.poll_ps = 40;
  return finish(std::move(grid));
}

int main(int, char** argv) {
  window = map_windows();
  bool sleepy = std::atoi(argv[1]);
  pid_t child = fork();
  srand(unsigned(getpid()));
  GridResult result = rank(child ? 0 : 1, sleepy);
  CHECK(!result.failed);
  if (child) {
    int status = 1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  char line[100];
  int length = std::snprintf(line, sizeof line, "rank %d: %lu ps, heard of %lu\\n", child ? 0 : 1, result.duration_ps, result.peers_arrival_ps);
  return write(1, line, std::size_t(length)) != length;
}
"""

PROLOGUE = """
#include <cstring>
#include "kernels.h"
#include "shim/nccl.h"
#include "shim/warp.h"
#include "windows.h"
using namespace hostcuda::simt;
using namespace hostcuda::shim;
[[maybe_unused]] static char* window;
"""


@pytest.fixture(scope="module")
def clock(build) -> Path:
    text = [PROLOGUE.replace("[[maybe_unused]] static char* window;", "")]
    text.extend(f"void case_{name}() {{ {body} }}" for name, body in CASES.items())
    text.append("int main(int, char** argv) {")
    text.extend(f'  if (!std::strcmp(argv[1], "{name}")) {{ case_{name}(); return 0; }}' for name in CASES)
    text.append("  return 3;\n}")
    return build("clock", "\n".join(text))


@pytest.mark.parametrize("name", CASES)
def test_clock(clock: Path, run, name: str) -> None:
    run(clock, name)


def test_two_ranks_agree_however_late_they_run(build, run) -> None:
    program = build("two_ranks", PROLOGUE + TWO_RANKS)
    calm = run(program, "0").stdout
    assert calm.count("heard of 5000") == 2
    for _ in range(5):
        assert run(program, "1").stdout == calm
