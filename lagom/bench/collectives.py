# SPDX-License-Identifier: Apache-2.0
"""What a benchmark must know of each collective: counts, buffers, expected results, bandwidth."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import lagom.nccl as nccl
from lagom.nccl import Communicator, DeviceBuffer, ReductionOp, Stream

from .patterns import Array, Pattern


@dataclass(frozen=True)
class Counts:
    """Element counts of one call on every rank: what is sent, what is received, and what nccl-tests prints as count."""

    send: int
    recv: int
    shown: int


@dataclass(frozen=True)
class Call:
    """One call: its buffers on this rank and what else it needs."""

    send: DeviceBuffer
    recv: DeviceBuffer
    op: str | ReductionOp
    root: int
    stream: Stream | None


@dataclass(frozen=True)
class Collective:
    """``reduces``: has an operation; ``rooted``: has a root; ``launch``: the call itself; ``expected``: what a rank
    must receive, None where its buffer is unspecified. ``sends_parts``, ``receives_parts``: that buffer holds one part
    a rank, or one part of what all have. ``in_place``: the call has a form with one buffer. ``bus_factor``: bus
    bandwidth divided by algorithm bandwidth, from the number of ranks.
    """

    name: str
    launch: Callable[[Communicator, Call], None]
    expected: Callable[[Pattern, int, Counts, int], Array | None]
    bus_factor: Callable[[int], float]
    reduces: bool = False
    rooted: bool = False
    sends_parts: bool = False
    receives_parts: bool = False
    in_place: bool = True

    def counts(self, nbytes: int, itemsize: int, ranks: int) -> Counts:
        """Counts for a size of ``nbytes``; shares are multiples of 16 bytes, as in nccl-tests."""
        total = nbytes // itemsize
        if not (self.sends_parts or self.receives_parts):
            return Counts(total, total, total)
        return self.counts_of_share(total // ranks // (16 // itemsize) * (16 // itemsize), ranks)

    def counts_of_share(self, share: int, ranks: int) -> Counts:
        """Counts for calls whose smaller buffer (where they have one) holds ``share`` elements."""
        if self.sends_parts and self.receives_parts:
            return Counts(share * ranks, share * ranks, share)
        if self.sends_parts:
            return Counts(share, share * ranks, share)
        if self.receives_parts:
            return Counts(share * ranks, share, share)
        return Counts(share, share, share)

    def buffers(
        self, send: DeviceBuffer, recv: DeviceBuffer, counts: Counts, rank: int, in_place: bool
    ) -> tuple[DeviceBuffer, DeviceBuffer]:
        """The parts of two large buffers that a call uses."""
        if not in_place:
            return send[: counts.send], recv[: counts.recv]
        if counts.send < counts.recv:
            return recv[rank * counts.send : (rank + 1) * counts.send], recv[: counts.recv]
        if counts.recv < counts.send:
            return recv[: counts.send], recv[rank * counts.recv : (rank + 1) * counts.recv]
        return recv[: counts.recv], recv[: counts.recv]

    def sent(self, pattern: Pattern, rank: int, counts: Counts, root: int) -> Array | None:
        """What ``rank`` passes in; None where it passes nothing that counts (away from the root)."""
        if self.name in ("broadcast", "scatter") and rank != root:
            return None
        return pattern.data(rank, counts.send)


def _of_all(ranks: int) -> float:
    return (ranks - 1) / ranks


def _once(ranks: int) -> float:
    return 1.0


def _joined(pattern: Pattern, rank: int, counts: Counts, root: int) -> Array:
    return np.concatenate([pattern.data(other, counts.shown) for other in range(pattern.ranks)])


def _transposed(pattern: Pattern, rank: int, counts: Counts, root: int) -> Array:
    return np.concatenate(
        [pattern.data(other, counts.shown, start=rank * counts.shown) for other in range(pattern.ranks)]
    )


def _around(comm: Communicator, call: Call) -> None:
    """Each rank sends to the next and receives from the one before it."""
    with nccl.group():
        comm.send(call.send, (comm.rank + 1) % comm.size, call.stream)
        comm.recv(call.recv, (comm.rank - 1) % comm.size, call.stream)


COLLECTIVES: dict[str, Collective] = {
    collective.name: collective
    for collective in (
        Collective(
            "all_reduce",
            lambda comm, c: comm.all_reduce(c.send, c.recv, c.op, c.stream),
            lambda pattern, rank, counts, root: pattern.expected(counts.recv),
            lambda ranks: 2 * (ranks - 1) / ranks,
            reduces=True,
        ),
        Collective(
            "all_gather",
            lambda comm, c: comm.all_gather(c.send, c.recv, c.stream),
            _joined,
            _of_all,
            sends_parts=True,
        ),
        Collective(
            "reduce_scatter",
            lambda comm, c: comm.reduce_scatter(c.send, c.recv, c.op, c.stream),
            lambda pattern, rank, counts, root: pattern.expected(counts.recv, start=rank * counts.recv),
            _of_all,
            reduces=True,
            receives_parts=True,
        ),
        Collective(
            "broadcast",
            lambda comm, c: comm.broadcast(c.send, c.recv, c.root, c.stream),
            lambda pattern, rank, counts, root: pattern.data(root, counts.recv),
            _once,
            rooted=True,
        ),
        Collective(
            "reduce",
            lambda comm, c: comm.reduce(c.send, c.recv, c.op, c.root, c.stream),
            lambda pattern, rank, counts, root: pattern.expected(counts.recv) if rank == root else None,
            _once,
            reduces=True,
            rooted=True,
        ),
        Collective(
            "alltoall",
            lambda comm, c: comm.alltoall(c.send, c.recv, c.stream),
            _transposed,
            _of_all,
            sends_parts=True,
            receives_parts=True,
            in_place=False,
        ),
        Collective(
            "gather",
            lambda comm, c: comm.gather(c.send, c.recv, c.root, c.stream),
            lambda pattern, rank, counts, root: _joined(pattern, rank, counts, root) if rank == root else None,
            _of_all,
            rooted=True,
            sends_parts=True,
        ),
        Collective(
            "scatter",
            lambda comm, c: comm.scatter(c.send, c.recv, c.root, c.stream),
            lambda pattern, rank, counts, root: pattern.data(root, counts.recv, start=rank * counts.recv),
            _of_all,
            rooted=True,
            receives_parts=True,
        ),
        Collective(
            "sendrecv",
            _around,
            lambda pattern, rank, counts, root: pattern.data((rank - 1) % pattern.ranks, counts.recv),
            _once,
            in_place=False,
        ),
    )
}
