# SPDX-License-Identifier: Apache-2.0
"""Inputs whose reduction is known exactly, whatever the order in which ranks are reduced.

Values are whole numbers so small that every partial sum or product of them is representable, so the expected result has
tolerance 0. The one exception is the average of floating-point values over a number of ranks that is no power of two,
where NCCL multiplies by a rounded 1/n first: 2 units in the last place, as in nccl-tests.

What a rank passes repeats after PERIOD elements, a prime: whatever power of two it is cut into, a part in the wrong
place shows.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from lagom.nccl import DType

Array = np.ndarray[Any, Any]

# Whole numbers up to 2 to this power are all representable.
_SIGNIFICANT_BITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53, "float8_e4m3fn": 4, "float8_e5m2": 3}
_MOST_DOUBLINGS = 6  # 2**6 fits every type, int8 included
_MOST_ROUNDED = 3
_LARGEST_SCALAR = 2
PERIOD = 65521


def is_float(dtype: DType) -> bool:
    """Whether the type has a fraction."""
    return dtype.name in _SIGNIFICANT_BITS


def exact_limit(dtype: DType) -> int:
    """All whole numbers from 0 to this one are values of the type."""
    if is_float(dtype):
        return int(2 ** _SIGNIFICANT_BITS[dtype.name])
    return int(np.iinfo(dtype.numpy).max)


@dataclass(frozen=True)
class Pattern:
    """What ``ranks`` ranks pass into a reduction ``op`` (None: a collective that moves data only).

    "mulsum" is a sum of inputs that each rank multiplies by its own :meth:`scalar` first.
    """

    dtype: DType
    op: str | None
    ranks: int

    def data(self, rank: int, count: int, start: int = 0) -> Array:
        """Elements ``start`` to ``start + count`` of what ``rank`` passes."""
        return _repeated(_one_period(self, rank), count, start)

    def expected(self, count: int, start: int = 0) -> Array:
        """Elements ``start`` to ``start + count`` of the reduction over all ranks."""
        return _repeated(_one_result(self), count, start)

    def scalar(self, rank: int) -> int:
        """What ``rank`` multiplies its input by where the operation is "mulsum"."""
        return 1 + rank % _LARGEST_SCALAR

    def one_period(self, rank: int) -> Array:
        """The first PERIOD elements of what ``rank`` passes."""
        index = np.arange(PERIOD, dtype=np.uint64)
        if self.op is None:
            return self._bits(index, rank)
        return self._values(index, rank).astype(self.dtype.numpy)

    def one_result(self) -> Array:
        """The first PERIOD elements of the reduction."""
        index = np.arange(PERIOD, dtype=np.uint64)
        factors = [self.scalar(rank) if self.op == "mulsum" else 1 for rank in range(self.ranks)]
        rows = (factors[rank] * self._values(index, rank) for rank in range(self.ranks))
        result = next(rows)
        for row in rows:
            if self.op in ("sum", "avg", "mulsum"):
                result = result + row
            elif self.op == "prod":
                result = result * row
            elif self.op == "max":
                result = np.maximum(result, row)
            else:
                result = np.minimum(result, row)
        if self.op == "avg":
            # Values are not negative here, so that whole-number division has one meaning.
            result = result / self.ranks if is_float(self.dtype) else result // self.ranks
        return result.astype(self.dtype.numpy)

    @property
    def tolerance_ulp(self) -> int:
        """Units in the last place by which a result may differ."""
        power_of_two = self.ranks & (self.ranks - 1) == 0
        return 2 if self.op == "avg" and is_float(self.dtype) and not power_of_two else 0

    def wrong(self, got: Array, expected: Array) -> int:
        """How many elements are not what they must be."""
        return int(np.count_nonzero(self._differ(got, expected)))

    def fault(self, got: Array, expected: Array) -> str | None:
        """What is wrong, with the bits of the first wrong element, or None."""
        differ = self._differ(got, expected)
        if not differ.any():
            return None
        at, unsigned = int(np.argmax(differ)), f"u{self.dtype.itemsize}"
        found, wanted = (int(array[at : at + 1].view(unsigned)[0]) for array in (got, expected))
        return f"{np.count_nonzero(differ)} of {got.size} elements wrong, number {at} has {found:#x}, not {wanted:#x}"

    def _differ(self, got: Array, expected: Array) -> Array:
        if self.op is None:
            unsigned = f"u{self.dtype.itemsize}"
            got, expected = got.view(unsigned), expected.view(unsigned)
        if self.tolerance_ulp == 0:
            # By value: whether a sum of opposite values is 0.0 or -0.0 depends on the order. A NaN counts as wrong.
            return np.not_equal(got, expected)
        exact = expected.astype(np.float64)
        _, exponent = np.frexp(exact)
        ulp = np.ldexp(1.0, exponent - _SIGNIFICANT_BITS[self.dtype.name])
        distance = np.abs(got.astype(np.float64) - exact)
        close: Array = distance <= self.tolerance_ulp * ulp
        return ~close  # so that a NaN is wrong

    def _bits(self, index: Array, rank: int) -> Array:
        """Any bit pattern at all, as integers of the element's size seen as the element type."""
        words = _mix(index, rank)
        unsigned = np.dtype(f"u{self.dtype.itemsize}")
        return words.astype(unsigned).view(self.dtype.numpy)

    def _values(self, index: Array, rank: int) -> Array:
        random = (_mix(index, rank) >> np.uint64(33)).astype(np.int64)
        if self.op == "prod":
            # Few ranks double, so that the product stays below 2**6; which ones changes from element to element.
            turn = (index.astype(np.int64) + rank) % self.ranks
            return np.where((turn < _MOST_DOUBLINGS) & (random % 2 == 1), 2, 1)
        limit = min(exact_limit(self.dtype), 1 << 20)
        signed = self.dtype.numpy.kind != "u"
        if self.op in ("max", "min"):
            return random % (2 * limit + 1) - limit if signed else random % (limit + 1)
        if self.op == "mulsum":
            limit //= _LARGEST_SCALAR
        share = limit // self.ranks
        if share == 0:
            # More ranks than the type can count: in each element only `limit` of them pass a 1.
            return ((index.astype(np.int64) + rank) % self.ranks < limit).astype(np.int64)
        if self.op in ("sum", "mulsum") and signed:
            return random % (2 * share + 1) - share
        values = random % (share + 1)
        if self.tolerance_ulp:
            # Each value that is not 0 adds a rounding: keep few, whatever the number of ranks.
            values[(index.astype(np.int64) + rank) % self.ranks >= _MOST_ROUNDED] = 0
        return values


@lru_cache(maxsize=128)
def _one_period(pattern: Pattern, rank: int) -> Array:
    return pattern.one_period(rank)


@lru_cache(maxsize=32)
def _one_result(pattern: Pattern) -> Array:
    return pattern.one_result()


def _repeated(period: Array, count: int, start: int) -> Array:
    """Elements ``start`` to ``start + count`` of ``period`` again and again."""
    turned = np.roll(period, -(start % PERIOD))
    # By bytes: NumPy repeats the types of ml_dtypes element by element.
    words = np.resize(turned.view(f"u{turned.itemsize}"), count) if count else turned[:0].view(f"u{turned.itemsize}")
    return words.view(period.dtype)


def _mix(index: Array, rank: int) -> Array:
    """Well-spread 64-bit numbers, different for every element and rank (a multiply-xorshift hash)."""
    words = index + np.uint64((rank + 1) * 0x9E3779B97F4A7C15 % 2**64)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
