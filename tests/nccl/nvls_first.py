# SPDX-License-Identifier: Apache-2.0
"""The first NVLink SHARP collective of a communicator is on registered memory, the next ones are not.

    NCCL_ALGO=NVLS mpirun -n 2 python nvls_first.py

Prints how many elements of each collective were wrong.
"""

import sys

import numpy as np
from mpi4py import MPI

import lagom.nccl as nccl

_COUNT = 5000


def main() -> int:
    with nccl.init(MPI.COMM_WORLD) as comm:
        memory = nccl.mem_alloc(_COUNT * comm.size, "float32")
        with comm.register(memory):
            mine = memory[comm.rank * _COUNT : (comm.rank + 1) * _COUNT]
            mine.from_host(np.full(_COUNT, comm.rank))
            comm.all_gather(mine, memory)
            nccl.synchronize()
            expected = np.repeat(np.arange(comm.size), _COUNT)
            wrong = [int(np.count_nonzero(memory.numpy() != expected))]
        for value in range(1, 6):
            plain = nccl.empty(_COUNT, "float32").from_host(np.full(_COUNT, value + comm.rank))
            comm.all_reduce(plain)
            nccl.synchronize()
            total = comm.size * value + sum(range(comm.size))
            wrong.append(int(np.count_nonzero(plain.numpy() != total)))
        print("wrong:", *wrong)
    return 1 if any(wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
