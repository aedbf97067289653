# SPDX-License-Identifier: Apache-2.0
"""What may be passed where a collective needs memory.

Anything with DLPack on a CUDA device, with ``__cuda_array_interface__``, or with the buffer protocol where the device
can reach it (pinned, registered or managed memory). Pageable host memory is refused.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _native, dtypes
from .dtypes import DType
from .memory import DeviceBuffer

_DLPACK_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged
_DLPACK_TYPES = {
    (0, 8): "int8",
    (1, 8): "uint8",
    (0, 32): "int32",
    (1, 32): "uint32",
    (0, 64): "int64",
    (1, 64): "uint64",
    (2, 16): "float16",
    (2, 32): "float32",
    (2, 64): "float64",
    (4, 16): "bfloat16",
    (10, 8): "float8_e4m3fn",
    (12, 8): "float8_e5m2",
}


@dataclass(frozen=True)
class Argument:
    """Memory of a call: its address, element count and type. ``keep`` holds alive what the address belongs to.
    ``device`` is None where nobody says, and for memory that every device reaches."""

    address: int
    count: int
    dtype: DType
    keep: Any
    device: int | None = None

    @property
    def nbytes(self) -> int:
        return self.count * self.dtype.itemsize


def require_apart(call: str, part: Argument, whole: Argument, *, in_place: int) -> None:
    """ValueError where the memories of ``call`` overlap and ``part`` does not lie where in place demands: at the
    address ``in_place``. NCCL does not look, and the result would be wrong."""
    apart = part.address + part.nbytes <= whole.address or whole.address + whole.nbytes <= part.address
    if part.nbytes and not apart and part.address != in_place:
        raise ValueError(
            f"{call}: send and recv overlap, the smaller {part.address - whole.address:+} bytes from the other; "
            f"in place it is {in_place - whole.address:+}"
        )


def resolve(memory: Any, name: str, *, written: bool) -> Argument:
    """Look at ``memory``, called ``name`` in errors.

    TypeError for something that is no memory or of a type NCCL has not; ValueError where it is not contiguous,
    read-only although ``written``, or out of the device's reach.
    """
    if isinstance(memory, DeviceBuffer):
        return Argument(memory.address, memory.count, memory.dtype, memory, memory.device)
    device_of = getattr(memory, "__dlpack_device__", None)
    if device_of is not None and int(device_of()[0]) in _DLPACK_CUDA:
        kind, device = device_of()
        return _from_dlpack(memory, name, int(device) if int(kind) == _DLPACK_CUDA[0] else None)
    interface = getattr(memory, "__cuda_array_interface__", None)
    if interface is not None:
        return _from_cuda_array(memory, interface, name, written)
    try:
        view = memoryview(memory)
    except (TypeError, ValueError, BufferError):
        view = None
    if view is None and not isinstance(memory, np.ndarray):
        raise TypeError(
            f"{name}: {type(memory).__name__} is no memory; pass a lagom.nccl buffer, or something with DLPack, "
            "__cuda_array_interface__ or the buffer protocol"
        )
    return _from_host(memory, view, name, written)


def _from_dlpack(memory: Any, name: str, device: int | None) -> Argument:
    # -1: the producer must not synchronize; order between streams is the caller's, as with plain addresses.
    capsule = memory.__dlpack__(stream=-1)
    address, shape, strides, code, bits, lanes = _native.read_dlpack(capsule)
    known = _DLPACK_TYPES.get((code, bits)) if lanes == 1 else None
    if known is None:
        raise TypeError(f"{name}: NCCL has no element type for DLPack type code {code} with {bits} bits x {lanes}")
    element = dtypes.dtype(known)
    _check_contiguous(shape, None if strides is None else tuple(s * element.itemsize for s in strides), element, name)
    return Argument(address, _count(shape), element, (memory, capsule), device)


def _from_cuda_array(memory: Any, interface: dict[str, Any], name: str, written: bool) -> Argument:
    address, read_only = interface["data"]
    if written and read_only:
        raise ValueError(f"{name} is read-only")
    declared = getattr(memory, "dtype", None)
    try:
        # A type string cannot express bfloat16 ("<V2"), the object's own dtype can.
        element = declared if isinstance(declared, DType) else dtypes.dtype(np.dtype(declared or interface["typestr"]))
    except (TypeError, ValueError):
        try:
            element = dtypes.dtype(np.dtype(interface["typestr"]))
        except ValueError as error:
            raise TypeError(f"{name}: {error}") from None
    shape = tuple(interface["shape"])
    _check_contiguous(shape, interface.get("strides"), element, name)
    return Argument(int(address or 0), _count(shape), element, memory)


def _from_host(memory: Any, view: memoryview | None, name: str, written: bool) -> Argument:
    # NumPy does not export ml_dtypes' types through the buffer protocol, so arrays are looked at as arrays.
    array = memory if isinstance(memory, np.ndarray) else np.asarray(view)
    try:
        element = dtypes.dtype(array.dtype)
    except ValueError as error:
        raise TypeError(f"{name}: {error}") from None
    if not array.flags.c_contiguous:
        raise ValueError(f"{name} is not contiguous")
    if written and not array.flags.writeable:
        raise ValueError(f"{name} is read-only")
    address = int(array.ctypes.data)
    if array.size and _native.pointer_kind(address) == "unreachable":
        raise ValueError(
            f"{name} is pageable host memory, which the device cannot reach; use lagom.nccl.empty(...).from_host(array)"
        )
    return Argument(address, array.size, element, memory)


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


def _check_contiguous(shape: tuple[int, ...], strides_bytes: tuple[int, ...] | None, element: DType, name: str) -> None:
    if strides_bytes is None or _count(shape) == 0:
        return
    expected = element.itemsize
    for extent, stride in zip(reversed(shape), reversed(strides_bytes), strict=True):
        if extent != 1 and stride != expected:
            raise ValueError(f"{name} is not contiguous: shape {shape}, strides {strides_bytes} bytes")
        expected *= extent
