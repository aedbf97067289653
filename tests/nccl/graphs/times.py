# SPDX-License-Identifier: Apache-2.0
"""Modelled times of a captured step, compute beside communication; run under mpirun with a seed for the pauses.

The pauses are the CPU's, so they must not show: the output depends on the program alone.
"""

import random
import sys
import time

import numpy as np
from mpi4py import MPI

import lagom.nccl as nccl

WORLD = MPI.COMM_WORLD
RANK = WORLD.Get_rank()
COUNT = 1 << 20


def main() -> None:
    pause = random.Random(int(sys.argv[1]) * 100 + RANK)
    comm = nccl.init(WORLD)
    stream, side = nccl.Stream(), nccl.Stream()
    data = nccl.empty(COUNT).from_host(np.ones(COUNT))
    fork, join = nccl.Event(), nccl.Event()
    with nccl.Graph.capture(stream) as graph:
        stream.launch(nccl.Kernel("before", flops=1e9 * (1 + RANK), ctas=84))
        fork.record(stream)
        side.wait(fork)
        comm.all_reduce(data, stream=side)
        stream.launch(nccl.Kernel("beside", flops=2e10, bytes_read=1e8, ctas=200))
        join.record(side)
        stream.wait(join)
    step = graph.instantiate()
    mark = stream.mark()
    for launch in range(4):
        time.sleep(pause.random() * 0.05)
        step.launch(stream)
        if launch % 2:
            stream.synchronize()
            WORLD.Barrier()
    lines = [f"{RANK} {one.name} {one.start_ns} {one.end_ns}" for one in stream.op_times(mark)]
    for rank_lines in WORLD.gather(lines) or []:
        print("\n".join(rank_lines))
    step.close()
    graph.close()
    comm.destroy()


if __name__ == "__main__":
    main()
