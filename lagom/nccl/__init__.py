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
from .communicator import Communicator, Config
from .counters import ChannelRecord, Counters, CountersStatus, OpRecord
from .devices import DeviceInfo, device_count, device_info, host_time_ns, set_device, synchronize
from .dtypes import DTYPES, OPS, DType, dtype
from .groups import group
from .knobs import COLLECTIVES, Knobs, Rule
from .library import Library, library
from .memory import DeviceBuffer, empty, zeros
from .start import init, unique_id
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
    "Event",
    "Kernel",
    "Knobs",
    "Library",
    "LibraryError",
    "NcclError",
    "OpRecord",
    "OpTime",
    "Rule",
    "Stream",
    "device_count",
    "device_info",
    "dtype",
    "empty",
    "group",
    "host_time_ns",
    "init",
    "library",
    "set_device",
    "synchronize",
    "unique_id",
    "zeros",
]
