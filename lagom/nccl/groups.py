# SPDX-License-Identifier: Apache-2.0
"""Calls that are launched together."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from . import _native
from .library import library


class _Open(threading.local):
    """The groups that this thread has open: how deep, what kind of calls is in them, and what must outlive them."""

    def __init__(self) -> None:
        self.depth = 0
        self.kind: str | None = None
        self.simulated = False
        self.kept: list[Any] = []


_open = _Open()
CALLS, COMMUNICATORS = "calls", "communicators"


@contextlib.contextmanager
def group() -> Iterator[None]:
    """What is called in the block is launched together at its end; groups may be nested, the outermost end counts.

    A group holds either collectives, sends and receives, or the making of communicators (``init`` without MPI,
    ``split``, ``shrink``, ``grow``, ``finalize``, windows), which are usable after its end; NCCL takes no mixture, and
    ending a communicator does not belong into one: ValueError. The group is ended also where the block raises, because
    NCCL would count it as open for ever; what had been called is launched.
    """
    library()
    _native.group_start()
    _enter()
    try:
        yield
    finally:
        try:
            _native.group_end()
        finally:
            _leave()


class Estimate:
    """``time_us``: NCCL's estimate for the last collective of a :func:`simulate` block in microseconds.

    None before the block has ended, and where NCCL has none (sends and receives only).
    """

    time_us: float | None = None


@contextlib.contextmanager
def simulate() -> Iterator[Estimate]:
    """Collectives in the block are not run; NCCL's estimate of the time is in the value after the block.

    Blocking communicators only, and no group around it: ValueError. LibraryError where NCCL is older than 2.22.
    """
    library()
    if _open.depth:
        raise ValueError("simulate inside a group; only an outermost group can be simulated")
    _native.group_start()
    _enter()
    _open.simulated = True
    estimate = Estimate()
    try:
        yield estimate
    finally:
        try:
            time_us = _native.group_simulate_end()
            estimate.time_us = time_us if time_us >= 0 else None
        finally:
            _leave()


def _enter() -> None:
    _open.depth += 1


def _leave() -> None:
    _open.depth -= 1
    if _open.depth == 0:
        _open.kind = None
        _open.simulated = False
        _open.kept.clear()


def note(what: str, kind: str, keep: Any = None, *, blocking: bool = True) -> None:
    """Say that ``what`` is about to be called: ValueError where this thread's group holds the other kind.

    ``keep`` is held until the outermost group has ended, because NCCL writes to it then.
    """
    if not _open.depth:
        return
    if _open.simulated and not blocking:
        raise ValueError(f"{what}: simulate needs a blocking communicator; NCCL would run the call")
    if _open.kind not in (None, kind):
        raise ValueError(f"{what} inside a group of {_open.kind}; end the group first")
    _open.kind = kind
    if keep is not None:
        _open.kept.append(keep)


def keep(what: Any) -> None:
    """Hold ``what`` until this thread's outermost group has ended."""
    if _open.depth:
        _open.kept.append(what)


def require_none(what: str) -> None:
    """ValueError inside a :func:`group` of this thread: its calls still need the communicators as they are."""
    if _open.depth:
        raise ValueError(f"{what} inside a group; end the group first")
