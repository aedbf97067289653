# SPDX-License-Identifier: Apache-2.0
"""Calls that are launched together."""

import contextlib
import threading
from collections.abc import Iterator

from . import _native
from .library import library

_open = threading.local()


@contextlib.contextmanager
def group() -> Iterator[None]:
    """Collectives called in the block are launched together at its end.

    The group is ended also where the block raises, because NCCL would count it as open for ever; what had been called
    is launched. Only collectives belong into a group: making, splitting and ending a communicator are refused there
    with a ValueError, setting its rules by NCCL.
    """
    library()
    _native.group_start()
    _open.depth = getattr(_open, "depth", 0) + 1
    try:
        yield
    finally:
        _open.depth -= 1
        _native.group_end()


def require_none(what: str) -> None:
    """ValueError inside a :func:`group` of this thread: its calls still need the communicators as they are."""
    if getattr(_open, "depth", 0):
        raise ValueError(f"{what} inside a group; end the group first")
