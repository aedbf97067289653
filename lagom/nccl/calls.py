# SPDX-License-Identifier: Apache-2.0
"""What every call of a communicator does with its arguments first."""

from typing import Any

from . import _native, dtypes
from .buffers import Argument, resolve
from .checks import whole
from .dtypes import DType
from .groups import CALLS, note
from .reductions import ReductionOp


class Calls:
    """The communicator as its calls see it."""

    _handle: _native.CommHandle
    _blocking: bool

    # Only annotated: how they are found is the communicator's matter.
    @property
    def rank(self) -> int:
        raise NotImplementedError

    @property
    def size(self) -> int:
        raise NotImplementedError

    @property
    def device(self) -> int:
        raise NotImplementedError

    def _begin(self, what: str) -> None:
        note(what, CALLS, blocking=self._blocking)

    def _memory(self, memory: Any, name: str, *, written: bool) -> Argument:
        argument = resolve(memory, name, written=written)
        if argument.device not in (None, self.device) and argument.count:
            raise ValueError(f"{name} is memory of device {argument.device}, this communicator's is {self.device}")
        return argument

    def _pair(self, send: Any, recv: Any) -> tuple[Argument, Argument]:
        if recv is None:
            both = self._memory(send, "send", written=True)
            return both, both
        source = self._memory(send, "send", written=False)
        target = self._memory(recv, "recv", written=True)
        if source.dtype != target.dtype:
            raise TypeError(f"send is {source.dtype}, recv {target.dtype}; they must be equal")
        return source, target

    def _check_rank(self, rank: int, name: str = "root") -> int:
        return whole(rank, name, 0, self.size - 1)

    def _op(self, op: "str | ReductionOp", element: DType) -> int:
        return op.code_for(self._handle, element) if isinstance(op, ReductionOp) else dtypes.op_code(op)


def same_count(call: str, source: Argument, target: Argument) -> None:
    """ValueError where the two memories of ``call`` differ in their number of elements."""
    if source.count != target.count:
        raise ValueError(f"{call}: send has {source.count} elements, recv {target.count}; they must be equal")
