# SPDX-License-Identifier: Apache-2.0
"""The data check itself: right results pass, and every kind of wrong one is found where it is."""

from __future__ import annotations

import numpy as np
import pytest

from lagom.device import patterns
from lagom.workload import Communication

SIZES = (1, 5, patterns.TILE - 1, patterns.TILE, patterns.TILE + 1, 3 * patterns.TILE + 7)


def gather(dtype: str = "bfloat16") -> Communication:
    """An all-gather of some size."""
    return Communication("g", "all_gather", dtype, 8)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("offset", [0, 1, patterns.TILE, patterns.TILE + 3])
def test_right_data_passes(size: int, offset: int) -> None:
    tile = patterns.send_tile(gather(), 2)
    whole = np.empty(size + offset, tile.dtype)
    patterns.fill(whole, tile)
    assert patterns.first_difference(whole[offset:], tile, offset) is None


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("where", [0.0, 0.5, 1.0])
def test_one_wrong_element_is_found(size: int, where: float) -> None:
    tile = patterns.send_tile(gather("float32"), 0)
    data = np.empty(size, tile.dtype)
    patterns.fill(data, tile)
    index = int(where * (size - 1))
    data.view(np.uint32)[index] ^= 1
    assert patterns.first_difference(data, tile) == index


@pytest.mark.parametrize("shift", [512, 4096, 1 << 16, 1 << 20])
def test_misplaced_blocks_are_found(shift: int) -> None:
    tile = patterns.send_tile(gather(), 1)
    data = np.empty(2 << 20, tile.dtype)
    patterns.fill(data, tile)
    data[:shift] = data[shift : 2 * shift].copy()
    assert patterns.first_difference(data, tile) is not None


def test_ranks_send_different_data() -> None:
    tiles = [patterns.send_tile(gather(), rank).tobytes() for rank in range(8)]
    assert len(set(tiles)) == 8


@pytest.mark.parametrize("op", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("dtype", ["int8", "int32", "float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_reductions_are_exact_in_any_order(op: str, dtype: str, ranks: int) -> None:
    call = Communication("r", "all_reduce", dtype, 8, op=op)
    function = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[op]
    tiles = [patterns.send_tile(call, rank) for rank in range(ranks)]
    for order in (tiles, tiles[::-1]):
        total = order[0]
        for tile in order[1:]:
            total = function(total, tile).astype(total.dtype)
        assert patterns.first_difference(total, patterns.reduced_tile(call, ranks)) is None


def test_a_rank_left_out_of_a_sum_is_found() -> None:
    call = Communication("r", "all_reduce", "float32", 8, op="sum")
    total = sum((patterns.send_tile(call, rank) for rank in range(3)), np.zeros(patterns.TILE, np.float32))
    assert patterns.first_difference(total, patterns.reduced_tile(call, 4)) is not None


def test_tolerance_is_for_rounding_only() -> None:
    tile = np.array([1.0, 2.0, 3.0], np.float32)
    assert patterns.first_difference(tile * np.float32(1 + 1e-7), tile, tolerance=1e-6) is None
    assert patterns.first_difference(tile * np.float32(1.01), tile, tolerance=1e-6) == 0
    assert patterns.first_difference(np.full(3, np.nan, np.float32), tile, tolerance=1e-6) == 0
