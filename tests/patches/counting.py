# SPDX-License-Identifier: Apache-2.0
"""More operations than the rings of the counters hold, read late, then few, read at once.

    mpirun -n 2 python counting.py

Prints "issued I read R lost L pending P" after each, exit code 1 if they do not add up or a record is not whole.
"""

import sys

from mpi4py import MPI

import lagom.nccl as nccl

with nccl.init(MPI.COMM_WORLD) as comm:
    comm.counters.enable()
    buffer = nccl.empty(1, "float32")
    good = True
    issued = read = 0
    for operations in (2500, 100):
        for _ in range(operations):
            comm.all_reduce(buffer)
        nccl.synchronize()
        records = comm.counters.read()
        status = comm.counters.status()
        issued += operations
        read += len(records)
        good &= (status.issued, status.read, status.pending) == (issued, read, 0)
        good &= status.read + status.lost == issued
        good &= [r.op_index for r in records] == sorted({r.op_index for r in records})
        good &= all(r.count == 1 and len(r.channels) == 1 and r.start_ns < r.stop_ns for r in records)
        good &= operations != 100 or len(records) == 100
        if comm.rank == 0:
            print(f"issued {status.issued} read {status.read} lost {status.lost} pending {status.pending}")
    comm.counters.enable(False)
    comm.all_reduce(buffer)
    nccl.synchronize()
    good &= comm.counters.read() == [] and comm.counters.status().issued == issued
sys.exit(0 if good else 1)
