# SPDX-License-Identifier: Apache-2.0
"""What a benchmark must know of each collective: counts, buffers, expected results, bandwidth."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lagom.nccl import Communicator, DeviceBuffer, Stream

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
    op: str
    root: int
    stream: Stream | None


@dataclass(frozen=True)
class Collective:
    """``reduces``: has an operation; ``rooted``: has a root; ``launch``: the call itself."""

    name: str
    reduces: bool
    rooted: bool
    launch: Callable[[Communicator, Call], None]

    def counts(self, nbytes: int, itemsize: int, ranks: int) -> Counts:
        """Counts for a size of ``nbytes``; shares are multiples of 16 bytes, as in nccl-tests."""
        total = nbytes // itemsize
        if self.name not in ("all_gather", "reduce_scatter"):
            return Counts(total, total, total)
        share = total // ranks // (16 // itemsize) * (16 // itemsize)
        if self.name == "all_gather":
            return Counts(share, share * ranks, share)
        return Counts(share * ranks, share, share)

    def buffers(
        self, send: DeviceBuffer, recv: DeviceBuffer, counts: Counts, rank: int, in_place: bool
    ) -> tuple[DeviceBuffer, DeviceBuffer]:
        """The parts of two large buffers that a call uses."""
        if not in_place:
            return send[: counts.send], recv[: counts.recv]
        if self.name == "all_gather":
            return recv[rank * counts.send : (rank + 1) * counts.send], recv[: counts.recv]
        if self.name == "reduce_scatter":
            return recv[: counts.send], recv[rank * counts.recv : (rank + 1) * counts.recv]
        return recv[: counts.recv], recv[: counts.recv]

    def sent(self, pattern: Pattern, rank: int, counts: Counts, root: int) -> Array | None:
        """What ``rank`` passes in; None where it passes nothing that counts (broadcast away from the root)."""
        if self.name == "broadcast" and rank != root:
            return None
        return pattern.data(rank, counts.send)

    def expected(self, pattern: Pattern, rank: int, counts: Counts, root: int) -> Array | None:
        """What ``rank`` must receive; None where its buffer is unspecified (reduce away from the root)."""
        if self.name == "all_reduce":
            return pattern.expected(counts.recv)
        if self.name == "reduce":
            return pattern.expected(counts.recv) if rank == root else None
        if self.name == "reduce_scatter":
            return pattern.expected(counts.recv, start=rank * counts.recv)
        if self.name == "broadcast":
            return pattern.data(root, counts.recv)
        return _joined(pattern, counts.send)

    def bus_factor(self, ranks: int) -> float:
        """Bus bandwidth divided by algorithm bandwidth."""
        if self.name == "all_reduce":
            return 2 * (ranks - 1) / ranks
        return (ranks - 1) / ranks if self.name in ("all_gather", "reduce_scatter") else 1.0


def _joined(pattern: Pattern, count: int) -> Array:
    return np.concatenate([pattern.data(rank, count) for rank in range(pattern.ranks)])


COLLECTIVES: dict[str, Collective] = {
    collective.name: collective
    for collective in (
        Collective("all_reduce", True, False, lambda comm, c: comm.all_reduce(c.send, c.recv, c.op, c.stream)),
        Collective("all_gather", False, False, lambda comm, c: comm.all_gather(c.send, c.recv, c.stream)),
        Collective("reduce_scatter", True, False, lambda comm, c: comm.reduce_scatter(c.send, c.recv, c.op, c.stream)),
        Collective("broadcast", False, True, lambda comm, c: comm.broadcast(c.send, c.recv, c.root, c.stream)),
        Collective("reduce", True, True, lambda comm, c: comm.reduce(c.send, c.recv, c.op, c.root, c.stream)),
    )
}
