# SPDX-License-Identifier: Apache-2.0
"""Reading nccl-tests' table, and the table of differences between two of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_KEYS = 5  # size, count, type, redop, root
_SIDE = 4  # time, algbw, busbw, #wrong

Key = tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """One line of a table: times in microseconds, wrong elements (None where not checked)."""

    key: Key
    out_of_place_us: float
    in_place_us: float
    wrong: int | None


def read(text: str) -> list[Row]:
    """The rows of nccl-tests' output (or of `lagom bench`), in order; lines of any other form are passed over."""
    rows = []
    for line in text.splitlines():
        cells = line.split()
        if line.startswith("#") or len(cells) < _KEYS + 2 * _SIDE or not cells[0].isdigit():
            continue
        sides = cells[_KEYS : _KEYS + _SIDE], cells[_KEYS + _SIDE : _KEYS + 2 * _SIDE]
        try:
            times = [float(side[0]) for side in sides]
            checked = [int(float(side[3])) for side in sides if side[3] != "N/A"]
        except ValueError:
            continue
        rows.append(Row(tuple(cells[:_KEYS]), times[0], times[1], sum(checked) if checked else None))
    return rows


@dataclass(frozen=True)
class Difference:
    """One size: medians over the repeats in microseconds, and patched divided by stock."""

    key: Key
    stock_us: tuple[float, float]  # out of place, in place
    patched_us: tuple[float, float]
    wrong: int

    @property
    def ratios(self) -> tuple[float | None, float | None]:
        """Above 1: patched is slower. None where stock took no time."""
        pairs = zip(self.patched_us, self.stock_us, strict=True)
        first, second = (patched / stock if stock > 0 else None for patched, stock in pairs)
        return first, second


def differences(tables: Mapping[str, Sequence[Sequence[Row]]]) -> list[Difference]:
    """Compare the tables of both sides, one a repeat; sizes that a side lacks are left out."""
    medians: dict[str, dict[Key, tuple[float, float]]] = {}
    wrong: dict[Key, int] = {}
    for side, repeats in tables.items():
        gathered: dict[Key, list[Row]] = {}
        for row in (row for rows in repeats for row in rows):
            gathered.setdefault(row.key, []).append(row)
            wrong[row.key] = wrong.get(row.key, 0) + (row.wrong or 0)
        medians[side] = {
            key: (
                statistics.median(row.out_of_place_us for row in rows),
                statistics.median(row.in_place_us for row in rows),
            )
            for key, rows in gathered.items()
        }
    stock, patched = medians.get("stock", {}), medians.get("patched", {})
    return [Difference(key, stock[key], patched[key], wrong[key]) for key in stock if key in patched]


def mean_ratio(found: Sequence[Difference]) -> float | None:
    """The geometric mean of all ratios; None where there is none."""
    ratios = [ratio for difference in found for ratio in difference.ratios if ratio]
    return math.exp(statistics.fmean(map(math.log, ratios))) if ratios else None


def text(found: Sequence[Difference]) -> str:
    """The table of differences."""
    head: tuple[str, ...] = ("size (B)", "type", "redop", "root", "stock us", "patched us", "ratio")
    head += ("in place: stock us", "patched us", "ratio", "#wrong")
    rows: list[tuple[str, ...]] = [head]
    for difference in found:
        size, _, dtype, redop, root = difference.key
        cells = [size, dtype, redop, root]
        for stock, patched, ratio in zip(difference.stock_us, difference.patched_us, difference.ratios, strict=True):
            cells += [f"{stock:.2f}", f"{patched:.2f}", _decimals(ratio, 3)]
        rows.append((*cells, str(difference.wrong)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([*lines, f"mean ratio patched/stock: {_decimals(mean_ratio(found), 4)} over {len(found)} sizes"])


def _decimals(value: float | None, places: int) -> str:
    return "-" if value is None else f"{value:.{places}f}"
