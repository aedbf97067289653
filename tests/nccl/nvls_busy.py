# SPDX-License-Identifier: Apache-2.0
"""NVLink SHARP gets its buffers while rank 0's default stream is busy; its first call, on another, is busy longer.

    NCCL_ALGO=NVLS mpirun -n 2 python nvls_busy.py

So what the peer sends has arrived before anything that waits for the default stream happens. Prints how many elements
were wrong.
"""

import ctypes
import sys
import time

import numpy as np
from mpi4py import MPI

import lagom.nccl as nccl

_COUNT = 5000
_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_SHORT, _LONG = _Callback(lambda _: time.sleep(0.5)), _Callback(lambda _: time.sleep(1.0))


def main() -> int:
    cuda = ctypes.CDLL(nccl.library().cuda_path)
    with nccl.init(MPI.COMM_WORLD) as comm:
        stream = nccl.Stream()
        mine = nccl.empty(_COUNT, "float32").from_host(np.full(_COUNT, 1 + comm.rank))
        whole = nccl.empty(_COUNT * comm.size, "float32")
        nccl.synchronize()
        if comm.rank == 0:
            assert cuda.cudaLaunchHostFunc(None, _SHORT, None) == 0
            assert cuda.cudaLaunchHostFunc(ctypes.c_void_p(stream.address), _LONG, None) == 0
        comm.all_gather(mine, whole, stream=stream)
        stream.synchronize()
        wrong = int(np.count_nonzero(whole.numpy() != 1 + np.repeat(np.arange(comm.size), _COUNT)))
        print(f"wrong: {wrong} elements")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
