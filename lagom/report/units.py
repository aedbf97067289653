# SPDX-License-Identifier: Apache-2.0
"""Numbers as people read them. Times keep their nanoseconds, because equal runs must print equal times."""

from __future__ import annotations


def time(us: float) -> str:
    """Microseconds with three decimals, which is whole nanoseconds."""
    return f"{us:,.3f} us"


def size(count: int | None) -> str:
    """Bytes in the largest binary unit that leaves a short number."""
    if count is None:
        return "varies"
    for unit, scale in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            value = count / scale
            return f"{value:.0f} {unit}" if value == round(value) else f"{value:.1f} {unit}"
    return f"{count} B"


def change(before: float, after: float) -> str:
    """Relative change with its sign, to a thousandth of a percent where it is small."""
    if before == 0:
        return "same" if after == 0 else "new"
    percent = (after / before - 1) * 100
    if abs(percent) < 0.0005:
        return "same"
    return f"{percent:+.1f} %" if abs(percent) >= 0.05 else f"{percent:+.3f} %"
