# SPDX-License-Identifier: Apache-2.0
"""Collectives on windows against NumPy, on the ranks of this job: data, memory beside the buffers, which kernel ran.

    mpirun -n 4 python collectives.py [--sample N --seed S] [--dtype NAME ...]

NCCL_SYM_KERNEL forces a kernel, which must then run wherever it can. Rank 0 prints the number of cases, how often each
kernel ran, and each failure; exit code 1 if there is one.
"""

import argparse
import os
import sys
from collections import Counter

import cases
import numpy as np
from mpi4py import MPI

import lagom.nccl as nccl
from lagom.bench.collectives import COLLECTIVES, Call, Counts
from lagom.bench.patterns import Pattern
from lagom.nccl import Communicator, DeviceBuffer, Stream

MOST_CALLS = 3
ROOM = 512  # bytes beside each buffer
UNWRITTEN = 0xA5


class Memory:
    """Memory for the sent and received data of one call; a window each, or none."""

    def __init__(self, comm: Communicator, nbytes: int) -> None:
        self._comm = comm
        self._whole = {
            (side, windowed): (nccl.mem_alloc if windowed else nccl.empty)(nbytes + 2 * ROOM, "uint8")
            for side in ("send", "recv")
            for windowed in (True, False)
        }
        self._windows = [comm.window(memory) for (_, windowed), memory in self._whole.items() if windowed]

    def close(self) -> None:
        for window in self._windows:
            window.close()

    def part(self, side: str, windowed: bool, shift: int, nbytes: int, dtype: str, stream: Stream) -> DeviceBuffer:
        """`nbytes` at `shift` elements behind `ROOM`, with everything around them unwritten."""
        whole = self._whole[side, windowed]
        whole[: nbytes + 2 * ROOM].fill_bytes(UNWRITTEN, stream)
        begin = ROOM + shift * nccl.dtype(dtype).itemsize
        return whole[begin : begin + nbytes].view(dtype)

    def beside_is_unwritten(self, side: str, windowed: bool, shift: int, part: DeviceBuffer, stream: Stream) -> bool:
        begin = ROOM + shift * part.dtype.itemsize
        around = self._whole[side, windowed][: part.nbytes + 2 * ROOM].to_host(stream)
        around[begin : begin + part.nbytes] = UNWRITTEN
        return bool(np.all(around == UNWRITTEN))


def counts_of(collective: str, count: int, ranks: int) -> Counts:
    if collective == "all_gather":
        return Counts(count, count * ranks, count)
    if collective == "reduce_scatter":
        return Counts(count * ranks, count, count)
    return Counts(count, count, count)


def run_case(
    comm: Communicator, case: cases.Case, memory: list[Memory], stream: Stream, forced: str | None
) -> tuple[str | None, list[str]]:
    """What is wrong on this rank or None, and the kernels that ran."""
    collective = COLLECTIVES[case.collective]
    element = nccl.dtype(case.dtype)
    pattern = Pattern(element, "sum" if collective.reduces else None, comm.size)
    count = (1 << 20) // element.itemsize if case.count == "1MiB" else int(case.count)
    counts = counts_of(case.collective, count, comm.size)
    send_windowed = case.registered in (cases.BOTH, cases.SEND)
    recv_windowed = case.registered in (cases.BOTH, cases.RECV)
    data = pattern.data(comm.rank, counts.send)
    calls = []
    for index in range(case.calls):
        most = max(counts.send, counts.recv) if case.in_place else counts.recv
        send = memory[index].part(
            "send", send_windowed, case.shift[0], counts.send * element.itemsize, case.dtype, stream
        )
        whole = memory[index].part("recv", recv_windowed, case.shift[1], most * element.itemsize, case.dtype, stream)
        send, recv = collective.buffers(send, whole, counts, comm.rank, case.in_place)
        send.from_host(data, stream)
        calls.append((send, recv, whole))
    mark = stream.mark()
    with nccl.group():
        for send, recv, _ in calls:
            collective.launch(comm, Call(send, recv, "sum", 0, stream))
    stream.synchronize()
    comm.check()
    ran = [op.name for op in stream.op_times(mark) if op.kind == "kernel"]
    expected = collective.expected(pattern, comm.rank, counts, 0)
    for index, (send, recv, whole) in enumerate(calls):
        wrong = pattern.wrong(recv.to_host(stream), expected)
        if wrong:
            return f"call {index}: {wrong} of {expected.size} elements wrong, kernels {ran}", ran
        if not case.in_place and send.to_host(stream).tobytes() != data.tobytes():
            return f"call {index}: the sent data changed", ran
        if not memory[index].beside_is_unwritten("recv", recv_windowed, case.shift[1], whole, stream):
            return f"call {index}: memory beside the received data was written to", ran
    needed = cases.must_be_symmetric(case, forced)
    if needed and not all(name.startswith(needed) for name in ran):
        return f"{', '.join(ran)} ran, not {needed}", ran
    return None, ran


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", nargs="+", help="that the symmetric kernels reduce")
    parser.add_argument("--collective", nargs="+", choices=cases.COLLECTIVES, default=cases.COLLECTIVES)
    parser.add_argument("--registered", nargs="+", choices=(cases.BOTH, cases.SEND, cases.RECV, cases.NONE))
    chosen = parser.parse_args()
    world = MPI.COMM_WORLD
    every = [case for case in cases.every(chosen.dtype or cases.REDUCED) if case.collective in chosen.collective]
    if chosen.registered:
        every = [case for case in every if case.registered in chosen.registered]
    todo = cases.drawn(every, chosen.sample, chosen.seed)
    forced = os.environ.get("NCCL_SYM_KERNEL")
    comm = nccl.init(world)
    memory = [Memory(comm, (1 << 20) * comm.size + 64) for _ in range(MOST_CALLS)]
    stream = Stream()
    failures, kernels = [], Counter[str]()
    for case in todo:
        problem, ran = run_case(comm, case, memory, stream, forced)
        kernels.update(ran)
        for rank, theirs in enumerate(world.allgather(problem)):
            if theirs is not None:
                failures.append(f"rank {rank}, {case}: {theirs}")
    for held in memory:
        held.close()
    comm.destroy()
    if world.Get_rank() == 0:
        for failure in failures:
            print("FAILED", failure)
        for name, times in sorted(kernels.items()):
            print(f"ran {times} x {name}")
        print(
            f"{len(todo)} of {len(every)} cases ran on {world.Get_size()} ranks, seed {chosen.seed}; "
            f"{len(failures)} failures"
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
