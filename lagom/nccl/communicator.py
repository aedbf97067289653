# SPDX-License-Identifier: Apache-2.0
"""Communicators."""

import time
import warnings
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _native, dtypes
from .checks import whole
from .collectives import Collectives
from .config import Config, blocks
from .counters import Counters
from .dtypes import DType
from .groups import COMMUNICATORS, keep, note, require_none
from .one_sided import OneSided
from .point_to_point import PointToPoint
from .properties import MemoryUse, Properties, memory_use, properties
from .reductions import ReductionOp
from .registration import Registration, Window
from .ruled import Ruled

if TYPE_CHECKING:
    from mpi4py import MPI


_INT_MAX = 2**31 - 1
_POLL_S = 1e-3


class Communicator(Collectives, PointToPoint, OneSided, Ruled):
    """A NCCL communicator with one device of this process.

    Made by :func:`init`. As a context manager it is destroyed at the end of the block, or aborted where the block
    raised, because the other ranks may never come. Calls enqueue and return; synchronize the stream before looking at
    results. NcclError carries NCCL's own text; ValueError and TypeError are raised before anything reaches NCCL.

    Where it does not block (``Config(blocking=False)``), calls only begin: wait with :meth:`wait_ready` before the next
    one and before synchronizing a stream.
    """

    def __init__(
        self,
        handle: _native.CommHandle,
        mpi_comm: "MPI.Comm | None" = None,
        *,
        owns_mpi_comm: bool = False,
        blocking: bool = True,
        parent: "Communicator | None" = None,
    ) -> None:
        self._handle = handle
        self._mpi_comm = mpi_comm
        self._owns_mpi_comm = owns_mpi_comm
        self._blocking = blocking
        self._parent = parent
        self._facts: tuple[int, int, int] | None = None
        # NCCL writes to the handles of children that are still being made.
        self._unborn: list[_native.CommHandle] = []
        self._known: list[Registration | Window] = []
        self.counters = Counters(handle)
        keep(handle)
        if parent is not None and not blocking:
            parent._unborn.append(handle)

    # -- who --

    def _ask(self) -> tuple[int, int, int]:
        if self._facts is None:
            self._facts = (self._handle.rank(), self._handle.size(), self._handle.device())
        return self._facts

    @property
    def rank(self) -> int:
        """This rank's number. Like size and device not before its group has ended (ValueError) and it is ready
        (NcclError)."""
        return self._ask()[0]

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self._ask()[1]

    @property
    def device(self) -> int:
        """The device of this rank."""
        return self._ask()[2]

    @property
    def blocking(self) -> bool:
        """Whether calls return only when they are done."""
        return self._blocking

    def properties(self) -> Properties:
        """What device code and one-sided calls find. LibraryError where NCCL is older than 2.29.7."""
        return properties(self._handle)

    # -- life --

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.destroy()
            return
        try:
            self.abort()
        except (_native.NcclError, ValueError) as failed:
            # Often a consequence of the same fault; the first one is the one to see.
            if error is not None:
                error.add_note(f"aborting the communicator failed too: {failed}")

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None and handle.alive:
            warnings.warn(f"{self!r} was never destroyed", ResourceWarning, stacklevel=2)

    def __repr__(self) -> str:
        state = "" if self._handle.alive else ", ended"
        if self._facts is None:
            return f"Communicator(not asked yet{state})"
        rank, size, device = self._facts
        return f"Communicator(rank {rank} of {size}, device {device}{state})"

    @property
    def alive(self) -> bool:
        return bool(self._handle.alive)

    def ready(self) -> bool:
        """Whether nothing is in progress; raises the NcclError of what failed. True at once where calls block."""
        if not self._handle.alive and self._parent is not None and not self._parent.ready():
            return False
        done = bool(self._handle.check_async())
        if done:
            self._unborn.clear()
        return done

    def wait_ready(self, timeout_s: float | None = None) -> None:
        """Wait until :meth:`ready`. TimeoutError after ``timeout_s`` seconds (None: never)."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self.ready():
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"{self!r} is still busy after {timeout_s} s")
            time.sleep(_POLL_S)

    def check(self) -> None:
        """Raise the NcclError of an operation that failed after its call had returned, if there is one."""
        self._handle.check_async()

    def finalize(self) -> None:
        """Finish what was enqueued, together with all ranks; only :meth:`destroy` or :meth:`abort` may follow.

        Needed before destroy where a communicator does not block or one thread drives several.
        """
        note("finalize", COMMUNICATORS, self._handle)
        self._handle.finalize()

    def destroy(self) -> None:
        """Finish what was enqueued and free everything; call it on every rank. Twice is harmless."""
        require_none("destroy")
        if not self._blocking and self._handle.alive:
            # NCCL refuses while something is in progress, and leaves a group open then.
            self.wait_ready()
        if self._handle.alive:
            self._forget_memory()
        self._handle.destroy()
        self._end()

    def abort(self) -> None:
        """Stop operations that still run and free everything, without the other ranks. Twice is harmless.

        May be called from another thread than the one that waits.
        """
        require_none("abort")
        self._handle.abort()
        self._unborn.clear()

    def revoke(self) -> None:
        """Stop operations that still run, but keep the communicator for split, shrink, destroy and abort.

        LibraryError where NCCL is older than 2.29.
        """
        require_none("revoke")
        self._handle.revoke()

    def _end(self) -> None:
        self._unborn.clear()
        if self._owns_mpi_comm and self._mpi_comm is not None:
            self._mpi_comm.Free()
            self._mpi_comm = None

    # -- children --

    def split(self, color: int | None, key: int = 0, config: Config | None = None) -> "Communicator | None":
        """A communicator of the ranks with the same ``color`` (0 or more), ordered by ``key``; call it on every rank.

        A rank that passes None takes no part and gets None. Without ``config`` it has this communicator's.
        """
        note("split", COMMUNICATORS, blocking=self._blocking)
        if color is not None:
            color = whole(color, "color", 0, _INT_MAX)
        key = whole(key, "key", -_INT_MAX, _INT_MAX)
        fields, blocking = _given(config), blocks(config, self._blocking)
        handle = self._handle.split(-1 if color is None else color, key, fields)
        keep(handle)
        mpi_child = None
        if self._mpi_comm is not None:
            from mpi4py import MPI

            mpi_child = self._mpi_comm.Split(MPI.UNDEFINED if color is None else color, key)
        if color is None:
            return None
        return Communicator(handle, mpi_child, owns_mpi_comm=True, blocking=blocking, parent=self)

    def shrink(self, excluded: Sequence[int], config: Config | None = None, *, abort: bool = False) -> "Communicator":
        """A communicator without the ranks ``excluded``; call it on all others, and not on them.

        ``abort``: stop what still runs on this one first, because an excluded rank may never answer. ValueError for an
        empty list, a rank twice, out of range, or the own one. LibraryError where NCCL is older than 2.27.
        """
        note("shrink", COMMUNICATORS, blocking=self._blocking)
        ranks = [self._check_rank(rank, "excluded rank") for rank in excluded]
        if not ranks or len(set(ranks)) != len(ranks) or self.rank in ranks or len(ranks) == self.size:
            raise ValueError(f"shrink on rank {self.rank}: excluded {ranks}; other ranks are needed, each once")
        fields, blocking = _given(config), blocks(config, self._blocking)
        handle = self._handle.shrink(ranks, abort, fields)
        mpi_child = None
        if self._mpi_comm is not None:
            from mpi4py import MPI

            mpi_child = MPI.Intracomm(self._mpi_comm).Create_group(self._mpi_comm.Get_group().Excl(ranks))
        return Communicator(handle, mpi_child, owns_mpi_comm=True, blocking=blocking, parent=self)

    def grow_id(self) -> bytes:
        """The unique id of one :meth:`grow`, made on one rank and passed to the new ones (:func:`join`)."""
        require_none("grow_id")
        return self._handle.grow_id()

    def grow(
        self,
        size: int,
        unique_id: bytes | None = None,
        config: Config | None = None,
        *,
        mpi_comm: "MPI.Comm | None" = None,
    ) -> "Communicator":
        """A communicator of ``size`` ranks: those of this one, with their numbers, and new ones, which call
        :func:`join`; call it on every rank.

        ``unique_id``: what :meth:`grow_id` gave, on the rank that called it; None on the others. ``mpi_comm``: one of
        the same ranks in the same order, so that rules can be set. LibraryError where NCCL is older than 2.29.
        """
        note("grow", COMMUNICATORS, blocking=self._blocking)
        size = whole(size, "size", self.size + 1, _INT_MAX)
        fields, blocking = _given(config), blocks(config, self._blocking)
        handle = _native.CommHandle.grow(self._handle, size, unique_id, -1, fields)
        return Communicator(handle, mpi_comm, blocking=blocking, parent=self)

    # -- what else it has --

    def pre_mul_sum(self, scalar: Any, dtype: "str | DType | type") -> ReductionOp:
        """A reduction that multiplies each rank's input by its ``scalar`` and sums up; see :class:`ReductionOp`."""
        return ReductionOp(self._handle, scalar, dtypes.dtype(dtype), self.device)

    def memory_use(self) -> MemoryUse:
        """Device memory of this communicator. LibraryError where NCCL is older than 2.29."""
        return memory_use(self._handle)

    def suspend(self) -> None:
        """Give device memory back that can be, with nothing in flight; no call before :meth:`resume`. On every rank."""
        require_none("suspend")
        _native.comm_suspend(self._handle)

    def resume(self) -> None:
        """Take back what :meth:`suspend` gave; on every rank."""
        require_none("resume")
        _native.comm_resume(self._handle)


def _given(config: Config | None) -> dict[str, Any] | None:
    """The configuration of a child; None to inherit."""
    if config is not None and not isinstance(config, Config):
        raise TypeError(f"config is {config!r}; a lagom.nccl.Config is needed")
    return None if config is None else config.given()
