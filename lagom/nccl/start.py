# SPDX-License-Identifier: Apache-2.0
"""Making a communicator in one call, over an MPI communicator."""

import socket
from typing import TYPE_CHECKING

from . import _native
from .communicator import Communicator, Config
from .library import library

if TYPE_CHECKING:
    from mpi4py import MPI


def init(mpi_comm: "MPI.Comm | None" = None, device: int | None = None, config: Config | None = None) -> Communicator:
    """A communicator with the ranks of ``mpi_comm`` (default COMM_WORLD); call it on every one of them.

    ``device`` is this rank's device, by default its rank on its host. The device becomes the thread's current one.
    What can go wrong before NCCL's own start (no library, no such device, different versions) is compared over MPI
    first, so that every rank raises and none waits for another: LibraryError or ValueError, with the rank in the
    text.
    """
    if mpi_comm is None:
        from mpi4py import MPI

        mpi_comm = MPI.COMM_WORLD
    rank, size = mpi_comm.Get_rank(), mpi_comm.Get_size()
    local_rank = _local_rank(mpi_comm)
    failure: Exception | None = None
    facts: tuple[str, int, int] | None = None
    try:
        facts = (socket.gethostname(), _choose_device(device, local_rank), library().version)
    except Exception as error:
        failure = error
    answers = mpi_comm.allgather((failure, facts))
    _raise_first(answers, rank)
    _compare([facts for _, facts in answers if facts is not None])
    identity: bytes | Exception = b""
    if rank == 0:
        try:
            identity = _native.unique_id()
        except _native.NcclError as error:
            identity = error
    identity = mpi_comm.bcast(identity)
    if isinstance(identity, Exception):
        raise identity
    return Communicator(_native.CommHandle.create(size, identity, rank, (config or Config()).given()), mpi_comm)


def _local_rank(mpi_comm: "MPI.Comm") -> int:
    from mpi4py import MPI

    on_host = mpi_comm.Split_type(MPI.COMM_TYPE_SHARED)
    try:
        return on_host.Get_rank()
    finally:
        on_host.Free()


def _choose_device(device: int | None, local_rank: int) -> int:
    library()
    count = _native.device_count()
    chosen = local_rank if device is None else device
    if not 0 <= chosen < count:
        if device is None:
            raise ValueError(f"this host has {count} devices, too few for its rank {local_rank} (one device a rank)")
        raise ValueError(f"device {device}: this host has {count} devices, numbered from 0")
    _native.set_device(chosen)
    return chosen


def _raise_first(answers: list[tuple[Exception | None, tuple[str, int, int] | None]], rank: int) -> None:
    """Raise the first rank's failure everywhere; every rank gets the same error, so that one line can stand for all."""
    for failed, (failure, _) in enumerate(answers):
        if failure is not None:
            failure.add_note(f"on rank {failed}")
            raise failure


def _compare(facts: list[tuple[str, int, int]]) -> None:
    seen: dict[tuple[str, int], int] = {}
    for rank, (host, device, version) in enumerate(facts):
        if version != facts[0][2]:
            raise ValueError(f"rank {rank} has NCCL {version}, rank 0 {facts[0][2]}; all ranks need the same")
        if (host, device) in seen:
            raise ValueError(f"ranks {seen[host, device]} and {rank} both chose device {device} of {host}")
        seen[host, device] = rank
