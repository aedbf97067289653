# SPDX-License-Identifier: Apache-2.0
"""Knobs of collectives whose memory lies in windows: with a rule the ordinary kernel runs, exactly as asked; without
one, what NCCL has for windows.

    mpirun -n 2 python rules.py {kernels|copies}

`kernels`: symmetric kernels; `copies`: collectives by copy engines. Rank 0 prints how many checks there were and each
failure; exit code 1 if there is one.
"""

import sys

from mpi4py import MPI

import lagom.nccl as nccl
from lagom.bench.patterns import Pattern
from lagom.nccl import Knobs, Rule, Stream

COUNT = 100003
KNOBS = Knobs("ring", "simple", channels=1, threads=128)
# Collective -> the ordinary kernel, the symmetric one.
KERNELS = {
    "all_reduce": ("AllReduce RING SIMPLE", "ncclSymkDevKernel_AllReduce_"),
    "all_gather": ("AllGather RING SIMPLE", "ncclSymkDevKernel_AllGather_"),
}


def main() -> int:
    by_copies = sys.argv[1] == "copies"
    world = MPI.COMM_WORLD
    comm = nccl.init(world, config=nccl.Config(cta_policy=2) if by_copies else None)
    comm.counters.enable()
    stream = Stream()
    send = nccl.mem_alloc(COUNT, "float32")
    recv = nccl.mem_alloc(COUNT * comm.size, "float32")
    windows = [comm.window(send), comm.window(recv)]
    failures, checks = [], 0
    for collective in ("all_gather",) if by_copies else KERNELS:
        ordinary, symmetric = KERNELS[collective]
        for rules in ((), (Rule(collective, knobs=KNOBS),), ()):
            comm.set_rules(rules)
            reduces = collective == "all_reduce"
            pattern = Pattern(nccl.dtype("float32"), "sum" if reduces else None, comm.size)
            send.from_host(pattern.data(comm.rank, COUNT), stream)
            mark = stream.mark()
            if reduces:
                comm.all_reduce(send, recv[:COUNT], "sum", stream)
            else:
                comm.all_gather(send, recv, stream)
            stream.synchronize()
            ran = [op.name for op in stream.op_times(mark) if op.kind == "kernel"]
            records = comm.counters.read()
            whole = [pattern.data(rank, COUNT) for rank in range(comm.size)]
            got = recv[: COUNT if reduces else COUNT * comm.size].to_host(stream)
            wrong = (
                pattern.wrong(got, pattern.expected(COUNT))
                if reduces
                else sum(pattern.wrong(got[r * COUNT : (r + 1) * COUNT], whole[r]) for r in range(comm.size))
            )
            if rules:
                right = [name.upper() for name in ran] == [ordinary.upper()] and [r.exact for r in records] == [True]
            elif by_copies:
                right = ran == []
            else:
                right = len(ran) == 1 and ran[0].startswith(symmetric)
            checks += 1
            said = f"{collective} with {len(rules)} rules: {ran} ran, {wrong} wrong, {[r.used for r in records]}"
            told = world.allgather(None if right and not wrong else said)
            failures += [f"rank {rank}: {what}" for rank, what in enumerate(told) if what]
    for window in windows:
        window.close()
    comm.destroy()
    if world.Get_rank() == 0:
        for failure in failures:
            print("FAILED", failure)
        print(f"{checks} checks on {world.Get_size()} ranks; {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
