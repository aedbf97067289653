# SPDX-License-Identifier: Apache-2.0
"""A job for plug-ins to watch: every collective, checked with NumPy; settings are left to the caller.

    mpirun -n 2 python job.py [KEEP]

Prints "rank R: 6 right" once all are. With KEEP it then prints "waiting" and keeps the communicator until that file is
there.
"""

import sys
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

import lagom.nccl as nccl

COUNT = 65536
world = MPI.COMM_WORLD
with nccl.init(world) as comm:
    rank, size = comm.rank, comm.size

    def values(of: int, count: int = COUNT) -> np.ndarray:
        return np.arange(count, dtype=np.float32) % 251 + of

    every = sum(values(of) for of in range(size))
    right = 0

    def check(buffer: nccl.DeviceBuffer, expected: np.ndarray) -> None:
        global right
        nccl.synchronize()
        assert (buffer.to_host() == expected).all(), f"rank {rank}: wrong data"
        right += 1

    result = nccl.empty(COUNT, "float32")
    mine = nccl.empty(COUNT, "float32").from_host(values(rank))
    comm.all_reduce(mine, result)
    check(result, every)
    comm.all_reduce(mine[: COUNT // 64], result[: COUNT // 64])
    check(result[: COUNT // 64], every[: COUNT // 64])
    whole = nccl.empty(COUNT * size, "float32")
    comm.all_gather(mine, whole)
    check(whole, np.concatenate([values(of) for of in range(size)]))
    comm.broadcast(mine, result, root=size - 1)
    check(result, values(size - 1))
    part = nccl.empty(COUNT // size, "float32")
    comm.reduce_scatter(mine, part)
    check(part, every[rank * (COUNT // size) : (rank + 1) * (COUNT // size)])
    comm.reduce(mine, result if rank == 0 else None, root=0)
    if rank == 0:
        check(result, every)
    else:
        nccl.synchronize()
        right += 1
    print(f"rank {rank}: {right} right", flush=True)
    if len(sys.argv) > 1:
        world.Barrier()
        if rank == 0:
            print("waiting", flush=True)
        while not Path(sys.argv[1]).exists():
            time.sleep(0.05)
