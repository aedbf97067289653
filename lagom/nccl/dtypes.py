# SPDX-License-Identifier: Apache-2.0
"""Element types and reductions, by NCCL's numbers."""

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class DType:
    """One of NCCL's element types. ``name`` is NumPy's (or ml_dtypes'), ``code`` NCCL's ncclDataType_t."""

    name: str
    code: int
    numpy: np.dtype[Any] = field(compare=False)

    @property
    def itemsize(self) -> int:
        return self.numpy.itemsize

    def __str__(self) -> str:
        return self.name


DTYPES: tuple[DType, ...] = (
    DType("int8", 0, np.dtype(np.int8)),
    DType("uint8", 1, np.dtype(np.uint8)),
    DType("int32", 2, np.dtype(np.int32)),
    DType("uint32", 3, np.dtype(np.uint32)),
    DType("int64", 4, np.dtype(np.int64)),
    DType("uint64", 5, np.dtype(np.uint64)),
    DType("float16", 6, np.dtype(np.float16)),
    DType("float32", 7, np.dtype(np.float32)),
    DType("float64", 8, np.dtype(np.float64)),
    DType("bfloat16", 9, np.dtype(ml_dtypes.bfloat16)),
    DType("float8_e4m3fn", 10, np.dtype(ml_dtypes.float8_e4m3fn)),
    DType("float8_e5m2", 11, np.dtype(ml_dtypes.float8_e5m2)),
)

# NCCL's and nccl-tests' spellings.
_ALIASES = {
    "char": "int8",
    "int": "int32",
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "f8e4m3": "float8_e4m3fn",
    "float8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "float8e5m2": "float8_e5m2",
}
_BY_NAME = {dtype.name: dtype for dtype in DTYPES}
_BY_NUMPY = {dtype.numpy: dtype for dtype in DTYPES}

OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}


def dtype(of: "str | DType | np.dtype[Any] | type") -> DType:
    """The element type called ``of``: a name, a NumPy or ml_dtypes type. ValueError for a type that NCCL has not."""
    if isinstance(of, DType):
        return of
    if of is None:
        raise TypeError("an element type is needed, got None")  # NumPy would take it for float64
    found = _BY_NAME.get(_ALIASES.get(of, of)) if isinstance(of, str) else _BY_NUMPY.get(np.dtype(of))
    if found is None:
        raise ValueError(f"NCCL has no element type {of!r}; it has {', '.join(_BY_NAME)}")
    return found


def by_code(code: int) -> DType:
    """The element type with NCCL's number ``code``."""
    return DTYPES[code]


def op_code(op: str) -> int:
    """NCCL's number of a reduction. ValueError for an unknown one."""
    code = OPS.get(op)
    if code is None:
        raise ValueError(f"unknown reduction {op!r}; one of {', '.join(OPS)}")
    return code


def op_name(code: int) -> str | None:
    """Name of a reduction; None for -1, a collective that reduces nothing."""
    return next((name for name, value in OPS.items() if value == code), None)
