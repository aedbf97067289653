# SPDX-License-Identifier: Apache-2.0
"""Puts, signals and waits between the ranks of this job, against NumPy.

    mpirun -n 4 python one_sided.py

Rank 0 prints each failure and at last how many checks there were; exit code 1 if there is a failure.
"""

import sys
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

import lagom.nccl as nccl
from lagom.bench.patterns import Pattern
from lagom.nccl import Communicator, DeviceBuffer, Stream, Wait, Window

ROUNDS = 5
COUNT = 10007  # elements of 4 bytes, no multiple of anything


class Room:
    """A window of one part a rank, and one to put from."""

    def __init__(self, comm: Communicator) -> None:
        self.comm = comm
        self.stream = Stream()
        self.source = nccl.mem_alloc(COUNT * comm.size, "float32")
        self.target = nccl.mem_alloc(COUNT * comm.size, "float32")
        self.windows: tuple[Window, Window] = (comm.window(self.source), comm.window(self.target))
        self.pattern = Pattern(nccl.dtype("float32"), None, comm.size)

    def part(self, memory: DeviceBuffer, rank: int) -> DeviceBuffer:
        return memory[rank * COUNT : (rank + 1) * COUNT]

    def data(self, sender: int, receiver: int, turn: int) -> np.ndarray:
        return self.pattern.data(sender, COUNT, start=(receiver * ROUNDS + turn) * COUNT)

    def put(self, peer: int, turn: int) -> None:
        """Into this rank's part of the peer's window."""
        part = self.part(self.source, peer)
        part.from_host(self.data(self.comm.rank, peer, turn), self.stream)
        self.comm.put_signal(part, peer, self.windows[1], self.comm.rank * COUNT * 4, stream=self.stream)

    def wrong(self, sender: int, turn: int) -> int:
        got = self.part(self.target, sender).to_host(self.stream)
        return self.pattern.wrong(got, self.data(sender, self.comm.rank, turn))


def ring(room: Room, turn: int) -> str | None:
    """Each rank puts to the next one; the wait is in the stream, and the reading copy behind it."""
    size, rank = room.comm.size, room.comm.rank
    room.put((rank + 1) % size, turn)
    room.comm.wait_signals([Wait((rank - 1) % size)], stream=room.stream)
    wrong = room.wrong((rank - 1) % size, turn)
    return f"ring: {wrong} elements wrong" if wrong else None


def everybody(room: Room, turn: int) -> str | None:
    """All to all, in one group."""
    others = [peer for peer in range(room.comm.size) if peer != room.comm.rank]
    for peer in others:
        room.part(room.source, peer).from_host(room.data(room.comm.rank, peer, turn), room.stream)
    with nccl.group():
        for peer in others:
            place = room.comm.rank * COUNT * 4
            room.comm.put_signal(room.part(room.source, peer), peer, room.windows[1], place, stream=room.stream)
    room.comm.wait_signals([Wait(peer) for peer in others], stream=room.stream)
    wrong = sum(room.wrong(peer, turn) for peer in others)
    return f"everybody: {wrong} elements wrong" if wrong else None


def signals_count(room: Room, turn: int) -> str | None:
    """Rank 0 waits for two signals of each other rank at once; nothing comes through before they are all there."""
    comm = room.comm
    if comm.rank != 0:
        comm.signal(0, stream=room.stream)
        room.stream.synchronize()
    MPI.COMM_WORLD.Barrier()
    problem = None
    if comm.rank == 0:
        comm.wait_signals([Wait(peer, 2) for peer in range(1, comm.size)], stream=room.stream)
        if room.stream.done():
            problem = "signals: a wait for two signals ended after one"
    MPI.COMM_WORLD.Barrier()
    if comm.rank != 0:
        comm.signal(0, stream=room.stream)
    room.stream.synchronize()
    return problem


def main() -> int:
    world = MPI.COMM_WORLD
    comm = nccl.init(world)
    room = Room(comm)
    failures: list[str] = []
    checks: tuple[Callable[[Room, int], str | None], ...] = (ring, everybody, signals_count)
    for turn in range(ROUNDS):
        for check in checks:
            problem = check(room, turn)
            room.stream.synchronize()
            comm.check()
            failures += [
                f"rank {r}, round {turn}: {p}" for r, p in enumerate(world.allgather(problem)) if p is not None
            ]
    for window in room.windows:
        window.close()
    comm.destroy()
    if world.Get_rank() == 0:
        for failure in failures:
            print("FAILED", failure)
        print(f"{ROUNDS * len(checks)} checks on {world.Get_size()} ranks; {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
