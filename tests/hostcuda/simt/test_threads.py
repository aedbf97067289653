# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (lines of C++)
"""Fibers, barriers and warp operations, and what happens when device code goes wrong."""

from pathlib import Path

import pytest

CASES = {
    "indices": """
        std::vector<int> seen(3 * 70);
        launch([&] {
          const auto& view = *self().view;
          CHECK(view.grid_dim.x == 3 && view.block_dim.x == 70);
          seen[view.block_index.x * 70 + self().thread_index.x]++;
        }, 3, 70);
        for (int n : seen) CHECK(n == 1);
    """,
    "three_dimensions": """
        int count = 0;
        GridSpec grid = spec([&] {
          auto i = self().thread_index;
          CHECK(i.x + 4 * (i.y + 3 * i.z) == tid());
          count++;
        }, 1, 1);
        grid.block = {4, 3, 2};
        CHECK(!finish(std::move(grid)).failed && count == 24);
    """,
    "arguments_are_aligned": """
        GridSpec grid = spec([] {}, 1, 1);
        static const void* seen;
        grid.entry = [](const void* args) { seen = args; };
        CHECK(!finish(std::move(grid)).failed && reinterpret_cast<std::uintptr_t>(seen) % 16 == 0);
    """,
    "syncthreads": """
        int before = 0;
        launch([&] {
          for (int round = 1; round <= 50; ++round) {
            before++;
            __syncthreads();
            CHECK(before == round * 544);
            __syncthreads();
          }
        }, 1, 544);
    """,
    "syncthreads_without_returned_threads": """
        int passed = 0;
        launch([&] { if (tid() < 40) return; __syncthreads(); passed++; }, 1, 100);
        CHECK(passed == 60);
    """,
    "named_barriers": """
        int first = 0, second = 0;
        launch([&] {
          bool low = tid() < 64;
          (low ? first : second)++;
          block_sync(low ? 3 : 4, low ? 64 : 96);
          CHECK(low ? first == 64 : second == 96);
        }, 1, 160);
    """,
    "block_votes": """
        launch([] {
          CHECK(__syncthreads_count(tid() % 3 == 0) == 32);
          CHECK(__syncthreads_or(tid() == 5) == 1);
          CHECK(__syncthreads_or(0) == 0);
          CHECK(__syncthreads_and(tid() < 96) == 1);
          CHECK(__syncthreads_and(tid() < 95) == 0);
        }, 1, 96);
    """,
    "warp_votes": """
        launch([] {
          CHECK(__ballot_sync(~0u, lane() % 2) == 0xaaaaaaaau);
          CHECK(__any_sync(~0u, lane() == 31) && !__any_sync(~0u, 0));
          CHECK(__all_sync(~0u, 1) && !__all_sync(~0u, lane() != 3));
          __syncwarp();
        }, 1, 64);
    """,
    "warp_of_twenty": """
        launch([] { CHECK(__ballot_sync(~0u, 1) == (lane() < 32 && tid() >= 32 ? 0xfffffu : ~0u)); }, 1, 52);
    """,
    "lanes_that_returned_are_not_waited_for": """
        launch([] { if (lane() >= 8) return; CHECK(__ballot_sync(~0u, 1) == 0xffu); });
    """,
    "active_lanes": """
        launch([] {
          CHECK(__activemask() == (tid() < 32 ? ~0u : 0xfffffu));
          __syncwarp();
          if (lane() % 2) return;
          __syncwarp();  // by then the others have returned
          CHECK(__activemask() == (tid() < 32 ? 0x55555555u : 0x55555u));
          __syncwarp();
        }, 1, 52);
    """,
    "part_of_a_warp": """
        launch([] {
          unsigned mask = lane() < 16 ? 0xffffu : 0xffff0000u;
          for (int i = 0; i < (lane() < 16 ? 3 : 7); ++i) CHECK(__ballot_sync(mask, lane() % 16 == 2) == (mask & 0x00040004u));
          CHECK(__any_sync(~0u, lane() == 20));
        });
    """,
    "shuffles": """
        launch([] {
          CHECK(__shfl_sync(~0u, lane() * 10, 7) == 70);
          CHECK(__shfl_sync(~0u, lane(), 3, 8) == (lane() & ~7u) + 3);
          CHECK(__shfl_xor_sync(~0u, lane(), 5) == (lane() ^ 5));
          CHECK(__shfl_up_sync(~0u, lane(), 2) == (lane() < 2 ? lane() : lane() - 2));
          CHECK(__shfl_down_sync(~0u, double(lane()), 1) == (lane() == 31 ? 31.0 : lane() + 1.0));
          CHECK(__shfl_sync(~0u, std::uint8_t(lane()), 9) == 9);
        }, 1, 96);
    """,
    "match_and_reduce": """
        launch([] {
          CHECK(__match_any_sync(~0u, lane() % 4) == 0x11111111u << lane() % 4);
          CHECK(__reduce_add_sync(~0u, lane()) == 496);
          CHECK(__reduce_max_sync(~0u, lane()) == 31 && __reduce_min_sync(~0u, lane() + 1) == 1);
          CHECK(__reduce_or_sync(~0u, 1u << lane()) == ~0u && __reduce_and_sync(~0u, ~(1u << lane())) == 0);
        });
    """,
    "lanes_go_on_in_order": """
        std::vector<unsigned> order;
        launch([&] {
          for (unsigned i = 0; i < lane() % 5; ++i) poll_yield();
          __syncwarp();
          order.push_back(lane());
        });
        for (unsigned i = 0; i < 32; ++i) CHECK(order[i] == i);
    """,
    "shared_memory_is_a_ctas_own": """
        GridSpec grid = spec([&] {
          auto* mine = reinterpret_cast<unsigned*>(self().dynamic_shared);
          CHECK(reinterpret_cast<std::uintptr_t>(mine) < (std::uintptr_t(1) << 31));
          if (tid() == 0) *mine = self().view->block_index.x;
          __syncthreads();
          CHECK(*mine == self().view->block_index.x);
          CHECK(self().dynamic_shared - self().static_shared == 1024);
        }, 20, 64);
        grid.static_shared_bytes = 1000;
        grid.dynamic_shared_bytes = 82240;
        CHECK(!finish(std::move(grid)).failed);
    """,
    "many_ctas": """
        int count = 0;
        launch([&] { __syncthreads(); count++; }, 1000, 33);
        CHECK(count == 33000);
    """,
    "only_polling_is_no_progress": """
        volatile int flag = 0;
        std::function<void()> kernel = [&] { int spins = 0; while (!flag) { if (spins++) poll_yield(); else note_progress(); } };
        auto* grid = hostcuda::simt::grid_create(spec(kernel, 2, 544));
        CHECK(hostcuda::simt::grid_run(grid) == Progress::some);
        for (int i = 0; i < 5; ++i) CHECK(hostcuda::simt::grid_run(grid) == Progress::none);
        flag = 1;
        CHECK(hostcuda::simt::grid_run(grid) == Progress::finished);
        hostcuda::simt::grid_destroy(grid);
    """,
    "a_warp_that_only_polls_is_no_progress": """
        volatile int flag = 0;
        std::function<void()> kernel = [&] {
          int spins = 0;
          bool again;
          do {
            if (spins++) self().polling = true; else note_progress();
            again = lane() == 7 && !flag;
          } while (__any_sync(~0u, again));
        };
        auto* grid = hostcuda::simt::grid_create(spec(kernel, 1, 64));
        CHECK(hostcuda::simt::grid_run(grid) == Progress::some);
        for (int i = 0; i < 5; ++i) CHECK(hostcuda::simt::grid_run(grid) == Progress::none);
        flag = 1;
        Progress last;
        for (int i = 0; i < 5 && (last = hostcuda::simt::grid_run(grid)) != Progress::finished; ++i) {}
        CHECK(last == Progress::finished);
        hostcuda::simt::grid_destroy(grid);
    """,
    "a_grid_can_be_dropped": """
        std::function<void()> kernel = [] { for (;;) poll_yield(); };
        auto* grid = hostcuda::simt::grid_create(spec(kernel, 2, 64));
        hostcuda::simt::grid_run(grid);
        hostcuda::simt::grid_destroy(grid);
        launch([] { __syncthreads(); }, 2, 64);
    """,
    "another_thread_may_go_on": """
        volatile int flag = 0;
        std::function<void()> kernel = [&] { while (!flag) poll_yield(); CHECK(tid() < 64); };
        auto* grid = hostcuda::simt::grid_create(spec(kernel, 1, 64));
        hostcuda::simt::grid_run(grid);
        std::thread([&] { hostcuda::simt::grid_run(grid); flag = 1; hostcuda::simt::grid_run(grid); }).join();
        CHECK(hostcuda::simt::grid_run(grid) == Progress::finished);
        hostcuda::simt::grid_destroy(grid);
    """,
}

