# SPDX-License-Identifier: Apache-2.0
"""Collectives by copy engines against NumPy, on the ranks of this job: with cta_policy 2 and windows no kernel may run.

    mpirun -n 4 python copies.py [--sample N --seed S]

Rank 0 prints the number of cases and each failure; exit code 1 if there is one.
"""

import argparse
import itertools
import random
import sys
from typing import NamedTuple

import numpy as np
from mpi4py import MPI

import lagom.nccl as nccl
from lagom.bench.patterns import Array, Pattern
from lagom.nccl import Communicator, DeviceBuffer, Stream

COLLECTIVES = ("all_gather", "alltoall", "gather", "scatter")
DTYPES = ("int8", "float32", "bfloat16")
COUNTS = (1, 3, 1000, 65537, 262144)
ROOM = 64  # elements behind the buffers that nobody may write to
MOST_BYTES = 4 * 262144
UNWRITTEN = 0xA5


class Case(NamedTuple):
    collective: str
    dtype: str
    count: int
    root: int
    send_windowed: bool
    in_place: bool


def cases(ranks: int) -> list[Case]:
    made = []
    for collective in COLLECTIVES:
        roots = range(ranks) if collective in ("gather", "scatter") else (0,)
        in_place = (False, True) if collective == "all_gather" else (False,)
        every = itertools.product(DTYPES, COUNTS, roots, (False, True), in_place)
        made += [Case(collective, *rest) for rest in every]
    return made


def expected(case: Case, pattern: Pattern, rank: int) -> Array | None:
    """What `rank` receives; None where it receives nothing."""
    ranks, count = pattern.ranks, case.count
    if case.collective == "scatter":
        return pattern.data(case.root, count * ranks)[rank * count : (rank + 1) * count]
    if case.collective == "alltoall":
        return np.concatenate([pattern.data(r, count * ranks)[rank * count : (rank + 1) * count] for r in range(ranks)])
    if case.collective == "gather" and rank != case.root:
        return None
    return np.concatenate([pattern.data(r, count) for r in range(ranks)])


def launch(comm: Communicator, case: Case, send: DeviceBuffer, recv: DeviceBuffer, stream: Stream) -> None:
    if case.collective == "all_gather":
        comm.all_gather(send, recv, stream)
    elif case.collective == "alltoall":
        comm.alltoall(send, recv, stream)
    elif case.collective == "gather":
        comm.gather(send, recv, case.root, stream)
    else:
        comm.scatter(send, recv, case.root, stream)


def run_case(comm: Communicator, case: Case, memory: dict[str, DeviceBuffer], stream: Stream) -> str | None:
    """None, or what is wrong on this rank."""
    pattern = Pattern(nccl.dtype(case.dtype), None, comm.size)
    sent = case.count * (comm.size if case.collective in ("alltoall", "scatter") else 1)
    received = case.count * (1 if case.collective == "scatter" else comm.size)
    whole = memory["recv"].view(case.dtype)[: received + ROOM]
    whole.view("uint8").fill_bytes(UNWRITTEN, stream)
    send = memory["send window" if case.send_windowed else "send"].view(case.dtype)[:sent]
    if case.in_place:
        send = whole[comm.rank * case.count : (comm.rank + 1) * case.count]
    send.from_host(pattern.data(comm.rank, sent), stream)
    stream.synchronize()
    mark = stream.mark()
    launch(comm, case, send, whole[:received], stream)
    stream.synchronize()
    comm.check()
    ran = [op for op in stream.op_times(mark) if op.kind == "kernel"]
    if ran:
        return f"{ran[0].name} ran"
    wanted = expected(case, pattern, comm.rank)
    got = whole.to_host(stream)
    if wanted is not None and pattern.wrong(got[:received], wanted):
        return f"{pattern.wrong(got[:received], wanted)} of {received} elements wrong"
    beside = got[received:] if wanted is not None else got
    return None if np.all(beside.view(np.uint8) == UNWRITTEN) else "memory beside the received data was written to"


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    world = MPI.COMM_WORLD
    every = cases(world.Get_size())
    todo = every
    if chosen.sample is not None and chosen.sample < len(every):
        todo = [every[i] for i in sorted(random.Random(chosen.seed).sample(range(len(every)), chosen.sample))]
    comm = nccl.init(world, config=nccl.Config(cta_policy=2))
    nbytes = MOST_BYTES * comm.size + ROOM * 8
    memory = {
        "send": nccl.empty(nbytes, "uint8"),
        "send window": nccl.mem_alloc(nbytes, "uint8"),
        "recv": nccl.mem_alloc(nbytes, "uint8"),
    }
    windows = [comm.window(memory[name]) for name in ("send window", "recv")]
    stream = Stream()
    failures = []
    for case in todo:
        problem = run_case(comm, case, memory, stream)
        failures += [f"rank {r}, {case}: {p}" for r, p in enumerate(world.allgather(problem)) if p is not None]
    for window in windows:
        window.close()
    comm.destroy()
    if world.Get_rank() == 0:
        for failure in failures:
            print("FAILED", failure)
        print(
            f"{len(todo)} of {len(every)} cases ran on {world.Get_size()} ranks, seed {chosen.seed}; "
            f"{len(failures)} failures"
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
