# SPDX-License-Identifier: Apache-2.0
"""Sends and receives, and the collectives that NCCL builds of them."""

from typing import Any

from . import _native
from .buffers import Argument, require_apart
from .calls import Calls, same_count
from .streams import stream_address

_NOWHERE = -1  # an address that no memory has: what overlaps at all is refused


class PointToPoint(Calls):
    """Send, receive, all-to-all, gather, scatter."""

    def send(self, memory: Any, peer: int, stream: Any = None) -> None:
        """Send ``memory`` to rank ``peer``, which calls :meth:`recv` with the same type and count.

        Sends and receives that wait for each other go into one :func:`group`; so does one to the own rank.
        """
        self._begin("send")
        source = self._memory(memory, "memory", written=False)
        peer = self._check_rank(peer, "peer")
        _native.send(self._handle, source.address, source.count, source.dtype.code, peer, stream_address(stream))

    def recv(self, memory: Any, peer: int, stream: Any = None) -> None:
        """Receive into ``memory`` what rank ``peer`` sends, see :meth:`send`."""
        self._begin("recv")
        target = self._memory(memory, "memory", written=True)
        peer = self._check_rank(peer, "peer")
        _native.recv(self._handle, target.address, target.count, target.dtype.code, peer, stream_address(stream))

    def alltoall(self, send: Any, recv: Any, stream: Any = None) -> None:
        """Part r of ``send`` goes to rank r, which puts it at its part of this rank; both have size x count elements.

        Not in place. LibraryError where NCCL is older than 2.28 (also gather and scatter).
        """
        self._begin("alltoall")
        source, target = self._pair(send, recv)
        same_count("alltoall", source, target)
        if source.count % self.size:
            raise ValueError(
                f"alltoall: {source.count} elements; a multiple of {self.size}, one part a rank, is needed"
            )
        require_apart("alltoall", source, target, in_place=_NOWHERE)
        _native.alltoall(
            self._handle,
            source.address,
            target.address,
            source.count // self.size,
            source.dtype.code,
            stream_address(stream),
        )

    def gather(self, send: Any, recv: Any = None, root: int = 0, stream: Any = None) -> None:
        """Put ``send`` of rank r at ``recv[r * count:]`` of ``root``; ``recv`` has size x count elements there, and is
        not written to elsewhere.

        In place where ``send`` of the root is that part of ``recv``. Copy engines (``cta_policy`` 2) do it where every
        rank, not only the root, passes its part of one window as ``recv``.
        """
        self._begin("gather")
        root = self._check_rank(root)
        source = self._memory(send, "send", written=False)
        target = source
        if self.rank == root:
            target = self._whole("gather", "recv", recv, source, written=True)
            require_apart("gather", source, target, in_place=target.address + root * source.nbytes)
        elif recv is not None:
            target = self._memory(recv, "recv", written=False)
        _native.gather(
            self._handle, source.address, target.address, source.count, source.dtype.code, root, stream_address(stream)
        )

    def scatter(self, send: Any, recv: Any, root: int = 0, stream: Any = None) -> None:
        """Part r of ``send`` of ``root`` goes into ``recv`` of rank r; ``send`` has size x count elements there, and is
        unused elsewhere.

        In place where ``recv`` of the root is that part of ``send``.
        """
        self._begin("scatter")
        root = self._check_rank(root)
        target = self._memory(recv, "recv", written=True)
        source = target
        if self.rank == root:
            source = self._whole("scatter", "send", send, target, written=False)
            require_apart("scatter", target, source, in_place=source.address + root * target.nbytes)
        _native.scatter(
            self._handle, source.address, target.address, target.count, target.dtype.code, root, stream_address(stream)
        )

    def _whole(self, call: str, name: str, memory: Any, part: Argument, *, written: bool) -> Argument:
        """The root's memory for the parts of all ranks."""
        if memory is None:
            raise TypeError(f"{call}: {name} is None; the root needs it")
        whole = self._memory(memory, name, written=written)
        if whole.dtype != part.dtype:
            raise TypeError(f"{call}: the root's {name} is {whole.dtype}, the part {part.dtype}; they must be equal")
        if whole.count != part.count * self.size:
            raise ValueError(
                f"{call}: {name} has {whole.count} elements; {self.size} ranks x the part's {part.count} are needed"
            )
        return whole
