# SPDX-License-Identifier: Apache-2.0
"""A program that knows of no knobs: collectives alone and in groups, drawn with one seed.

mpirun -n 2 python untuned.py SEED CALLS
"""

import random
import sys

from mpi4py import MPI

import lagom.nccl as nccl

rng = random.Random(int(sys.argv[1]))
with nccl.init(MPI.COMM_WORLD) as comm:
    room = nccl.empty((16 << 20) // 4 * comm.size, "float32")
    for _ in range(int(sys.argv[2])):
        with nccl.group():
            for _ in range(rng.choice((1, 1, 2, 5))):
                count = rng.choice((1, 1000, 65537, rng.randrange(1, 1 << rng.randrange(4, 22))))
                if rng.random() < 0.5:
                    comm.all_reduce(room[:count])
                else:
                    comm.all_gather(room[comm.rank * count : (comm.rank + 1) * count], room[: comm.size * count])
    nccl.synchronize()
