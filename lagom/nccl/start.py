# SPDX-License-Identifier: Apache-2.0
"""Making a communicator in one call."""

import contextlib
import os
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _native
from ._native import LibraryError
from .checks import whole
from .communicator import Communicator
from .config import Config, blocks
from .groups import COMMUNICATORS, note, require_none
from .library import library

if TYPE_CHECKING:
    from mpi4py import MPI

_INT_MAX = 2**31 - 1
_Facts = tuple[str, int, int]
"""Host, device and NCCL version of a rank."""


def unique_id() -> bytes:
    """A new unique id, made by one rank and passed to all by whatever means. NcclError where there is no network."""
    library()
    return _native.unique_id()


def init(
    mpi_comm: "MPI.Comm | None" = None,
    device: int | None = None,
    config: Config | None = None,
    *,
    unique_id: bytes | Sequence[bytes] | None = None,
    rank: int | None = None,
    size: int | None = None,
) -> Communicator:
    """A communicator with the ranks of ``mpi_comm`` (default COMM_WORLD); call it on every one of them.

    ``device`` is this rank's device, by default its rank on its host; it becomes the thread's current one. What can go
    wrong before NCCL's own start (no library, no such device, different versions) is compared over MPI first, so that
    every rank raises and none waits for another: LibraryError or ValueError, with the rank in the text.

    Without MPI: pass ``unique_id`` (see :func:`unique_id`; several, the same on all ranks, make the start of very many
    ranks faster), ``rank`` and ``size``; ``device`` is then ``rank`` unless given. Such a communicator cannot set rules
    where it has several ranks, since nothing compares them. In a :func:`group`, one thread makes several.
    """
    if unique_id is not None or rank is not None or size is not None:
        if mpi_comm is not None:
            raise ValueError("pass either an MPI communicator or unique_id, rank and size, not both")
        if unique_id is None or rank is None or size is None:
            raise ValueError("unique_id, rank and size go together; one of them is missing")
        note("init", COMMUNICATORS)
        size = whole(size, "size", 1, _INT_MAX)
        rank = whole(rank, "rank", 0, size - 1)
        identities = [unique_id] if isinstance(unique_id, bytes) else list(unique_id)
        if not 1 <= len(identities) <= size:
            raise ValueError(f"{len(identities)} unique ids for {size} ranks: allowed is 1 to {size}")
        fields = _fields(config)
        _native.set_device(_choose_device(device, rank))
        handle = _native.CommHandle.create(size, identities, rank, fields)
        return Communicator(handle, blocking=blocks(config))
    if mpi_comm is None:
        from mpi4py import MPI

        mpi_comm = MPI.COMM_WORLD
    fields = _agree_on_facts(mpi_comm, device, config)
    identity = _share_unique_id(mpi_comm)
    handle = _native.CommHandle.create(mpi_comm.Get_size(), [identity], mpi_comm.Get_rank(), fields)
    return Communicator(handle, mpi_comm, blocking=blocks(config))


def init_all(devices: int | Sequence[int] | None = None) -> list[Communicator]:
    """Communicators of one thread for several devices of this process, one each: ``devices`` are their numbers, or how
    many from 0 on, or None for all. Calls on them go into a :func:`group`, so that none waits for another.

    ValueError for a device that does not exist, or twice. For a configuration, several :func:`init` in a group.
    """
    require_none("init_all")
    library()
    _fields(None)
    count = _native.device_count()
    if devices is None or isinstance(devices, int):
        chosen = list(range(count if devices is None else whole(devices, "devices", 1, count)))
    else:
        chosen = [whole(device, "device", 0, count - 1) for device in devices]
    if not chosen or len(set(chosen)) != len(chosen):
        raise ValueError(f"devices {chosen}: at least one is needed, and each once")
    if not blocks(None):
        raise ValueError("NCCL_COMM_BLOCKING=0: init_all makes blocking communicators; use several init in a group")
    return [Communicator(handle) for handle in _native.CommHandle.create_all(chosen)]


