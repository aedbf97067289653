# SPDX-License-Identifier: Apache-2.0
"""One all-reduce under one rule: prints "works" or NCCL's last error. Words: algorithm protocol."""

import sys

from mpi4py import MPI

import lagom.nccl as nccl
from lagom.nccl import Knobs, Rule

comm = nccl.init(MPI.COMM_WORLD)
comm.set_rules([Rule("all_reduce", knobs=Knobs(*sys.argv[1:3]))])
try:
    comm.all_reduce(nccl.empty(1, "float32"))
    print("works")
except nccl.NcclError as error:
    print(error.text)
comm.destroy()
