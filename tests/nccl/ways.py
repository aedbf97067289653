# SPDX-License-Identifier: Apache-2.0
"""Data between the ranks of a job by whatever way the environment leaves them, against NumPy.

    mpirun -n 4 python ways.py ranks        a process a rank
    python ways.py threads 4                one process, a thread a device
    python ways.py group 4                  one process and one thread, calls of all devices in groups

With NCCL_DEBUG=INFO NCCL itself says on standard output which way it took. Prints what was wrong; exit code 1 if
anything was.
"""

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import lagom.nccl as nccl
from lagom.bench.patterns import Pattern
from lagom.nccl import Communicator, DeviceBuffer, Stream

# Less than a step of the buffers, several steps, and enough for copies in many chunks.
COUNTS = (5, 70001, 1 << 20)


class Place:
    """What one rank of the job needs."""

    def __init__(self, comm: Communicator) -> None:
        self.comm = comm
        self._here()
        self.stream = Stream()
        self.send = nccl.empty(COUNTS[-1], "float32")
        self.recv = nccl.empty(COUNTS[-1] * comm.size, "float32")

    def _here(self) -> None:
        nccl.set_device(self.comm.device)

    def fill(self, pattern: Pattern, count: int) -> None:
        self._here()
        self.send[:count].from_host(pattern.data(self.comm.rank, count), self.stream)

    def read(self, part: DeviceBuffer) -> np.ndarray:
        self._here()
        return part.to_host(self.stream)


def all_reduce(place: Place, count: int) -> None:
    place.comm.all_reduce(place.send[:count], place.recv[:count], "sum", place.stream)


def all_gather(place: Place, count: int) -> None:
    place.comm.all_gather(place.send[:count], place.recv[: count * place.comm.size], place.stream)


def around(place: Place, count: int) -> None:
    """To the next rank, from the one before."""
    size, rank = place.comm.size, place.comm.rank
    with nccl.group():
        place.comm.send(place.send[:count], (rank + 1) % size, place.stream)
        place.comm.recv(place.recv[:count], (rank - 1) % size, place.stream)


CALLS: tuple[Callable[[Place, int], None], ...] = (all_reduce, all_gather, around)


def wrong(place: Place, call: Callable[[Place, int], None], count: int) -> int:
    """Elements that are not what they must be."""
    size, rank = place.comm.size, place.comm.rank
    if call is all_reduce:
        pattern = Pattern(nccl.dtype("float32"), "sum", size)
        return pattern.wrong(place.read(place.recv[:count]), pattern.expected(count))
    pattern = Pattern(nccl.dtype("float32"), None, size)
    if call is around:
        return pattern.wrong(place.read(place.recv[:count]), pattern.data((rank - 1) % size, count))
    got = place.read(place.recv[: count * size])
    return sum(pattern.wrong(got[r * count : (r + 1) * count], pattern.data(r, count)) for r in range(size))


def check(places: Sequence[Place]) -> list[str]:
    """All calls on ranks of this thread; what was wrong."""
    problems = []
    for call in CALLS:
        for count in COUNTS:
            size = places[0].comm.size
            pattern = Pattern(nccl.dtype("float32"), "sum" if call is all_reduce else None, size)
            for place in places:
                place.fill(pattern, count)
            with nccl.group():
                for place in places:
                    call(place, count)
            for place in places:
                place.stream.synchronize()
                place.comm.check()
                bad = wrong(place, call, count)
                if bad:
                    problems.append(f"rank {place.comm.rank}: {call.__name__} of {count} elements: {bad} wrong")
    return problems


def main() -> int:
    kind = sys.argv[1]
    if kind == "ranks":
        from mpi4py import MPI

        comms = [nccl.init(MPI.COMM_WORLD)]
        problems = check([Place(comms[0])])
    elif kind == "group":
        comms = nccl.init_all(int(sys.argv[2]))
        problems = check([Place(comm) for comm in comms])
    else:
        size, identity = int(sys.argv[2]), nccl.unique_id()

        def one(rank: int) -> tuple[Communicator, list[str]]:
            comm = nccl.init(unique_id=identity, rank=rank, size=size, device=rank)
            return comm, check([Place(comm)])

        with ThreadPoolExecutor(size) as pool:
            results = list(pool.map(one, range(size)))
        comms, problems = [comm for comm, _ in results], [line for _, lines in results for line in lines]
    with nccl.group():
        for comm in comms:
            comm.finalize()
    for comm in comms:
        comm.destroy()
    for problem in problems:
        print("FAILED", problem)
    print(f"checked {len(CALLS) * len(COUNTS)} calls")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
