# SPDX-License-Identifier: Apache-2.0
"""A program for two ranks that overlap and hold each other up: two_ranks.py SEED. Prints every rank's modelled times.

The seed only decides where and how long ranks sleep, so the output must not depend on it.
"""

import random
import sys
import time

from mpi4py import MPI

import lagom.nccl as nccl

ITERATIONS = 4
GEMM = nccl.Kernel("gemm", 2e10, 4e7, 2e7, ctas=320, threads_per_cta=256, registers_per_thread=200)
NORM = nccl.Kernel("norm", 1e7, 4e7, 4e7, ctas=512, threads_per_cta=256, registers_per_thread=32)


def main() -> None:
    world = MPI.COMM_WORLD
    rank = world.rank
    chance = random.Random(f"{sys.argv[1]} {rank}")

    def nap() -> None:
        if chance.random() < 0.3:
            time.sleep(chance.uniform(0, 0.05))

    lines = []
    with nccl.init(world) as comm:
        compute, comms = nccl.Stream(), nccl.Stream(priority=-1)
        shard, full = nccl.empty(50_000), nccl.empty(100_000)
        sums = nccl.empty(70_000)
        for iteration in range(ITERATIONS):
            marks = compute.mark(), comms.mark()
            for layer in range(3):
                nap()
                comm.all_gather(shard, full, stream=comms)
                gathered = nccl.Event()
                gathered.record(comms)
                for kernel in (GEMM, NORM)[: 1 + (layer + rank) % 2]:
                    nap()
                    compute.launch(kernel)
                compute.wait(gathered)
                nap()
                compute.launch(GEMM)
                computed = nccl.Event()
                computed.record(compute)
                comms.wait(computed)
                nap()
                comm.all_reduce(sums, sums, stream=comms)
            # One rank cannot synchronize before the other has: it is stuck in MPI until then.
            first = iteration % 2
            if rank == first:
                comms.synchronize()
                world.send(iteration, 1 - rank)
                nap()
                compute.synchronize()
            else:
                world.recv(source=first)
                compute.synchronize()
                comms.synchronize()
            for name, stream, mark in (("compute", compute, marks[0]), ("comms", comms, marks[1])):
                for op in stream.op_times(mark):
                    lines.append(f"rank {rank} {iteration} {name} {op.name} {op.start_ns} {op.end_ns}")
    for text in world.gather(lines) or []:
        print("\n".join(text))


main()
