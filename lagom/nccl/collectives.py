# SPDX-License-Identifier: Apache-2.0
"""Collectives that NCCL has kernels for."""

from typing import Any

from . import _native
from .buffers import require_apart
from .calls import Calls, same_count
from .reductions import ReductionOp
from .streams import stream_address


class Collectives(Calls):
    """All-reduce, all-gather, reduce-scatter, broadcast, reduce. ``op`` is "sum", "prod", "max", "min", "avg" or what
    :meth:`Communicator.pre_mul_sum` made."""

    def all_reduce(self, send: Any, recv: Any = None, op: str | ReductionOp = "sum", stream: Any = None) -> None:
        """Reduce ``send`` of all ranks into ``recv`` of every rank: same count on all. Without ``recv``: in place."""
        self._begin("all_reduce")
        source, target = self._pair(send, recv)
        code = self._op(op, source.dtype)
        same_count("all_reduce", source, target)
        require_apart("all_reduce", source, target, in_place=target.address)
        _native.all_reduce(
            self._handle, source.address, target.address, source.count, source.dtype.code, code, stream_address(stream)
        )

    def all_gather(self, send: Any, recv: Any, stream: Any = None) -> None:
        """Put ``send`` of rank r at ``recv[r * count:]`` on every rank; ``recv`` has size x count elements.

        In place where ``send`` is that part of ``recv``.
        """
        self._begin("all_gather")
        source, target = self._pair(send, recv)
        if target.count != source.count * self.size:
            raise ValueError(
                f"all_gather: recv has {target.count} elements; {self.size} ranks x send's {source.count} are needed"
            )
        require_apart("all_gather", source, target, in_place=target.address + self.rank * source.nbytes)
        _native.all_gather(
            self._handle, source.address, target.address, source.count, source.dtype.code, stream_address(stream)
        )

    def reduce_scatter(self, send: Any, recv: Any, op: str | ReductionOp = "sum", stream: Any = None) -> None:
        """Reduce ``send`` of all ranks and leave part r of the result in ``recv`` of rank r; ``send`` has size x
        count elements.

        In place where ``recv`` is that part of ``send``.
        """
        self._begin("reduce_scatter")
        source, target = self._pair(send, recv)
        code = self._op(op, source.dtype)
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
        self._begin("broadcast")
        root = self._check_rank(root)
        if send is None and self.rank != root:
            source = target = self._memory(recv, "recv", written=True)
        else:
            source, target = self._pair(send, recv)
        same_count("broadcast", source, target)
        if self.rank == root:
            require_apart("broadcast", source, target, in_place=target.address)
        _native.broadcast(
            self._handle, source.address, target.address, target.count, target.dtype.code, root, stream_address(stream)
        )

    def reduce(
        self, send: Any, recv: Any = None, op: str | ReductionOp = "sum", root: int = 0, stream: Any = None
    ) -> None:
        """Reduce ``send`` of all ranks into ``recv`` of ``root``. Without ``recv``: in place at the root; elsewhere
        it is unused.
        """
        self._begin("reduce")
        root = self._check_rank(root)
        if recv is None and self.rank != root:
            source = target = self._memory(send, "send", written=False)
        else:
            source, target = self._pair(send, recv)
        code = self._op(op, source.dtype)
        same_count("reduce", source, target)
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
