# SPDX-License-Identifier: Apache-2.0
"""Every collective against NumPy: algorithm x protocol x type x operation x size x in place or not, on the ranks of
this job.

A program and not a test, so that thousands of cases share one start:

    mpirun -n 3 python matrix.py [--sample N --seed S] [--collective NAME] [--dtype NAME] ...

Each case checks every received element, that memory before and behind the buffers and the sent data are untouched,
and, with the patched library, that the device saw the algorithm and protocol that were asked for. Rank 0 prints the
number of cases and each failure; exit code 1 if there is one.
"""

import argparse
import itertools
import os
import random
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from mpi4py import MPI

import lagom.nccl as nccl
from lagom.bench.collectives import COLLECTIVES, Call, Counts
from lagom.bench.patterns import Array, Pattern
from lagom.nccl import Communicator, DeviceBuffer, Knobs, Rule, Stream

ALGORITHMS = {"all_reduce": ("ring", "tree")}  # the others have the ring only
PROTOCOLS = ("ll", "ll128", "simple")
DTYPES = ("int32", "float16", "bfloat16", "float32", "float64")
OPS = ("sum", "max", "avg")
FOUR_MIB = "4MiB"
SIZES = (0, 1, 3, 1000, 65537, FOUR_MIB)
GUARD_BYTES = 256
GUARD, UNWRITTEN = 0x5C, 0xA5


class Path(NamedTuple):
    """What is forced for a whole block of cases."""

    collective: str
    algorithm: str
    protocol: str


class Case(NamedTuple):
    path: Path
    dtype: str
    op: str | None
    size: int | str
    in_place: bool

    def __str__(self) -> str:
        place = "in place" if self.in_place else "out of place"
        collective, algorithm, protocol = self.path
        return f"{collective} {algorithm} {protocol} {self.dtype} {self.op or '-'} {self.size} elements {place}"


def cases(chosen: argparse.Namespace) -> Iterator[Case]:
    for collective in chosen.collective:
        ops: tuple[str | None, ...] = tuple(chosen.op) if COLLECTIVES[collective].reduces else (None,)
        for algorithm, protocol in itertools.product(ALGORITHMS.get(collective, ("ring",)), chosen.protocol):
            path = Path(collective, algorithm, protocol)
            yield from (Case(path, *rest) for rest in itertools.product(chosen.dtype, ops, SIZES, (False, True)))


@lru_cache(maxsize=64)
def sent(dtype: str, op: str | None, ranks: int, rank: int, count: int) -> Array:
    return Pattern(nccl.dtype(dtype), op, ranks).data(rank, count)


class Forced:
    """A communicator whose collectives take one path: by a rule; with a stock library by NCCL_ALGO and NCCL_PROTO."""

    def __init__(self, world: MPI.Intracomm) -> None:
        self._world = world
        self._patched = nccl.library().patched
        self.comm: Communicator | None = None

    def take(self, path: Path) -> Communicator:
        if self._patched:
            if self.comm is None:
                self.comm = nccl.init(self._world)
                self.comm.counters.enable()
            self.comm.set_rules([Rule(path.collective, knobs=Knobs(path.algorithm, path.protocol))])
            return self.comm
        if self.comm is not None:
            self.comm.destroy()
        os.environ["NCCL_ALGO"] = path.algorithm
        os.environ["NCCL_PROTO"] = {"ll": "LL", "ll128": "LL128", "simple": "Simple"}[path.protocol]
        self.comm = nccl.init(self._world)
        return self.comm

    def what_ran(self, path: Path) -> str | None:
        """None, or how the device's view differs from what was asked."""
        if not self._patched or self.comm is None:
            return None
        for record in self.comm.counters.read():
            used = (record.collective, record.used.algorithm, record.used.protocol)
            if used != tuple(path) or not record.exact:
                return f"the device saw {' '.join(map(str, used))}, exact {record.exact}"
        return None


