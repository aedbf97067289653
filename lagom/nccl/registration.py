# SPDX-License-Identifier: Apache-2.0
"""Memory that a communicator knows beforehand."""

from types import TracebackType

from . import _native
from .buffers import Argument
from .checks import whole
from .groups import keep


class Registration:
    """A registered buffer, see :meth:`Communicator.register`; keeps the memory alive until it is closed."""

    def __init__(self, handle: _native.CommHandle, memory: Argument) -> None:
        self._memory: Argument | None = memory
        self._handle = _native.RegistrationHandle(handle, memory.address, memory.nbytes)

    def __enter__(self) -> "Registration":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def active(self) -> bool:
        """Whether NCCL registered it: False also where NCCL_LOCAL_REGISTER=0 or the path has no use for it."""
        return bool(self._handle.active)

    def close(self) -> None:
        """Give it back. Twice is harmless, and so is after the communicator's end."""
        self._handle.close()
        self._memory = None


class Window:
    """Memory of all ranks that NCCL, and device code, address as one: see :meth:`Communicator.window`."""

    def __init__(
        self, handle: _native.CommHandle, size: int, memory: Argument, *, symmetric: bool, strict_ordering: bool
    ) -> None:
        self._size = size
        self._memory: Argument | None = memory
        self.nbytes = memory.nbytes
        self._handle = _native.WindowHandle(handle, memory.address, memory.nbytes, symmetric, strict_ordering)
        keep(self._handle)

    def __enter__(self) -> "Window":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def active(self) -> bool:
        """Whether there is a window: False where the communicator supports none, and before its group has ended."""
        return bool(self._handle.active)

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

    def close(self) -> None:
        """Give it back, on every rank, with nothing in flight. Twice is harmless, and so is after the communicator's
        end."""
        self._handle.close()
        self._memory = None
