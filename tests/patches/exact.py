# SPDX-License-Identifier: Apache-2.0
"""Every knob proved by the device, on the ranks of this job.

A program and not a test, so that many cases share one start:

    mpirun -n 3 python exact.py [--sample N] [--seed S]

A case sets one rule and runs one collective. The received data are compared with NumPy, and what the CTAs wrote down
about themselves with reference.py: how many ran and on which part, how many threads entered, the chunk they decoded
and the largest element count that a primitive was given. Rank 0 prints the number of cases and each failure; exit
code 1 if there is one.
"""

import argparse
import random
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from mpi4py import MPI

import lagom.nccl as nccl
from lagom.nccl import Communicator, Knobs, OpRecord, Rule, Stream

sys.path.insert(0, str(Path(__file__).parents[1]))
from patches.reference import GRAIN_BYTES, THREADS, largest_count, max_chunk_bytes, parts

MOST_BYTES = 16 << 20
MOST_LOOPS = 24  # of a channel: thousands of tiny chunks take long and show nothing new
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")


class Case(NamedTuple):
    collective: str
    dtype: str
    count: int  # as the caller passes it
    knobs: Knobs
    in_place: bool

    def __str__(self) -> str:
        place = "in place" if self.in_place else "out of place"
        return f"{self.collective} {self.count} x {self.dtype} {place}: {self.knobs}"


