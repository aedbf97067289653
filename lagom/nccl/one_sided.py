# SPDX-License-Identifier: Apache-2.0
"""Calls that reach another rank's window without its help, and the memory they need."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import _native
from .calls import Calls
from .checks import whole
from .groups import COMMUNICATORS, note
from .registration import Registration, Window
from .streams import stream_address

_INT_MAX = 2**31 - 1
_WINDOW_ALIGNMENT = 4096


@dataclass(frozen=True)
class Wait:
    """``count`` signals from rank ``peer``; NCCL 2.29 knows signal 0 and context 0 only."""

    peer: int
    count: int = 1
    signal: int = 0
    context: int = 0


class OneSided(Calls):
    """Registered memory, windows, put and signal."""

    # Held until the end, also where the program has dropped them: NCCL still has their addresses.
    _known: list[Registration | Window]

    def register(self, memory: Any) -> Registration:
        """Let NCCL prepare ``memory`` for calls without copies; on every rank, with whatever memory it will use.

        Whether it did is in :attr:`Registration.active`. Of a send and its receive both memories must be registered, or
        none: NCCL 2.29 does not compare, and the data would be wrong.
        """
        registration = Registration(self._handle, self._memory(memory, "memory", written=True))
        self._known.append(registration)
        return registration

    def window(self, memory: Any, *, symmetric: bool = True, strict_ordering: bool = False) -> Window:
        """Make ``memory`` of all ranks one window; call it on every rank with the same size.

        ``symmetric``: at the same offsets everywhere, which symmetric kernels, copy-engine collectives and one-sided
        calls need. The memory comes from :func:`mem_alloc`. ValueError where it is empty or not at a multiple of 4096.
        """
        note("window", COMMUNICATORS, blocking=self._blocking)
        argument = self._memory(memory, "memory", written=True)
        if not argument.nbytes:
            raise ValueError("window: memory has 0 elements")
        if argument.address % _WINDOW_ALIGNMENT:
            raise ValueError(f"window: memory at 0x{argument.address:x}; a multiple of {_WINDOW_ALIGNMENT} is needed")
        made = Window(self._handle, self.size, argument, symmetric=symmetric, strict_ordering=strict_ordering)
        self._known.append(made)
        return made

    def _forget_memory(self) -> None:
        """Wait for the device and give back what is still registered: NCCL 2.29 crashes where a communicator is
        destroyed with such buffers."""
        registrations = [known for known in self._known if isinstance(known, Registration) and known.active]
        if registrations:
            before = _native.current_device()
            _native.set_device(self.device)
            _native.device_synchronize()
            _native.set_device(before)
        for registration in registrations:
            registration.close()
        self._known.clear()

    def put_signal(
        self,
        memory: Any,
        peer: int,
        window: Window,
        offset_bytes: int = 0,
        *,
        signal: int = 0,
        context: int = 0,
        stream: Any = None,
    ) -> None:
        """Write ``memory``, which lies in a window of this rank, into ``window`` of ``peer`` and then signal it.

        LibraryError where NCCL is older than 2.29 (all one-sided calls); NcclError where the communicator cannot
        (:attr:`Properties.host_rma`).
        """
        self._begin("put_signal")
        source = self._memory(memory, "memory", written=False)
        if not isinstance(window, Window) or not window.active:
            raise ValueError("put_signal: window is no open lagom.nccl.Window")
        offset_bytes = whole(offset_bytes, "offset_bytes", 0, window.nbytes)
        if offset_bytes + source.nbytes > window.nbytes:
            raise ValueError(
                f"put_signal: {source.nbytes} bytes at {offset_bytes} reach beyond the window's {window.nbytes} bytes"
            )
        _native.put_signal(
            self._handle,
            source.address,
            source.count,
            source.dtype.code,
            self._check_rank(peer, "peer"),
            window._handle,
            offset_bytes,
            whole(signal, "signal", 0, _INT_MAX),
            whole(context, "context", 0, _INT_MAX),
            stream_address(stream),
        )

    def signal(self, peer: int, *, signal: int = 0, context: int = 0, stream: Any = None) -> None:
        """Signal rank ``peer`` without data."""
        self._begin("signal")
        _native.signal(
            self._handle,
            self._check_rank(peer, "peer"),
            whole(signal, "signal", 0, _INT_MAX),
            whole(context, "context", 0, _INT_MAX),
            stream_address(stream),
        )

    def wait_signals(self, waits: Sequence[Wait], stream: Any = None) -> None:
        """Let the stream wait for signals of other ranks."""
        self._begin("wait_signals")
        numbers = [
            (
                whole(wait.count, "count", 1, _INT_MAX),
                self._check_rank(wait.peer, "peer"),
                whole(wait.signal, "signal", 0, _INT_MAX),
                whole(wait.context, "context", 0, _INT_MAX),
            )
            for wait in waits
        ]
        if not numbers:
            raise ValueError("wait_signals: nothing to wait for")
        _native.wait_signals(self._handle, numbers, stream_address(stream))
