# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (lines of C++)
"""What kernels on NCCL's device API need beside the rest of the shim: their stash, inboxes with times, lines, waiting."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hostcuda.simt.conftest import Program

CASES = {
    "a_named_barrier_counts_its_threads": """
        static int before[2];
        launch([] {
          unsigned group = tid() / 64;
          __atomic_fetch_add(&before[group], 1, __ATOMIC_RELAXED);
          __barrier_sync_count(1 + group, 64);
          CHECK(before[group] == 64);
        }, 1, 128);
    """,
    "the_stash_is_a_ctas_own": """
        GridSpec grid = spec([] {
          auto* word = reinterpret_cast<unsigned*>(stash());
          if (tid() == 0) { *word = 7 + self().view->block_index.x; reinterpret_cast<char*>(word)[kStashBytes - 1] = 1; }
          block_sync(0, 0);
          CHECK(*word == 7 + self().view->block_index.x);
        }, 3, 64);
        grid.static_shared_bytes = kStashBytes;
        CHECK(!finish(std::move(grid)).failed);
    """,
    "streaming_accesses_are_accesses": """
        launch([] {
          static unsigned short value = 3;
          struct Four { int x, y, z, w; } four{1, 2, 3, 4}, other{};
          CHECK(__ldcs(&value) == 3);
          __stcs(&other, four); CHECK(other.x == 1 && other.w == 4);
          __stwt(&other.y, 9); CHECK(other.y == 9);
        }, 1, 1);
    """,
    "an_inbox_keeps_the_times_of_its_last_values": """
        auto* inbox = reinterpret_cast<std::uint32_t*>(map_windows() + 128);
        GridSpec grid = spec([&] {
          for (std::uint32_t value = 9; value <= 12; ++value) { self().vt_ps = 100 * value; inbox_stored(inbox, value); *inbox = value; }
          for (std::uint32_t value = 9; value <= 12; ++value) { self().vt_ps = 0; inbox_waited(inbox, value); CHECK(self().vt_ps == 100 * value); }
          self().vt_ps = 5000; inbox_waited(inbox, 12); CHECK(self().vt_ps == 5000);
        }, 1, 1);
        grid.clock.epoch = 1;
        CHECK(!finish(std::move(grid)).failed);
    """,
    "neighbouring_inboxes_do_not_mix": """
        auto* first = reinterpret_cast<std::uint32_t*>(map_windows());
        GridSpec grid = spec([&] {
          auto* second = first + 16;
          self().vt_ps = 100; inbox_stored(first, 3);
          self().vt_ps = 700; inbox_stored(second, 3);
          self().vt_ps = 0; inbox_waited(first, 3); CHECK(self().vt_ps == 100);
        }, 1, 1);
        grid.clock.epoch = 1;
        CHECK(!finish(std::move(grid)).failed);
    """,
    "another_launch_left_no_time": """
        auto* inbox = reinterpret_cast<std::uint32_t*>(map_windows());
        GridSpec writer = spec([&] { self().vt_ps = 900; inbox_stored(inbox, 4); }, 1, 1);
        writer.clock.epoch = 1;
        CHECK(!finish(std::move(writer)).failed);
        GridSpec reader = spec([&] { inbox_waited(inbox, 4); CHECK(self().vt_ps == 0); }, 1, 1);
        reader.clock.epoch = 2;
        CHECK(!finish(std::move(reader)).failed);
    """,
    "memory_outside_of_the_window_has_no_times": """
        static std::uint32_t inbox[64];
        launch([] { inbox_stored(inbox, 1); inbox_waited(inbox, 1); CHECK(self().vt_ps == 0); }, 1, 1);
    """,
    "lines_cost_time": """
        char* near = map_windows();
        GridSpec grid = spec([&] {
          charge_lines<true>(64, 3, 1, [&](int) { return near; });
          CHECK(self().vt_ps == 64 * 3 * 16 * 2);
          self().vt_ps = 0;
          charge_lines<false>(64, 1, 2, [&](int) { return near; });
          CHECK(self().vt_ps == 64 * 2 * 16 * 3);
        }, 1, 64);
        grid.clock.load_fs_per_byte = 2000;
        grid.clock.store_fs_per_byte = 3000;
        grid.clock.full_threads = 64;
        GridResult result = finish(std::move(grid));
        CHECK(!result.failed && result.bytes_loaded == 64 * 48 && result.bytes_stored == 64 * 32);
    """,
    "waiting_counts_in_unsigned_numbers": """
        static bool open;
        launch([] {
          std::uint32_t steps = 0;
          if (tid() == 0) {
            int looks = 0;
            while (!open) looks += poll(steps);  // gives way, or the other thread would never run
          } else {
            open = true;
          }
        }, 1, 2);
    """,
}


@pytest.fixture(scope="module")
def program(build: Callable[[str, str], Path]) -> Path:
    cases = "".join(f'if (name == "{name}") {{ {body} return 0; }}\n' for name, body in CASES.items())
    return build(
        "device_api",
        '#include "kernels.h"\n#include "windows.h"\n#include "shim/intrinsics.h"\n#include "shim/device_api.h"\n#include <string>\n'
        "using namespace hostcuda::shim;\nusing namespace hostcuda::simt;\n"
        f"int main(int, char** argv) {{ std::string name = argv[1];\n{cases} return 1; }}\n",
    )


@pytest.mark.parametrize("case", CASES)
def test_device_api(program: Path, run: Program, case: str) -> None:
    run(program, case)