FAILURES = {
    "stack_overflow": (
        "int (*deep)(int) = [](int n) { return dig(n); }; run([=] { if (tid() == 7) deep(1 << 20); }, 2, 64)",
        "test: stack overflow: a device thread has 65536 bytes (CTA 0, thread 7, device 0)",
    ),
    "illegal_address": ("run([] { if (tid() == 3) *at(8) = 1; })", "illegal memory address 0x8 (CTA 0, thread 3"),
    "division_by_zero": ("run([] { *at(0) = int(tid()) / zero; })", "integer division by zero"),
    "trap": ("run([] { if (tid() == 1) __trap(); })", "test: trap (CTA 0, thread 1, device 0)"),
    "deadlock": (
        "run([] { block_sync(tid() == 7 ? 4 : 3, 64); }, 1, 64)",
        "deadlock: 64 threads wait for others that never come; barrier 3 has 63 of 64; barrier 4 has 1 of 64",
    ),
    "barrier_number": ("run([] { block_sync(16, 32); })", "barrier number over 15"),
    "barrier_size": ("run([] { block_sync(1, 64); })", "barrier for more threads than the CTA has"),
    "barrier_disagreement": (
        "run([] { block_sync(1, tid() ? 32 : 0); })",
        "threads disagree on how many a barrier is for",
    ),
    "mask_without_caller": ("run([] { __syncwarp(1); })", "mask leaves out the calling lane"),
}

