# SPDX-License-Identifier: Apache-2.0
"""The benchmark's inputs: their reduction is exact in the element type, in any order."""

import numpy as np
import pytest

from lagom.bench.options import OP_NAMES
from lagom.bench.patterns import PERIOD, Pattern, is_float
from lagom.nccl import DTYPES, DType

COUNT = 4099


def reduced(pattern: Pattern, order: list[int]) -> np.ndarray:
    """What adding up in the element type itself gives, rank by rank in ``order``."""
    kind = pattern.dtype.numpy
    rows = [pattern.data(rank, COUNT) for rank in order]
    if pattern.op == "avg" and is_float(pattern.dtype):
        # As NCCL does it: multiplied by 1/n, which is rounded to the type.
        share = np.array([1 / pattern.ranks]).astype(kind).astype(np.float64)
        rows = [(row.astype(np.float64) * share).astype(kind) for row in rows]
    elif pattern.op == "mulsum":
        rows = [(row * kind.type(pattern.scalar(rank))).astype(kind) for rank, row in zip(order, rows, strict=True)]
    result = rows[0]
    for row in rows[1:]:
        if pattern.op in ("sum", "avg", "mulsum"):
            result = (result + row).astype(kind)
        elif pattern.op == "prod":
            result = (result * row).astype(kind)
        else:
            result = (np.maximum if pattern.op == "max" else np.minimum)(result, row)
    if pattern.op == "avg" and not is_float(pattern.dtype):
        result = result // kind.type(pattern.ranks)
    return result


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 6, 7, 8, 24])
@pytest.mark.parametrize("op", OP_NAMES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_reduction_in_the_type_is_the_expected_one(dtype: DType, op: str, ranks: int) -> None:
    pattern = Pattern(dtype, op, ranks)
    expected = pattern.expected(COUNT)
    for order in (list(range(ranks)), list(reversed(range(ranks))), [*range(1, ranks), 0]):
        assert pattern.wrong(reduced(pattern, order), expected) == 0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("op", [None, *OP_NAMES])
def test_parts_are_parts_of_the_whole(dtype: DType, op: str | None) -> None:
    pattern = Pattern(dtype, op, 3)
    whole = pattern.data(1, 100)
    assert whole[40:60].tobytes() == pattern.data(1, 20, start=40).tobytes()
    if op is not None:
        assert pattern.expected(100)[40:60].tobytes() == pattern.expected(20, start=40).tobytes()


def test_what_is_passed_repeats() -> None:
    pattern = Pattern(DTYPES[3], "sum", 2)
    data = pattern.data(1, 2 * PERIOD + 7, start=5)
    assert (data[:PERIOD] == data[PERIOD : 2 * PERIOD]).all()
    assert all((data[: -1 << shift] != data[1 << shift :]).mean() > 0.9 for shift in range(16))


@pytest.mark.parametrize("op", [None, "sum", "max", "avg"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_wrong_data_is_seen(dtype: DType, op: str | None) -> None:
    """Unwritten memory, another rank's data and shifted data all differ in many elements."""
    pattern = Pattern(dtype, op, 2)
    right = pattern.expected(COUNT) if op else pattern.data(0, COUNT)
    unwritten = np.full(COUNT * dtype.itemsize, 0xA5, np.uint8).view(dtype.numpy)
    assert pattern.wrong(right, right) == 0
    for bad in (unwritten, pattern.data(1, COUNT), np.roll(right.view(f"u{dtype.itemsize}"), 1).view(dtype.numpy)):
        assert pattern.wrong(bad, right) > COUNT // 4


def test_two_units_in_the_last_place() -> None:
    dtype = next(d for d in DTYPES if d.name == "float32")
    pattern = Pattern(dtype, "avg", 3)
    assert pattern.tolerance_ulp == 2 and Pattern(dtype, "avg", 4).tolerance_ulp == 0
    right = np.array([1.5, 1000.0, 0.0], np.float32)
    step = np.nextafter(right, np.float32(np.inf)) - right
    assert pattern.wrong(right + 2 * step, right) == 0
    assert pattern.wrong(right + 3 * step, right) >= 2
    assert pattern.wrong(np.array([np.nan, 1000.0, 0.0], np.float32), right) == 1
