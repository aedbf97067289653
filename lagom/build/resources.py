# SPDX-License-Identifier: Apache-2.0
"""What a device function takes of an SM, as ptxas and nvlink report it: registers, stack, spills."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Resources:
    """Per thread. `registers` is known of kernels only; a function that kernels call is compiled within their limit."""

    registers: int | None
    stack_bytes: int
    spill_store_bytes: int  # in the code, not how often it runs
    spill_load_bytes: int


def parse(reports: Iterable[str]) -> dict[str, Resources]:
    """Functions by name in the output of `ptxas -v` and, for kernels once they are linked, `nvlink -v`."""
    found: dict[str, Resources] = {}
    for report in reports:
        name = ""
        for line in report.splitlines():
            if match := re.search(r"Function properties for '?([^\s':]+)", line):
                name = _plain(match[1])
            elif match := re.search(
                r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line
            ):
                found[name] = Resources(None, *map(int, match.groups()))
            elif (match := re.search(r"used (\d+) registers", line, re.IGNORECASE)) and name in found:
                # nvlink comes after ptxas and counts what the functions that a kernel calls need as well.
                found[name] = Resources(int(match[1]), *list(asdict(found[name]).values())[1:])
    return found


def _plain(symbol: str) -> str:
    """A mangled name without what differs between compilations: a C function's own name, else the symbol."""
    symbol = re.sub(r"^__nv_static_\d+__[0-9a-f]{8}_\d+_\w+?_cu_[0-9a-f]{8}__", "", symbol)
    symbol = re.sub(r"_GLOBAL__N__[0-9a-f]{8}_\d+_(\w+?)_cu_[0-9a-f]{8}(_\d+)?", r"\1.", symbol)
    if match := re.match(r"_Z(\d+)(\w+)", symbol):
        return match[2][: int(match[1])]
    return symbol


def write(path: Path, found: Mapping[str, Resources]) -> None:
    path.write_text(json.dumps({name: asdict(found[name]) for name in sorted(found)}, indent=1) + "\n")


def read(path: Path) -> dict[str, Resources]:
    return {name: Resources(**values) for name, values in json.loads(path.read_text()).items()}


def table(stock: Mapping[str, Resources], patched: Mapping[str, Resources]) -> str:
    """One line a function, each figure as stock -> patched; one number where both are equal."""
    rows = [("function", "registers", "stack B", "spill stores B", "spill loads B")]
    for name in sorted(stock.keys() | patched.keys()):
        before, after = (asdict(found[name]) if name in found else {} for found in (stock, patched))
        figures = []
        for field in ("registers", "stack_bytes", "spill_store_bytes", "spill_load_bytes"):
            old, new = (str(side.get(field, "absent")).replace("None", "-") for side in (before, after))
            figures.append(old if old == new else f"{old} -> {new}")
        rows.append((name, *figures))  # type: ignore[arg-type]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
