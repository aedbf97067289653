# SPDX-License-Identifier: Apache-2.0
"""Data whose result is known exactly, for collectives of any size.

Every rank fills its buffer with a short tile repeated over and over. The tile's length is prime, so a block that lands
in the wrong place, of whatever power of two, does not look right. Results are then tiles as well, computed once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lagom.nccl import dtype as nccl_dtype
from lagom.workload import Communication

#: Elements of a tile; prime.
TILE = 65_521

Array = npt.NDArray[Any]


def _values(rank: int, op: str | None) -> Array:
    """Small whole numbers that sums and products of a few ranks keep exact in every dtype."""
    position = np.arange(TILE, dtype=np.int64)
    values: Array = (position + rank) % 7 != 0 if op == "prod" else (position * 31 + rank * 7) % 5 % 4
    return values.astype(np.float64)


def send_tile(communication: Communication, rank: int) -> Array:
    """What `rank` sends, over and over, in the communication's dtype."""
    if communication.op is None:
        # Nothing is added up, so any bit pattern will do; bytes that say where they are from.
        width = nccl_dtype(communication.dtype).itemsize
        generator = np.random.Generator(np.random.PCG64(rank + 1))
        raw = generator.integers(0, 256, size=TILE * width, dtype=np.uint8)
        return raw.view(nccl_dtype(communication.dtype).numpy)
    return _values(rank, communication.op).astype(nccl_dtype(communication.dtype).numpy)


def reduced_tile(communication: Communication, ranks: int) -> Array:
    """What the reduction of all ranks' tiles gives, in the communication's dtype."""
    values = np.stack([_values(rank, communication.op) for rank in range(ranks)])
    target = nccl_dtype(communication.dtype).numpy
    ufuncs = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "avg": np.add}
    result: Array = ufuncs[communication.op or ""].reduce(values, axis=0)
    if communication.op == "avg":
        result = result // ranks if target.kind in "iu" else result / ranks
    return result.astype(target)


def fill(target: Array, tile: Array) -> None:
    """Repeat `tile` over the one-dimensional `target`."""
    whole = target.size // tile.size * tile.size
    target[:whole].reshape(-1, tile.size)[:] = tile
    target[whole:] = tile[: target.size - whole]


def first_difference(found: Array, tile: Array, offset: int = 0, tolerance: float = 0.0) -> int | None:
    """Index of the first element of `found` that is not the repeated `tile`, which begins `offset` elements in.

    :param tolerance: relative to the tile's largest value; 0 compares bit by bit.
    """
    expected = np.roll(tile, -(offset % tile.size))
    whole = found.size // tile.size * tile.size
    parts = (
        (0, found[:whole].reshape(-1, tile.size), expected),
        (whole, found[whole:], expected[: found.size - whole]),
    )
    for start, part, wanted in parts:
        if tolerance:
            limit = tolerance * float(np.max(np.abs(tile.astype(np.float64))))
            wrong = ~(np.abs(part.astype(np.float64) - wanted.astype(np.float64)) <= limit)
        else:
            bits = np.dtype(f"u{part.dtype.itemsize}")
            wrong = part.view(bits) != wanted.view(bits)
        if wrong.any():
            return start + int(np.flatnonzero(wrong.reshape(-1))[0])
    return None
