# SPDX-License-Identifier: Apache-2.0
"""Memory that a communicator knows beforehand."""

from types import TracebackType
from typing import Self

from . import _native
from .buffers import Argument
from .checks import whole
from .groups import keep


class _Known:
    """Keeps the memory alive until it is closed."""

    def __init__(self, memory: Argument, handle: _native.RegistrationHandle | _native.WindowHandle) -> None:
        self._memory: Argument | None = memory
        self._known = handle

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def active(self) -> bool:
        """Whether NCCL took it: False also where it has no use for it, and before the group of the call has ended."""
        return bool(self._known.active)

    def close(self) -> None:
        """Give it back. Twice is harmless, and so is after the communicator's end."""
        self._known.close()
        self._memory = None


class Registration(_Known):
    """A registered buffer, see :meth:`Communicator.register`.

    It is not :attr:`active` with NCCL_LOCAL_REGISTER=0, or where the path has no use for it.
    """

    def __init__(self, handle: _native.CommHandle, memory: Argument) -> None:
        super().__init__(memory, _native.RegistrationHandle(handle, memory.address, memory.nbytes))


class Window(_Known):
    """Memory of all ranks that NCCL, and device code, address as one: see :meth:`Communicator.window`.

    It is not :attr:`active` where the communicator supports none. Close it on every rank, with nothing in flight.
    """

    def __init__(
        self, handle: _native.CommHandle, size: int, memory: Argument, *, symmetric: bool, strict_ordering: bool
    ) -> None:
        self._handle = _native.WindowHandle(handle, memory.address, memory.nbytes, symmetric, strict_ordering)
        super().__init__(memory, self._handle)
        self._size = size
        self.nbytes = memory.nbytes
        keep(self._handle)

    @property
    def address(self) -> int:
        """The ncclWindow_t, for device code."""
        return int(self._handle.address)

    def user_address(self) -> int:
        """Address of this rank's memory, as NCCL has it. ValueError where there is no window."""
        return int(self._handle.user_address())

    def peer_address(self, rank: int, offset_bytes: int = 0) -> int:
        """Where this rank's device reaches the memory of ``rank``; 0 where it cannot. ValueError out of range."""
        rank = whole(rank, "rank", 0, self._size - 1)
        return int(self._handle.peer_address(rank, whole(offset_bytes, "offset_bytes", 0, self.nbytes - 1)))

    def multimem_address(self, offset_bytes: int = 0) -> int:
        """Where a multimem instruction reaches all ranks of this host; 0 where there is no multicast."""
        return int(self._handle.multimem_address(whole(offset_bytes, "offset_bytes", 0, self.nbytes - 1)))
