# SPDX-License-Identifier: Apache-2.0
"""Communicators."""

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _native, dtypes
from ._native import LibraryError
from .buffers import Argument, require_apart, resolve
from .checks import whole
from .counters import Counters
from .groups import require_none
from .knobs import Rule, RuleTuple, difference
from .streams import stream_address

if TYPE_CHECKING:
    from mpi4py import MPI


_INT_MAX = 2**31 - 1


@dataclass(frozen=True)
class Config:
    """Fields of ncclConfig_t; None leaves one to NCCL. The same on all ranks where NCCL's documentation says so."""

    min_ctas: int | None = None
    max_ctas: int | None = None
    cga_cluster_size: int | None = None
    nvls_ctas: int | None = None
    cta_policy: int | None = None
    traffic_class: int | None = None
    split_share: int | None = None
    net_name: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        for field, value in self.given().items():
            if field in ("net_name", "name"):
                if not isinstance(value, str) or "\0" in value:
                    raise TypeError(f"{field} is {value!r}; text without zero bytes is needed")
            else:
                whole(value, field, 0, _INT_MAX)

    def given(self) -> dict[str, Any]:
        """Only what is set."""
        return {key: value for key, value in asdict(self).items() if value is not None}


class Communicator:
    """A NCCL communicator with one device of this process.

    Made by :func:`init`. As a context manager it is destroyed at the end of the block, or aborted where the block
    raised, because the other ranks may never come. Calls enqueue and return; synchronize the stream before looking at
    results. NcclError carries NCCL's own text; ValueError and TypeError are raised before anything reaches NCCL.
    """

    def __init__(
        self, handle: _native.CommHandle, mpi_comm: "MPI.Comm | None" = None, *, owns_mpi_comm: bool = False
    ) -> None:
        self._handle = handle
        self._mpi_comm = mpi_comm
        self._owns_mpi_comm = owns_mpi_comm
        self.rank: int = handle.rank()
        self.size: int = handle.size()
        self.device: int = handle.device()
        self.counters = Counters(handle)

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
            warnings.warn(f"communicator of rank {self.rank} was never destroyed", ResourceWarning, stacklevel=2)

    def __repr__(self) -> str:
        state = "" if self._handle.alive else ", ended"
        return f"Communicator(rank {self.rank} of {self.size}, device {self.device}{state})"

    @property
    def alive(self) -> bool:
        return bool(self._handle.alive)

    def destroy(self) -> None:
        """Finish what was enqueued and free everything; call it on every rank. Twice is harmless."""
        require_none("destroy")
        self._handle.destroy()
        if self._owns_mpi_comm and self._mpi_comm is not None:
            self._mpi_comm.Free()
            self._mpi_comm = None

    def abort(self) -> None:
        """Stop operations that still run and free everything, without the other ranks. Twice is harmless."""
        require_none("abort")
        self._handle.abort()

    def check(self) -> None:
        """Raise the NcclError of an operation that failed after its call had returned, if there is one."""
        self._handle.check_async()

    def split(self, color: int | None, key: int = 0, config: Config | None = None) -> "Communicator | None":
        """A communicator of the ranks with the same ``color`` (0 or more), ordered by ``key``; call it on every rank.

        A rank that passes None takes no part and gets None.
        """
        require_none("split")
        if color is not None:
            color = whole(color, "color", 0, _INT_MAX)
        key = whole(key, "key", -_INT_MAX, _INT_MAX)
        child = self._handle.split(-1 if color is None else color, key, (config or Config()).given())
        mpi_child = None
        if self._mpi_comm is not None:
            from mpi4py import MPI

            mpi_child = self._mpi_comm.Split(MPI.UNDEFINED if color is None else color, key)
        return None if child is None else Communicator(child, mpi_child, owns_mpi_comm=True)

    # -- knobs --

    @property
    def rules(self) -> list[Rule]:
        """Rules in force, those of a preloaded plan included. LibraryError where the library is not patched."""
        return [Rule.from_tuple(numbers) for numbers in _native.get_rules(self._handle)]

    def set_rules(self, rules: Sequence[Rule]) -> None:
        """Replace all rules; call it on every rank, with nothing in flight.

        The ranks compare first (over the MPI communicator given to :func:`init`). If one differs, no rank sets
        anything and every rank raises a ValueError that names rank, rule and field. If NCCL refuses on one rank, the
        old rules come back everywhere and every rank raises.
        """
        if self.size > 1 and self._mpi_comm is None:
            raise LibraryError("set_rules compares the ranks' rules over MPI, and this communicator was made without")
        mine: list[RuleTuple] = []
        before: list[RuleTuple] = []
        failure: Exception | None = None
        # Whatever one rank stumbles over, the others must hear of it: they wait in the comparison.
        try:
            mine = _tuples(rules)
            before = _native.get_rules(self._handle)
        except Exception as error:
            failure = error
        self._raise_first(failure)
        if self._mpi_comm is not None:
            told = difference(self._mpi_comm.allgather(mine))
            if told is not None:
                raise ValueError(f"ranks differ in the rules they set, so no rank has set any: {told}")
        try:
            _native.set_rules(self._handle, mine)
        except Exception as error:
            failure = error
        try:
            self._raise_first(failure)
        except Exception:
            if failure is None:
                _native.set_rules(self._handle, before)
            raise

    def _raise_first(self, failure: Exception | None) -> None:
        """Raise the failure of the first rank that has one, on every rank; call it on every rank."""
        failures = [failure] if self._mpi_comm is None else self._mpi_comm.allgather(failure)
        for rank, cause in enumerate(failures):
            if cause is not None:
                cause.add_note(f"on rank {rank}; all ranks keep their old rules")
                raise cause

    # -- collectives --

    def all_reduce(self, send: Any, recv: Any = None, op: str = "sum", stream: Any = None) -> None:
        """Reduce ``send`` of all ranks into ``recv`` of every rank: same count on all. Without ``recv``: in place."""
        code = dtypes.op_code(op)
        source, target = self._pair(send, recv)
        if source.count != target.count:
            raise ValueError(f"all_reduce: send has {source.count} elements, recv {target.count}; they must be equal")
        require_apart("all_reduce", source, target, in_place=target.address)
        _native.all_reduce(
            self._handle, source.address, target.address, source.count, source.dtype.code, code, stream_address(stream)
        )

    def all_gather(self, send: Any, recv: Any, stream: Any = None) -> None:
        """Put ``send`` of rank r at ``recv[r * count:]`` on every rank; ``recv`` has size x count elements.

        In place where ``send`` is that part of ``recv``.
        """
        source, target = self._pair(send, recv)
        if target.count != source.count * self.size:
            raise ValueError(
                f"all_gather: recv has {target.count} elements; {self.size} ranks x send's {source.count} are needed"
            )
        require_apart("all_gather", source, target, in_place=target.address + self.rank * source.nbytes)
        _native.all_gather(
            self._handle, source.address, target.address, source.count, source.dtype.code, stream_address(stream)
        )

    def reduce_scatter(self, send: Any, recv: Any, op: str = "sum", stream: Any = None) -> None:
        """Reduce ``send`` of all ranks and leave part r of the result in ``recv`` of rank r; ``send`` has size x
        count elements.

        In place where ``recv`` is that part of ``send``.
        """
        code = dtypes.op_code(op)
        source, target = self._pair(send, recv)
        if source.count != target.count * self.size:
            raise ValueError(
                f"reduce_scatter: send has {source.count} elements; {self.size} ranks x recv's {target.count} needed"
            )
        require_apart("reduce_scatter", target, source, in_place=source.address + self.rank * target.nbytes)
        _native.reduce_scatter(
            self._handle, source.address, target.address, target.count, source.dtype.code, code, stream_address(stream)
        )

    def broadcast(self, send: Any, recv: Any = None, root: int = 0, stream: Any = None) -> None:
        """Copy ``send`` of ``root`` into ``recv`` of every rank. Without ``recv``: in place. ``send`` may be None
        elsewhere.
        """
        self._check_root(root)
        if send is None and self.rank != root:
            source = target = self._memory(recv, "recv", written=True)
        else:
            source, target = self._pair(send, recv)
        if source.count != target.count:
            raise ValueError(f"broadcast: send has {source.count} elements, recv {target.count}; they must be equal")
        if self.rank == root:
            require_apart("broadcast", source, target, in_place=target.address)
        _native.broadcast(
            self._handle, source.address, target.address, target.count, target.dtype.code, root, stream_address(stream)
        )

    def reduce(self, send: Any, recv: Any = None, op: str = "sum", root: int = 0, stream: Any = None) -> None:
        """Reduce ``send`` of all ranks into ``recv`` of ``root``. Without ``recv``: in place at the root; elsewhere
        it is unused.
        """
        code = dtypes.op_code(op)
        self._check_root(root)
        if recv is None and self.rank != root:
            source = target = self._memory(send, "send", written=False)
        else:
            source, target = self._pair(send, recv)
        if source.count != target.count:
            raise ValueError(f"reduce: send has {source.count} elements, recv {target.count}; they must be equal")
        if self.rank == root:
            require_apart("reduce", source, target, in_place=target.address)
        _native.reduce(
            self._handle,
            source.address,
            target.address,
            source.count,
            source.dtype.code,
            code,
            root,
            stream_address(stream),
        )

    def _memory(self, memory: Any, name: str, *, written: bool) -> Argument:
        argument = resolve(memory, name, written=written)
        if argument.device not in (None, self.device) and argument.count:
            raise ValueError(f"{name} is memory of device {argument.device}, this communicator's is {self.device}")
        return argument

    def _pair(self, send: Any, recv: Any) -> tuple[Argument, Argument]:
        if recv is None:
            both = self._memory(send, "send", written=True)
            return both, both
        source = self._memory(send, "send", written=False)
        target = self._memory(recv, "recv", written=True)
        if source.dtype != target.dtype:
            raise TypeError(f"send is {source.dtype}, recv {target.dtype}; they must be equal")
        return source, target

    def _check_root(self, root: int) -> None:
        whole(root, "root", 0, self.size - 1)


def _tuples(rules: Sequence[Rule]) -> list[RuleTuple]:
    for rule in rules:
        if not isinstance(rule, Rule):
            raise TypeError(f"{rule!r} is no lagom.nccl.Rule")
    return [rule.as_tuple() for rule in rules]