def join(
    unique_id: bytes,
    rank: int,
    size: int,
    device: int | None = None,
    config: Config | None = None,
    *,
    mpi_comm: "MPI.Comm | None" = None,
) -> Communicator:
    """Become rank ``rank`` of a communicator that grows to ``size`` ranks, see :meth:`Communicator.grow`.

    ``unique_id``: what its :meth:`Communicator.grow_id` gave. ``device`` is ``rank`` unless given.
    """
    note("join", COMMUNICATORS)
    size = whole(size, "size", 2, _INT_MAX)
    rank = whole(rank, "rank", 1, size - 1)
    fields = _fields(config)
    _native.set_device(_choose_device(device, rank))
    handle = _native.CommHandle.grow(None, size, unique_id, rank, fields)
    return Communicator(handle, mpi_comm, blocking=blocks(config))


def _fields(config: Config | None) -> dict[str, Any]:
    """The configuration as NCCL takes it; also where what the environment asks for cannot be had."""
    asked = [name for name in ("LAGOM_PLAN", "LAGOM_REQUIRE") if os.environ.get(name, "") not in ("", "0")]
    if asked and not library().patched:
        raise LibraryError(
            f"{asked[0]} is set, and {library().path} is not patched: it would run without the plan; unset it, or "
            "build the patched NCCL with `lagom build`"
        )
    if config is not None and not isinstance(config, Config):
        raise TypeError(f"config is {config!r}; a lagom.nccl.Config is needed")
    blocks(config)
    return (config or Config()).given()


def _agree_on_facts(mpi_comm: "MPI.Comm", device: int | None, config: Config | None) -> dict[str, Any]:
    """Choose this rank's device and return the configuration's fields; raise the first rank's failure, and
    differences, on every rank alike."""
    local_rank = _local_rank(mpi_comm)
    failure: Exception | None = None
    facts: _Facts | None = None
    fields: dict[str, Any] = {}
    before: int | None = None
    try:
        require_none("init")
        fields = _fields(config)
        chosen = _choose_device(device, local_rank)
        before = _native.current_device()
        _native.set_device(chosen)
        facts = (socket.gethostname(), chosen, library().version)
    except Exception as error:
        failure = error
    answers: list[tuple[Exception | None, _Facts | None]] = mpi_comm.allgather((failure, facts))
    try:
        for failed, (reason, _) in enumerate(answers):
            if reason is not None:
                reason.add_note(f"on rank {failed}")
                raise reason
        _compare([theirs for _, theirs in answers if theirs is not None])
    except Exception:
        if before is not None:
            # The failure of the start is the one to see.
            with contextlib.suppress(_native.CudaError):
                _native.set_device(before)
        raise
    return fields


def _compare(facts: list[_Facts]) -> None:
    seen: dict[tuple[str, int], int] = {}
    for rank, (host, device, version) in enumerate(facts):
        if version != facts[0][2]:
            raise ValueError(f"rank {rank} has NCCL {version}, rank 0 {facts[0][2]}; all ranks need the same")
        if (host, device) in seen:
            raise ValueError(f"ranks {seen[host, device]} and {rank} both chose device {device} of {host}")
        seen[host, device] = rank


def _share_unique_id(mpi_comm: "MPI.Comm") -> bytes:
    identity: bytes | Exception = b""
    if mpi_comm.Get_rank() == 0:
        try:
            identity = _native.unique_id()
        except _native.NcclError as error:
            identity = error
    identity = mpi_comm.bcast(identity)
    if isinstance(identity, Exception):
        raise identity
    return identity


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
    chosen = local_rank if device is None else whole(device, "device", -_INT_MAX - 1, _INT_MAX)
    if not 0 <= chosen < count:
        if device is None:
            raise ValueError(f"this host has {count} devices, too few for its rank {local_rank} (one device a rank)")
        raise ValueError(f"device {device}: this host has {count} devices, numbered from 0")
    return chosen