class Guarded:
    """Room for a call's buffer with guards around it."""

    def __init__(self, nbytes: int) -> None:
        self._whole = nccl.empty(nbytes + 2 * GUARD_BYTES, "uint8")

    def prepare(self, dtype: str, count: int, stream: Stream) -> DeviceBuffer:
        """A buffer of ``count`` elements, unwritten, with fresh guards on both sides."""
        nbytes = count * nccl.dtype(dtype).itemsize
        self._used = self._whole[: nbytes + 2 * GUARD_BYTES]
        self._used[:GUARD_BYTES].fill_bytes(GUARD, stream)
        self._used[GUARD_BYTES : GUARD_BYTES + nbytes].fill_bytes(UNWRITTEN, stream)
        self._used[GUARD_BYTES + nbytes :].fill_bytes(GUARD, stream)
        return self._used[GUARD_BYTES : GUARD_BYTES + nbytes].view(dtype)

    def touched(self, stream: Stream) -> bool:
        """Whether a guard was written to."""
        before, behind = self._used[:GUARD_BYTES], self._used[len(self._used) - GUARD_BYTES :]
        return bool(np.any(before.to_host(stream) != GUARD) or np.any(behind.to_host(stream) != GUARD))


def run_case(comm: Communicator, case: Case, room: tuple[Guarded, Guarded], stream: Stream) -> str | None:
    """None, or what is wrong on this rank."""
    collective = COLLECTIVES[case.path.collective]
    element = nccl.dtype(case.dtype)
    pattern = Pattern(element, case.op, comm.size)
    count = (4 << 20) // element.itemsize if case.size == FOUR_MIB else int(case.size)
    counts = {
        "all_gather": Counts(count, count * comm.size, count),
        "reduce_scatter": Counts(count * comm.size, count, count),
    }.get(collective.name, Counts(count, count, count))
    largest = max(counts.send, counts.recv)
    root = comm.size - 1
    send, recv = collective.buffers(
        room[0].prepare(case.dtype, counts.send, stream),
        room[1].prepare(case.dtype, largest if case.in_place else counts.recv, stream),
        counts,
        comm.rank,
        case.in_place,
    )
    data = None
    if collective.sent(pattern, comm.rank, Counts(0, 0, 0), root) is not None:
        data = sent(case.dtype, case.op, comm.size, comm.rank, counts.send)
        send.from_host(data, stream)
    collective.launch(comm, Call(send, recv, case.op or "sum", root, stream))
    stream.synchronize()
    comm.check()
    expected = collective.expected(pattern, comm.rank, counts, root)
    if expected is not None:
        wrong = pattern.wrong(recv.to_host(stream), expected)
        if wrong:
            return f"{wrong} of {expected.size} elements wrong"
    if data is not None and not case.in_place and send.to_host(stream).tobytes() != data.tobytes():
        return "the sent data changed"
    if room[0].touched(stream) or room[1].touched(stream):
        return "memory beside the buffers was written to"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--collective", nargs="+", choices=list(COLLECTIVES), default=list(COLLECTIVES))
    parser.add_argument("--protocol", nargs="+", choices=PROTOCOLS, default=PROTOCOLS)
    parser.add_argument("--dtype", nargs="+", choices=DTYPES, default=DTYPES)
    parser.add_argument("--op", nargs="+", choices=OPS, default=OPS)
    parser.add_argument("--sample", type=int, help="that many cases, drawn at random (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    world = MPI.COMM_WORLD
    every = list(cases(chosen))
    drawn = every
    if chosen.sample is not None and chosen.sample < len(every):
        picked = sorted(random.Random(chosen.seed).sample(range(len(every)), chosen.sample))
        drawn = [every[index] for index in picked]
    failures: list[str] = []
    forced = Forced(world)
    room: tuple[Guarded, Guarded] | None = None
    for path, block in itertools.groupby(drawn, key=lambda case: case.path):
        comm = forced.take(path)
        if room is None:
            room = (Guarded((4 << 20) * comm.size), Guarded((4 << 20) * comm.size))
            stream = Stream()
        for case in block:
            problem = run_case(comm, case, room, stream) or forced.what_ran(path)
            for rank, theirs in enumerate(world.allgather(problem)):
                if theirs is not None:
                    failures.append(f"rank {rank}, {case}: {theirs}")
    if forced.comm is not None:
        forced.comm.destroy()
    if world.Get_rank() == 0:
        for failure in failures:
            print("FAILED", failure)
        drawing = f", drawn with seed {chosen.seed}" if len(drawn) < len(every) else ""
        print(f"{len(drawn)} of {len(every)} cases ran on {world.Get_size()} ranks{drawing}; {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
