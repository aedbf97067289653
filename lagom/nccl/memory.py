# SPDX-License-Identifier: Apache-2.0
"""Device buffers."""

from typing import Any

import numpy as np

from . import _native, dtypes
from .checks import whole
from .dtypes import DType
from .library import library
from .streams import stream_address


class DeviceBuffer:
    """``count`` elements of one type in device memory, or a slice of another buffer (which it keeps alive).

    Offers ``__cuda_array_interface__``. Slicing with step 1 gives views: ``buffer[a:b]``.
    """

    def __init__(self, memory: _native.DeviceMemory, offset_bytes: int, count: int, element: DType) -> None:
        self._memory = memory
        self._offset_bytes = offset_bytes
        self.count = count
        self.dtype = element

    @property
    def address(self) -> int:
        return int(self._memory.address) + self._offset_bytes

    @property
    def nbytes(self) -> int:
        return self.count * self.dtype.itemsize

    @property
    def device(self) -> int:
        return int(self._memory.device)

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"DeviceBuffer({self.count} x {self.dtype}, device {self.device}, 0x{self.address:x})"

    def __getitem__(self, index: slice) -> "DeviceBuffer":
        if not isinstance(index, slice):
            raise TypeError("device buffers are sliced, buffer[a:b]; to read elements use numpy() or to_host()")
        start, stop, step = index.indices(self.count)
        if step != 1:
            raise ValueError(f"slice step {step}: NCCL needs contiguous memory, so only step 1 is possible")
        return DeviceBuffer(
            self._memory, self._offset_bytes + start * self.dtype.itemsize, max(0, stop - start), self.dtype
        )

    def view(self, dtype: "str | DType | np.dtype[Any] | type") -> "DeviceBuffer":
        """The same memory as elements of another type; a rest that fills no element is left out."""
        element = dtypes.dtype(dtype)
        return DeviceBuffer(self._memory, self._offset_bytes, self.nbytes // element.itemsize, element)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (self.count,),
            "typestr": self.dtype.numpy.str,
            "data": (self.address, False),
            "version": 3,
            "stream": None,
        }

    def numpy(self) -> np.ndarray[Any, Any]:
        """A NumPy view of the memory itself, where host and device share it (hostcuda); BufferError elsewhere.

        Synchronize the streams that use the buffer before looking.
        """
        whole = (
            np.frombuffer(memoryview(self._memory), dtype=np.uint8) if self._memory.nbytes else np.empty(0, np.uint8)
        )
        return whole[self._offset_bytes : self._offset_bytes + self.nbytes].view(self.dtype.numpy)

    def to_host(self, stream: Any = None) -> np.ndarray[Any, Any]:
        """A copy in host memory, taken in ``stream``'s order; waits for it."""
        out = np.empty(self.count, self.dtype.numpy)
        if self.nbytes:
            _native.copy(out.ctypes.data, self.address, self.nbytes, stream_address(stream))
        return out

    def from_host(self, values: Any, stream: Any = None) -> "DeviceBuffer":
        """Fill from an array of the same count (converted to the buffer's type); waits until it is there."""
        array = np.ascontiguousarray(values, dtype=self.dtype.numpy).reshape(-1)
        if array.size != self.count:
            raise ValueError(f"{array.size} values for a buffer of {self.count} elements")
        if self.nbytes:
            _native.copy(self.address, array.ctypes.data, self.nbytes, stream_address(stream))
        return self

    def fill_bytes(self, byte: int, stream: Any = None) -> "DeviceBuffer":
        """Set every byte to ``byte`` (0 to 255) in ``stream``'s order; does not wait."""
        byte = whole(byte, "byte", 0, 255)
        if self.nbytes:
            _native.fill(self.address, byte, self.nbytes, stream_address(stream))
        return self


def empty(count: int, dtype: "str | DType | np.dtype[Any] | type" = "float32") -> DeviceBuffer:
    """``count`` uninitialised elements on the current device.

    ``dtype`` is a name ("float32", "bfloat16", ...), a NumPy or an ml_dtypes type. TypeError for a count that is
    no whole number, ValueError for a negative one or a type that NCCL has not, CudaError where memory does not suffice.
    """
    element = dtypes.dtype(dtype)
    count = whole(count, "count", 0, (2**64 - 1) // element.itemsize)
    library()
    return DeviceBuffer(_native.DeviceMemory(count * element.itemsize), 0, count, element)


def zeros(count: int, dtype: "str | DType | np.dtype[Any] | type" = "float32") -> DeviceBuffer:
    """Like :func:`empty`, with every byte 0 (set in the legacy default stream, and waited for)."""
    buffer = empty(count, dtype).fill_bytes(0)
    _native.stream_synchronize(0)
    return buffer


def mem_alloc(count: int, dtype: "str | DType | np.dtype[Any] | type" = "float32") -> DeviceBuffer:
    """Like :func:`empty`, from ncclMemAlloc: memory that can be registered and made a window on every path.

    NcclError where memory does not suffice; LibraryError where NCCL is older than 2.19.
    """
    element = dtypes.dtype(dtype)
    count = whole(count, "count", 0, (2**64 - 1) // element.itemsize)
    library()
    return DeviceBuffer(_native.DeviceMemory(count * element.itemsize, by_nccl=True), 0, count, element)
