# SPDX-License-Identifier: Apache-2.0
"""Sizes as people write them."""

import re
from fractions import Fraction

_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMG]?)", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def parse_size(text: str) -> int:
    """Bytes in "8", "64K", "1.5M" or "1G" (1024-based, as in nccl-tests). ValueError for anything else.

    Stricter than nccl-tests, which ignores what follows the unit.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"size '{text}' does not parse; write a number, with K, M or G behind it for 1024-based units")
    number = Fraction(match[1]) * _UNITS[match[2].lower()]
    if number.denominator != 1:
        raise ValueError(f"size '{text}' is not a whole number of bytes")
    return int(number)
