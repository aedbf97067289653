# SPDX-License-Identifier: Apache-2.0
"""What a round of the stress test calls, each with its own check afterwards."""

from collections.abc import Callable
from random import Random
from typing import Protocol

import numpy as np
from matrix_cases import Arena, Case, Job, Path

import lagom.nccl as nccl
from lagom.bench.collectives import COLLECTIVES
from lagom.bench.patterns import Pattern
from lagom.nccl import Communicator, Event, ReductionOp, Stream

_BITS = "int32"


class Step(Protocol):
    """One thing that is enqueued, and how to see afterwards that it was right."""

    @property
    def alone(self) -> bool:
        """Whether it cannot be in a group: calls there are launched when the group ends, events are not."""
        ...

    def launch(self) -> None: ...
    def problem(self) -> str | None: ...


class Collective:
    """Any collective of the matrix; ``follow`` lets another stream reduce the result once more, after an event."""

    def __init__(
        self,
        comm: Communicator,
        case: Case,
        arenas: tuple[Arena, Arena],
        streams: tuple[Stream, Stream],
        op: str | ReductionOp,
        *,
        follow: bool,
    ) -> None:
        self._comm, self._streams, self._op = comm, streams, op
        self._job = Job(comm, case, arenas)
        follow = follow and case.path.collective == "all_reduce"
        self._again = arenas[0].place(self._job.counts.recv, case.dtype, 0) if follow else None
        self.alone = self._again is not None

    def __str__(self) -> str:
        return f"{self._job.case} root {self._job.root}" + (", followed by another" if self._again else "")

    def launch(self) -> None:
        first, second = self._streams
        self._job.launch(self._comm, self._op, first)
        if self._again is not None:
            done = Event()
            done.record(first)
            second.wait(done)
            # The largest of equal values: what the other stream reads must be there already.
            self._comm.all_reduce(self._job.recv, self._again.buffer, "max", second)

    def problem(self) -> str | None:
        if self._job.refused is not None:
            return f"refused: {self._job.refused}"
        again = None
        if self._again is not None:
            expected = self._job.collective.expected(
                self._job.pattern, self._comm.rank, self._job.counts, self._job.root
            )
            assert expected is not None
            if self._again.touched():
                again = "memory beside the second result was written to"
            elif fault := self._job.pattern.fault(self._again.seen(self._again.buffer), expected):
                again = f"the second result: {fault}"
        return self._job.problem(self._comm.rank) or again


class Exchange:
    """Sends along permutations of the ranks, all in one group; also to oneself, and nothing at all."""

    alone = False

    def __init__(self, comm: Communicator, rng: Random, arenas: tuple[Arena, Arena], stream: Stream) -> None:
        self._comm, self._stream = comm, stream
        self._pattern = Pattern(nccl.dtype(_BITS), None, comm.size)
        self._parts = []
        for _ in range(rng.randint(1, 3)):
            to = list(range(comm.size))
            rng.shuffle(to)
            counts = [rng.choice((0, 1, 77, 5000, 40000)) for _ in to]
            start = rng.randrange(1000)
            mine, sender = counts[comm.rank], to.index(comm.rank)
            send = arenas[0].place(mine, _BITS, 0)
            send.seen(send.buffer)[:] = self._pattern.data(comm.rank, mine, start)
            recv = arenas[1].place(counts[sender], _BITS, 1)
            self._parts.append((send, to[comm.rank], recv, sender, start))

    def __str__(self) -> str:
        return "exchange " + ", ".join(
            f"{s.buffer.count} to {to}, {r.buffer.count} from {sender}" for s, to, r, sender, _ in self._parts
        )

    def launch(self) -> None:
        with nccl.group():
            for send, to, recv, sender, _ in self._parts:
                self._comm.send(send.buffer, to, self._stream)
                self._comm.recv(recv.buffer, sender, self._stream)

    def problem(self) -> str | None:
        for send, _, recv, sender, start in self._parts:
            expected = self._pattern.data(sender, recv.buffer.count, start)
            if fault := self._pattern.fault(recv.seen(recv.buffer), expected):
                return f"from {sender}: {fault}"
            if send.touched() or recv.touched():
                return "memory beside the buffers was written to"
        return None


class Filled:
    """A broadcast of what the device itself has just set, in stream order."""

    alone = False

    def __init__(self, comm: Communicator, rng: Random, arenas: tuple[Arena, Arena], stream: Stream) -> None:
        self._comm, self._stream = comm, stream
        self._root, self._byte = rng.randrange(comm.size), rng.randrange(256)
        count = rng.choice((1, 100, 70000))
        self._send, self._recv = arenas[0].place(count, "uint8", 0), arenas[1].place(count, "uint8", 3)

    def __str__(self) -> str:
        return f"broadcast of {self._send.buffer.count} bytes {self._byte} from {self._root}"

    def launch(self) -> None:
        if self._comm.rank == self._root:
            self._send.buffer.fill_bytes(self._byte, self._stream)
        self._comm.broadcast(self._send.buffer, self._recv.buffer, self._root, self._stream)

    def problem(self) -> str | None:
        seen = self._recv.seen(self._recv.buffer)
        if (seen != self._byte).any():
            return f"{np.count_nonzero(seen != self._byte)} bytes wrong, there is {np.unique(seen)[:4]}"
        return "memory beside the buffer was written to" if self._recv.touched() else None


def draw(
    rng: Random,
    comm: Communicator,
    arenas: tuple[Arena, Arena],
    streams: list[Stream],
    dtypes: list[str],
    ops: list[str],
    scaled: Callable[[str, Case], ReductionOp],
) -> Step:
    """The next step, the same on every rank of ``comm`` that draws from an equal ``rng``."""
    first, second = rng.choice(streams), rng.choice(streams)
    kind = rng.random()
    if kind < 0.2:
        return Exchange(comm, rng, arenas, first)
    if kind < 0.25:
        return Filled(comm, rng, arenas, first)
    name = rng.choice(list(COLLECTIVES))
    op = rng.choice(ops) if COLLECTIVES[name].reduces else None
    size = rng.choice((0, 1, 3, 100, 1000, 5000, 65537, rng.randrange(200_000)))
    case = Case(Path(name, None, None), rng.choice(dtypes), op, size, rng.randrange(1 << 30))
    reduction: str | ReductionOp = scaled(case.dtype, case) if op == "mulsum" else op or "sum"
    return Collective(comm, case, arenas, (first, second), reduction, follow=rng.random() < 0.3 and "max" in ops)
