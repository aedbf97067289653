# SPDX-License-Identifier: Apache-2.0
"""Times that device code stored are corrected once their launch is placed; the formulas of device code."""

import ctypes
from collections.abc import Iterator

import pytest
from hostcuda.clock.modelled import MS, US, ClockError, Kernel, Make

WORDS = ctypes.c_ulonglong * 16


def word(launch: int, ns: int) -> int:
    return 1 << 63 | launch << 40 | ns


@pytest.fixture
def words(make: Make) -> Iterator[ctypes.Array]:
    found = WORDS()
    yield found
    make().unregister(found)


def test_words_become_absolute(make: Make, words: ctypes.Array) -> None:
    clock = make()
    clock.register(words)
    op = clock.grid(clock.stream(), 4)
    arrival, launch, _ = clock.start_details(op)
    words[0], words[1], words[2] = word(launch, 0), word(launch, 1000), word(launch, 20_000)
    words[3], words[4] = word(launch + 1, 5), 77
    clock.executed(op, 20 * US, peers=1 * MS)
    before = list(words)
    assert words[0] == word(launch, 0)
    clock.synchronize(op)
    assert arrival < 1 * MS
    assert list(words[:5]) == [1_000_000, 1_001_000, 1_020_000, before[3], 77]


def test_words_stretch_with_their_grid(make: Make, words: ctypes.Array) -> None:
    clock = make()
    clock.register(words)
    op = clock.grid(clock.stream(), 4)
    _, launch, _ = clock.start_details(op)
    words[0], words[1] = word(launch, 500_000), word(launch, 1_000_000)
    clock.executed(op, 1 * MS, traffic=4 * 10**9)  # far more than the memory carries in 1 ms
    clock.synchronize(op)
    times = clock.times(op)
    assert times.end - times.begin > 2 * MS
    assert words[1] == times.end // 1000
    assert words[0] == pytest.approx((times.begin + times.end) // 2000, abs=1)


def test_ranges(make: Make, words: ctypes.Array) -> None:
    clock = make()
    for offset, size, reason in ((4, 8, "aligned"), (0, 12, "aligned")):
        with pytest.raises(ClockError, match=reason):
            clock.register(words, offset, size)
    clock.register(words, 0, 64)
    for offset, size in ((0, 8), (56, 16), (32, 8)):
        with pytest.raises(ClockError, match="overlaps"):
            clock.register(words, offset, size)
    assert clock.unregister(words)
    assert not clock.unregister(words)
    clock.register(words)


def test_ctas_get_sms_of_their_own(make: Make) -> None:
    clock = make()
    _, _, first = clock.start_details(clock.grid(clock.stream(), 64))
    _, _, second = clock.start_details(clock.grid(clock.stream(), 20))
    assert len(set(first)) == 64
    assert not set(first) & set(second[:20])


def test_ctas_avoid_busy_sms(make: Make) -> None:
    clock = make()
    clock.kernel(clock.stream(), Kernel(ctas=40))
    _, _, sms = clock.start_details(clock.grid(clock.stream(), 30))
    assert set(sms[:30]) == set(range(40, 70))


def test_copy_formula(make: Make) -> None:
    copy = make()._lib.abi_copy_ps
    load, store, full = 10_000, 20_000, 256  # 10 and 20 ps a byte
    assert copy(load, store, full, 1024, 0, 512) == 10_240
    assert copy(load, store, full, 1024, 1024, 256) == 30_720
    assert copy(load, store, full, 1024, 1024, 64) == 4 * 30_720
    assert copy(load, store, full, 0, 0, 32) == 0