def draw(rng: random.Random, ranks: int, connected: int) -> Case:
    collective = rng.choice(COLLECTIVES)
    plain = collective.replace("_", "")
    reduces = collective in ("all_reduce", "reduce_scatter", "reduce")
    dtype = "float32" if reduces else rng.choice(("float32", "int8", "float64"))
    algorithm = rng.choice(("ring", "tree")) if collective == "all_reduce" else "ring"
    protocol = rng.choice(tuple(GRAIN_BYTES))
    channels = rng.choice([c for c in (1, 2, 3, 5, 7, 8, 12, 16, 24, connected) if c <= connected])
    threads = THREADS[algorithm, protocol]
    grain, largest = GRAIN_BYTES[protocol], max_chunk_bytes(plain, algorithm, protocol)
    chunk = rng.choice([grain, 3 * grain, rng.randrange(1, largest // grain) * grain, largest])

    # Sizes by what one channel gets: next to nothing, one loop and one element either way, several loops and a rest.
    element = nccl.dtype(dtype).itemsize
    counted = element if reduces else 1  # what the device counts in
    loop = chunk // counted * (ranks if (plain, algorithm) == ("allreduce", "ring") else 1)
    part = rng.choice(
        [1, 2, 16 // counted, 16 // counted + 1, loop - 1, loop, loop + 1, loop + 16 // counted,
         rng.randrange(1, loop + 1), loop * rng.randrange(2, MOST_LOOPS) + rng.randrange(loop)]
    )  # fmt: skip
    total = part if part <= 2 else part * channels + rng.choice((-1, 0, 1))
    fan_out = ranks if collective in ("all_gather", "reduce_scatter") else 1
    total = min(total, MOST_BYTES // fan_out // counted)
    count = max(1, total * counted // element)
    return Case(
        collective,
        dtype,
        count,
        Knobs(algorithm, protocol, channels, rng.choice([threads[0], threads[-1], rng.choice(threads)]), chunk),
        rng.random() < 0.3,
    )


def values(rank: int, count: int, dtype: str) -> np.ndarray:
    """Small whole numbers: every sum of them is exact in every type."""
    return ((np.arange(count) * (rank + 3) + rank) % 13).astype(dtype)


def run_data(comm: Communicator, case: Case, stream: Stream) -> str | None:
    """Run the collective; None, or what is wrong with its data on this rank."""
    n, ranks, rank, root = case.count, comm.size, comm.rank, comm.size - 1
    gathers, scatters = case.collective == "all_gather", case.collective == "reduce_scatter"
    send_count, recv_count = n * (ranks if scatters else 1), n * (ranks if gathers else 1)
    big = nccl.empty(max(send_count, recv_count), case.dtype)
    other = nccl.empty(max(send_count, recv_count), case.dtype)
    big.fill_bytes(0xA5, stream)
    other.fill_bytes(0xA5, stream)
    mine = values(rank, send_count, case.dtype)
    if case.in_place and gathers:
        send, recv = big[rank * n : (rank + 1) * n], big
    elif case.in_place and scatters:
        send, recv = big, big[rank * n : (rank + 1) * n]
    elif case.in_place:
        send, recv = big, big
    else:
        send, recv = big[:send_count], other[:recv_count]
    send.from_host(mine, stream)
    expected: np.ndarray | None
    every = [values(r, send_count, case.dtype) for r in range(ranks)]
    if case.collective == "all_reduce":
        comm.all_reduce(send, recv, "sum", stream)
        expected = sum(every[1:], every[0])
    elif gathers:
        comm.all_gather(send, recv, stream)
        expected = np.concatenate(every)
    elif scatters:
        comm.reduce_scatter(send, recv, "sum", stream)
        expected = sum(every[1:], every[0])[rank * n : (rank + 1) * n]
    elif case.collective == "broadcast":
        comm.broadcast(send, recv, root, stream)
        expected = every[root]
    else:
        comm.reduce(send, recv, "sum", root, stream)
        expected = sum(every[1:], every[0]) if rank == root else None
    stream.synchronize()
    comm.check()
    if expected is None:
        return None
    wrong = int(np.count_nonzero(recv.to_host(stream) != expected))
    return f"{wrong} of {expected.size} elements wrong" if wrong else None


def what_differs(comm: Communicator, case: Case) -> str | None:
    """None, or what the device did other than asked, and whether the library noticed."""
    records = comm.counters.read()
    if len(records) != 1:
        return f"{len(records)} records"
    told = compare(records[0], case, comm.size)
    if told is None:
        return None if records[0].exact else "the library says: not exact"
    return f"{told}; the library says: {'exact' if records[0].exact else 'not exact'}"


def compare(record: OpRecord, case: Case, ranks: int) -> str | None:
    knobs = case.knobs
    if record.asked != knobs or record.rule != 0:
        return f"recorded as asked: {record.asked}, rule {record.rule}"
    if (record.collective, record.count, record.dtype) != (case.collective, case.count, case.dtype):
        return f"recorded as {record.collective} {record.count} x {record.dtype}"
    seen = record.used
    if (seen.algorithm, seen.protocol) != (knobs.algorithm, knobs.protocol):
        return f"ran {seen.algorithm}/{seen.protocol}"
    if [c.channel for c in record.channels] != list(range(knobs.channels or 0)):
        return f"channels {[c.channel for c in record.channels]}"
    if len({c.sm_id for c in record.channels}) != knobs.channels:
        return f"SMs {[c.sm_id for c in record.channels]}"
    reduces = case.collective in ("all_reduce", "reduce_scatter", "reduce")
    counted = nccl.dtype(case.dtype).itemsize if reduces else 1
    total = case.count * nccl.dtype(case.dtype).itemsize // counted
    chunk = (knobs.chunk_bytes or 0) // counted
    for channel, part in zip(record.channels, parts(total, counted, knobs.channels or 0), strict=True):
        where = f"channel {channel.channel}: "
        if channel.threads != knobs.threads:
            return f"{where}{channel.threads} threads entered"
        if channel.nbytes != part * counted:
            return f"{where}{channel.nbytes} bytes, expected {part * counted}"
        plain = case.collective.replace("_", "")
        largest = largest_count(plain, knobs.algorithm or "", ranks, part, chunk, counted)
        if channel.max_element_count != largest:
            return f"{where}largest count {channel.max_element_count}, expected {largest} for a part of {part}"
        if part > 0 and channel.chunk_bytes != knobs.chunk_bytes:
            return f"{where}decoded chunk {channel.chunk_bytes}"
        if part == 0 and channel.chunk_bytes != 0:
            return f"{where}a chunk of {channel.chunk_bytes} on a part without data"
        if not 0 < channel.start_ns < channel.stop_ns:
            return f"{where}times {channel.start_ns} to {channel.stop_ns}"
        if channel.wait_ns + channel.move_ns != channel.stop_ns - channel.start_ns:
            return f"{where}waited {channel.wait_ns}, moved {channel.move_ns} of {channel.stop_ns - channel.start_ns}"
    return None


def connected_channels(comm: Communicator) -> int:
    """From the refusal of one channel more than any communicator has."""
    comm.set_rules([Rule("all_reduce", knobs=Knobs("ring", "simple", channels=64))])
    buffer = nccl.empty(1, "float32")
    try:
        comm.all_reduce(buffer, buffer)
    except nccl.NcclError as refused:
        return int(refused.text.rsplit("1 to ", 1)[1])
    return 64


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true", help="each case before it runs")
    chosen = parser.parse_args()
    world = MPI.COMM_WORLD
    failures = []
    with nccl.init(world) as comm:
        rng = random.Random(chosen.seed)
        connected = connected_channels(comm)
        comm.counters.enable()
        comm.counters.read()
        stream = Stream()
        for _ in range(chosen.sample):
            case = draw(rng, comm.size, connected)
            if chosen.verbose and comm.rank == 0:
                print(case, flush=True)
            try:
                comm.set_rules([Rule(case.collective, knobs=case.knobs)])
                wrong_data, differs = run_data(comm, case, stream), what_differs(comm, case)
                problem = wrong_data or differs
            except nccl.NcclError as error:
                problem = f"refused: {error}"
            for rank, theirs in enumerate(world.allgather(problem)):
                if theirs is not None:
                    failures.append(f"rank {rank}, {case}: {theirs}")
    if world.Get_rank() == 0:
        for failure in failures:
            print("FAILED", failure)
        print(
            f"{chosen.sample} cases with seed {chosen.seed} ran on {world.Get_size()} ranks, "
            f"{connected} channels connected; {len(failures)} failures"
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
