# SPDX-License-Identifier: Apache-2.0
"""Begin a communicator under an environment of each rank's own, and say what came of it.

    mpirun -n 2 python begin.py '[{}, {"LAGOM_PLAN": "plan.csv"}]'

Every rank prints one line: its rank, the seconds it took, and "works" or NCCL's last error. A rank with LAGOM_NCCL
loads that library.
"""

import json
import os
import sys
import time

from mpi4py import MPI

world = MPI.COMM_WORLD
os.environ.update(json.loads(sys.argv[1])[world.rank])

import lagom.nccl as nccl  # noqa: E402  after the environment is complete

world.Barrier()
begun = time.monotonic()
try:
    comm = nccl.init(world)
    buffer = nccl.empty(1000, "float32")
    buffer.numpy()[:] = 1
    comm.all_reduce(buffer)
    nccl.synchronize()
    said = "works" if bool((buffer.to_host() == comm.size).all()) else "wrong data"
    comm.destroy()
except nccl.NcclError as error:
    said = " ".join(str(error.text).split())
lines = world.gather(f"rank {world.rank} {time.monotonic() - begun:.1f} s: {said}")
if lines is not None:
    print("\n".join(lines))
