# SPDX-License-Identifier: Apache-2.0
"""Ranks agree before they start, and fail together: what one rank alone finds wrong, every rank hears of."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from mpi4py import MPI

T = TypeVar("T")

#: Environment that shapes what is measured; all ranks need the same.
ENVIRONMENT_PREFIXES = ("LAGOM_", "HOSTCUDA_", "NCCL_")
#: Except where a difference is the point, or does not matter.
ENVIRONMENT_FREE = ("LAGOM_COUNTERS_FILE", "NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_HOSTID")


class Disagreement(RuntimeError):  # noqa: N818 - says what happened
    """Ranks were started with different arguments; names rank and field."""


class RankFailed(RuntimeError):  # noqa: N818 - says what happened
    """A step failed on a rank.

    :param rank: the first one it failed on. :param error: what it raised there.
    """

    def __init__(self, rank: int, error: Exception) -> None:
        super().__init__(str(error))
        self.rank = rank
        self.error = error


def environment() -> dict[str, str]:
    """What :func:`compare` looks at besides the arguments."""
    chosen = {k: v for k, v in os.environ.items() if k.startswith(ENVIRONMENT_PREFIXES) and k not in ENVIRONMENT_FREE}
    return dict(sorted(chosen.items()))


def compare(mpi_comm: MPI.Intracomm, fields: Mapping[str, object]) -> None:
    """Raise :class:`Disagreement` on every rank where one has other fields than rank 0."""
    of_all: list[dict[str, object]] = mpi_comm.allgather(dict(fields))
    for rank, other in enumerate(of_all):
        for name in sorted(set(other) | set(of_all[0])):
            mine, theirs = of_all[0].get(name, "not set"), other.get(name, "not set")
            if mine != theirs:
                raise Disagreement(f"ranks differ in {name}; rank 0: {mine}, rank {rank}: {theirs}")


def together(mpi_comm: MPI.Intracomm, step: Callable[[], T], on: int | None = None) -> T:
    """Do a step on every rank (or on rank `on` only, whose result all get); if one fails, all raise.

    :raises RankFailed: on every rank, with the first rank's error.
    """
    failure: Exception | None = None
    value: T | None = None
    if on is None or mpi_comm.Get_rank() == on:
        try:
            value = step()
        except Exception as error:
            failure = error
    failures: list[Exception | None] = mpi_comm.allgather(_portable(failure))
    for rank, told in enumerate(failures):
        if told is not None:
            raise RankFailed(rank, told)
    if on is not None:
        value = mpi_comm.bcast(value, root=on)
    return value  # type: ignore[return-value]  # no failure, so the step has returned a T


def _portable(error: Exception | None) -> Exception | None:
    """An error that other ranks can unpickle, of the same kind where that works."""
    import pickle

    if error is None:
        return None
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return copy if isinstance(copy, Exception) else RuntimeError(str(error))


def wait_politely(mpi_comm: MPI.Intracomm, state: int) -> int:
    """Largest `state` of all ranks; sleeps while it waits for them instead of spinning on a core they need."""
    import numpy as np
    from mpi4py import MPI

    mine, largest = np.array([state], dtype=np.int32), np.zeros(1, dtype=np.int32)
    request = mpi_comm.Iallreduce(mine, largest, op=MPI.MAX)
    while not request.Test():
        time.sleep(0.005)
    return int(largest[0])
