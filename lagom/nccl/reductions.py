# SPDX-License-Identifier: Apache-2.0
"""Reductions that a program makes."""

from types import TracebackType
from typing import Any

import numpy as np

from . import _native
from .buffers import resolve
from .checks import whole
from .dtypes import DType


class ReductionOp:
    """A sum whose inputs are multiplied by a scalar first, for one communicator and one element type.

    Made by :meth:`Communicator.pre_mul_sum`, passed as ``op``. Each rank multiplies its own input by its own scalar.
    May be destroyed as soon as the last call with it has returned; as a context manager it is, at the end of the block.
    """

    def __init__(self, handle: _native.CommHandle, scalar: Any, element: DType, device: int) -> None:
        """``scalar``: a number, converted to ``element`` now; or device memory of one element, read while calls run.

        TypeError for anything else and for a fraction where the type has none; ValueError out of the type's range.
        """
        self._handle = handle
        self.dtype = element
        self._keep: Any = None
        if isinstance(scalar, int | float | np.number):
            self._keep = _one(scalar, element)
            address = int(self._keep.ctypes.data)
        else:
            memory = resolve(scalar, "scalar", written=False)
            if memory.dtype != element or memory.count != 1:
                raise TypeError(f"scalar is {memory.count} x {memory.dtype}; one {element} is needed")
            if memory.device not in (None, device):
                raise ValueError(f"scalar is memory of device {memory.device}, this communicator's is {device}")
            self._keep, address = memory, memory.address
        self._code: int | None = _native.create_pre_mul_sum(
            handle, address, element.code, not isinstance(self._keep, np.ndarray)
        )

    def __enter__(self) -> "ReductionOp":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.destroy()

    def destroy(self) -> None:
        """Give it back. Twice is harmless, and so is after the communicator's end."""
        code, self._code = self._code, None
        if code is not None and self._handle.alive:
            _native.destroy_op(self._handle, code)

    def code_for(self, handle: _native.CommHandle, element: DType) -> int:
        """NCCL's number for a call; ValueError where it is of another communicator or has ended, TypeError for another
        element type: NCCL would compute with a scalar of the wrong type."""
        if self._code is None:
            raise ValueError("the reduction has been destroyed")
        if handle is not self._handle:
            raise ValueError("the reduction belongs to another communicator")
        if element != self.dtype:
            raise TypeError(f"the reduction is for {self.dtype}, the data is {element}")
        return self._code


def _one(scalar: Any, element: DType) -> np.ndarray[Any, Any]:
    if element.numpy.kind in "iu":
        limits = np.iinfo(element.numpy)
        scalar = whole(scalar, "scalar", int(limits.min), int(limits.max))
    elif isinstance(scalar, bool):
        raise TypeError(f"scalar is {scalar!r}; a number is needed")
    return np.array([scalar]).astype(element.numpy)
