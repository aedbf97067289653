# SPDX-License-Identifier: Apache-2.0
"""How an exact number of channels shares a collective, against an independent reference."""

import ctypes
import random
import subprocess
from pathlib import Path

import pytest
from patches.plan_parser import SOURCE
from patches.reference import parts


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path: Path = tmp_path_factory.mktemp("parts") / "libparts.so"
    subprocess.run(
        ["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
         str(SOURCE / "src" / "lagom" / "parts.cc"), "-o", str(path)],
        check=True,
    )  # fmt: skip
    return ctypes.CDLL(str(path))


def library_parts(library: ctypes.CDLL, count: int, element_bytes: int, n_channels: int) -> list[int]:
    each, last = ctypes.c_size_t(), ctypes.c_size_t()
    function = library._Z10lagomPartsmmiPmS_
    function(ctypes.c_size_t(count), ctypes.c_size_t(element_bytes), n_channels, ctypes.byref(each), ctypes.byref(last))
    return [each.value] * (n_channels - 1) + [last.value]


def cases() -> list[tuple[int, int, int]]:
    rng = random.Random(2297)
    counts = [1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 255, 1000, 65537, 1 << 20, (1 << 24) + 3]
    counts += [rng.randrange(1, 1 << rng.randrange(1, 36)) for _ in range(300)]
    return [(c, e, n) for c in counts for e in (1, 2, 4, 8) for n in (1, 2, 3, 5, 7, 8, 12, 24, 31, 32, 63, 64)]


def test_parts_are_those_of_the_reference(library: ctypes.CDLL) -> None:
    for count, element_bytes, n_channels in cases():
        assert library_parts(library, count, element_bytes, n_channels) == parts(count, element_bytes, n_channels)


def test_parts_are_whole_units_that_differ_by_one_at_most(library: ctypes.CDLL) -> None:
    for count, element_bytes, n_channels in cases():
        sizes = library_parts(library, count, element_bytes, n_channels)
        per_unit = 16 // element_bytes
        assert sum(sizes) == count
        assert all(size >= 0 for size in sizes)
        assert all(size % per_unit == 0 for size in sizes[:-1])
        units = -(-count // per_unit)
        if units >= n_channels * n_channels:  # enough units to deal out: nobody has more than one above the average
            assert max(-(-size // per_unit) for size in sizes) - units // n_channels <= 1
        else:  # never more than a few units on the last
            assert -(-sizes[-1] // per_unit) <= units // n_channels + n_channels