REFUSED = {
    "no_threads": ("grid.block = {0, 1, 1};", "test: 0 threads a CTA; allowed are 1 to 1024"),
    "too_many_threads": ("grid.block = {33, 32, 1};", "test: 1056 threads a CTA; allowed are 1 to 1024"),
    "no_ctas": ("grid.grid = {0, 1, 1};", "test: 0 CTAs"),
    "shared_memory": (
        "grid.dynamic_shared_bytes = 300000;",
        "test: 300000 bytes of shared memory a CTA; at most 262144",
    ),
    "no_entry": ("grid.entry = nullptr;", "test: no entry point"),
}

PROLOGUE = """
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>
#include "kernels.h"
#include "shim/intrinsics.h"
#include "shim/warp.h"
using namespace hostcuda::simt;
volatile int zero = 0;
[[gnu::noinline]] volatile int* at(std::uintptr_t address) { return reinterpret_cast<volatile int*>(address); }
[[gnu::noinline]] int dig(int n) { volatile char room[1000]; room[n % 1000] = 1; return n ? dig(n - 1) + room[5] : 0; }
"""


def program() -> str:
    text = [PROLOGUE]
    for name, body in CASES.items():
        text.append(f"void case_{name}() {{ {body} }}")
    for name, (body, _) in FAILURES.items():
        text.append(
            f"void case_{name}() {{ auto result = [] {{ {body.replace('run(', 'return run(')}; }}(); "
            'CHECK(result.failed); std::printf("%s\\n", result.error.c_str()); launch([] { __syncthreads(); }); }'
        )
    for name, (body, _) in REFUSED.items():
        text.append(
            f"void case_{name}() {{ GridSpec grid = spec([] {{}}, 1, 32); {body} try {{ grid_create(std::move(grid)); }} "
            'catch (const std::invalid_argument& error) { std::printf("%s\\n", error.what()); return; } CHECK(false); }'
        )
    names = [*CASES, *FAILURES, *REFUSED]
    text.append("int main(int, char** argv) {")
    text.extend(f'  if (!std::strcmp(argv[1], "{name}")) {{ case_{name}(); return 0; }}' for name in names)
    text.append("  return 3;\n}")
    return "\n".join(text)


@pytest.fixture(scope="module")
def threads(build) -> Path:
    return build("threads", program())


@pytest.mark.parametrize("name", CASES)
def test_threads(threads: Path, run, name: str) -> None:
    run(threads, name)


@pytest.mark.parametrize("name", FAILURES)
def test_failure_is_an_error_of_the_grid(threads: Path, run, name: str) -> None:
    assert FAILURES[name][1] in run(threads, name).stdout


@pytest.mark.parametrize("name", REFUSED)
def test_refused(threads: Path, run, name: str) -> None:
    assert REFUSED[name][1] in run(threads, name).stdout


def test_a_fault_elsewhere_is_not_ours(build, run) -> None:
    program = build(
        "elsewhere",
        PROLOGUE + "int main() { launch([] { __syncthreads(); }); *at(8) = 1; }",
    )
    assert run(program, check=False).returncode == -11
