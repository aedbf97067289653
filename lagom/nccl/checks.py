# SPDX-License-Identifier: Apache-2.0
"""Numbers that callers pass."""

import operator
from typing import Any


def whole(value: Any, name: str, low: int, high: int) -> int:
    """``value`` as an int from ``low`` to ``high``; ``name`` is what errors call it.

    NumPy's integers are fine. TypeError for anything else than a whole number (1.5, "1", True: C would cut or guess),
    ValueError out of range.
    """
    if isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}; a whole number is needed")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; a whole number is needed") from None
    if not low <= number <= high:
        raise ValueError(f"{name} {number}: allowed is {low} to {high}")
    return number
