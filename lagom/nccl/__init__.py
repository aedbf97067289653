# SPDX-License-Identifier: Apache-2.0
"""NCCL for Python: communicators, device buffers, streams, knobs and counters.

    import lagom.nccl as nccl
    with nccl.init() as comm:                        # over MPI.COMM_WORLD, one device a rank
        data = nccl.empty(1024, "float32")
        comm.all_reduce(data)                        # in place, in the default stream
        nccl.synchronize()

The library is found when it is first needed (see :func:`library`); a stock NCCL works, without knobs and counters.
"""

try:
    from ._native import CudaError, LibraryError, NcclError
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"{__path__[0]} holds the sources of lagom.nccl, not a build of it; leave the folder that has lagom/ in it, "
        "or start Python with -P, and the installed package is found (pip install . installs it)"
    ) from missing
from .communicator import Communicator
from .config import Config
from .counters import ChannelRecord, Counters, CountersStatus, OpRecord
from .devices import DeviceInfo, device_count, device_info, host_time_ns, set_device, synchronize
from .dtypes import DTYPES, OPS, DType, dtype
from .graphs import Graph, GraphExec
from .groups import Estimate, group, simulate
from .knobs import COLLECTIVES, Knobs, Rule
from .library import Library, in_process, library
from .memory import DeviceBuffer, empty, mem_alloc, zeros
from .modules import Function, Module
from .one_sided import Wait
from .properties import MemoryUse, Properties
from .reductions import ReductionOp
from .registration import Registration, Window
from .start import init, init_all, join, unique_id
from .streams import Event, Kernel, OpTime, Stream

__all__ = [
    "COLLECTIVES",
    "DTYPES",
    "OPS",
    "ChannelRecord",
    "Communicator",
    "Config",
    "Counters",
    "CountersStatus",
    "CudaError",
    "DType",
    "DeviceBuffer",
    "DeviceInfo",
    "Estimate",
    "Event",
    "Function",
    "Graph",
    "GraphExec",
    "Kernel",
    "Knobs",
    "Library",
    "LibraryError",
    "MemoryUse",
    "Module",
    "NcclError",
    "OpRecord",
    "OpTime",
    "Properties",
    "ReductionOp",
    "Registration",
    "Rule",
    "Stream",
    "Wait",
    "Window",
    "device_count",
    "device_info",
    "dtype",
    "empty",
    "group",
    "host_time_ns",
    "in_process",
    "init",
    "init_all",
    "join",
    "library",
    "mem_alloc",
    "set_device",
    "simulate",
    "synchronize",
    "unique_id",
    "zeros",
]
