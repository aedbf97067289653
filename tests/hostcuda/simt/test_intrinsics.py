# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (lines of C++)
"""CUDA's intrinsics that the shim supplies, against values from the CUDA programming guide's definitions."""

from pathlib import Path

import pytest

CASES = {
    "counting": """
        CHECK(__popc(0xf0f0u) == 8 && __popcll(~0ull) == 64 && __ffs(0) == 0 && __ffs(8) == 4 && __ffsll(1ll << 40) == 41);
        CHECK(__clz(0) == 32 && __clz(1) == 31 && __clz(-1) == 0 && __clzll(0) == 64 && __clzll(1) == 63);
        CHECK(__brev(1u) == 0x80000000u && __brev(0x12345678u) == 0x1e6a2c48u);
    """,
    "funnel_shift": """
        CHECK(__funnelshift_r(0x11223344u, 0x55667788u, 8) == 0x88112233u);
        CHECK(__funnelshift_r(0x11223344u, 0x55667788u, 0) == 0x11223344u);
        CHECK(__funnelshift_r(0x11223344u, 0x55667788u, 32) == 0x11223344u);
        CHECK(__funnelshift_l(0x11223344u, 0x55667788u, 8) == 0x66778811u);
    """,
    "high_product": """
        CHECK(__umulhi(0xffffffffu, 0xffffffffu) == 0xfffffffeu && __umul64hi(~0ull, ~0ull) == ~0ull - 1);
    """,
    "byte_perm": """
        CHECK(__byte_perm(0x33221100u, 0x77665544u, 0x7250u) == 0x77225500u);
        CHECK(__byte_perm(0x33221100u, 0x77665544u, 0x3210u) == 0x33221100u);
        CHECK(__byte_perm(0x33228000u, 0x77665544u, 0x9999u) == 0xffffffffu && __byte_perm(0, 0, 0x8888u) == 0);
    """,
    "find_nth_set": """
        CHECK(__fns(0xb4u, 0, 1) == 2 && __fns(0xb4u, 0, 3) == 5 && __fns(0xb4u, 0, 4) == 7 && __fns(0xb4u, 0, 5) == ~0u);
        CHECK(__fns(0xb4u, 3, 1) == 4 && __fns(0xb4u, 7, -1) == 7 && __fns(0xb4u, 6, -2) == 4);
        CHECK(__fns(0xb4u, 2, 0) == 2 && __fns(0xb4u, 3, 0) == ~0u);
    """,
    "mixed_minimum": """
        CHECK(::min(3, 4l) == 3 && ::max(3u, 4ull) == 4 && ::min(2.5f, 2) == 2 && ::max(-1, 0l) == 0);
    """,
    "atomics": """
        static int sum, high = 5, low = 5, swapped = 1, bits;
        static long long wide;
        static float real;
        sum = 0; bits = 0; wide = 0; real = 0;
        launch([] {
          int before = atomicAdd(&sum, 2);
          CHECK(before % 2 == 0 && before < 2 * 96);
          atomicAdd(&wide, 1ll << 33);
          atomicAdd(&real, 0.5f);
          atomicMax(&high, int(tid()));
          atomicMin(&low, -int(tid()));
          atomicOr(&bits, 1 << tid() % 8);
        }, 1, 96);
        CHECK(sum == 192 && wide == 96ll << 33 && real == 48 && high == 95 && low == -95 && bits == 0xff);
        CHECK(atomicExch(&swapped, 7) == 1 && atomicCAS(&swapped, 7, 9) == 7 && atomicCAS(&swapped, 7, 1) == 9 && swapped == 9);
        CHECK(atomicAnd(&bits, 0xf0) == 0xff && atomicXor(&bits, 0x0f) == 0xf0 && atomicSub(&bits, 0x1f) == 0xff && bits == 0xe0);
    """,
    "shared_addresses_are_pointers": """
        GridSpec grid = spec([] {
          void* mine = self().dynamic_shared;
          CHECK(std::uint32_t(__cvta_generic_to_shared(mine)) == reinterpret_cast<std::uintptr_t>(mine));
          CHECK(__cvta_shared_to_generic(__cvta_generic_to_shared(mine)) == mine);
        }, 1, 32);
        grid.dynamic_shared_bytes = 64;
        CHECK(!finish(std::move(grid)).failed);
    """,
    "global_addresses_are_pointers": """
        static const int seven = 7;
        launch([] {
          CHECK(__cvta_global_to_generic(__cvta_generic_to_global(&seven)) == &seven);
          CHECK(__ldg(&seven) == 7);
        }, 1, 1);
    """,
    "only_the_system_fence_costs_time": """
        GridSpec grid = spec([] {
          __threadfence_block(); __threadfence();
          CHECK(self().vt_ps == 0);
          __threadfence_system();
          CHECK(self().vt_ps == 250);
        }, 1, 1);
        grid.clock.fence_ps = 250;
        CHECK(!finish(std::move(grid)).failed);
    """,
    "nanosleep_gives_way": """
        static int turns;
        turns = 0;
        launch([] { if (tid() == 0) while (turns < 31) __nanosleep(100); else turns++; });
        CHECK(turns == 31);
    """,
    "device_clock": """
        launch([] { self().vt_ps = 7000; CHECK((clock64() & 0xffff) == 7 && clock64() >> 63 == 1); }, 1, 1);
    """,
}


@pytest.fixture(scope="module")
def intrinsics(build) -> Path:
    text = ['#include "kernels.h"', '#include "shim/intrinsics.h"']
    text.extend(f"void case_{name}() {{ {body} }}" for name, body in CASES.items())
    text.append("int main(int, char** argv) {")
    text.extend(f'  if (!std::strcmp(argv[1], "{name}")) {{ case_{name}(); return 0; }}' for name in CASES)
    text.append("  return 3;\n}")
    return build("intrinsics", "\n".join(text))


@pytest.mark.parametrize("name", CASES)
def test_intrinsics(intrinsics: Path, run, name: str) -> None:
    run(intrinsics, name)
