# SPDX-License-Identifier: Apache-2.0
"""Streams, events, and kernels that are launched by description."""

import math
from dataclasses import dataclass
from typing import Any

from . import _native
from .checks import whole
from .library import library

# Fields of a kernel's launch with what they may be; the device has limits of its own below these.
_LAUNCH = (
    ("ctas", 1, 2**31 - 1),
    ("threads_per_cta", 1, 1024),
    ("registers_per_thread", 0, 255),
    ("shared_bytes_per_cta", 0, 2**32 - 1),
)


@dataclass(frozen=True)
class Kernel:
    """A compute kernel known by its cost; hostcuda gives it its place and time on the modelled GPU.

    ``flops`` are floating-point operations in all, ``bytes_read`` and ``bytes_written`` memory traffic in all, the
    rest is the launch: CTAs, threads a CTA, registers a thread, shared memory in bytes a CTA.
    """

    name: str
    flops: float = 0.0
    bytes_read: float = 0.0
    bytes_written: float = 0.0
    ctas: int = 1
    threads_per_cta: int = 256
    registers_per_thread: int = 32
    shared_bytes_per_cta: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or "\0" in self.name:
            raise ValueError(f"a kernel needs a name, text without zero bytes; got {self.name!r}")
        for field in ("flops", "bytes_read", "bytes_written"):
            if not 0 <= getattr(self, field) < math.inf:
                raise ValueError(f"kernel {self.name}: {field} is {getattr(self, field)}; it must be finite, 0 or more")
        for field, low, high in _LAUNCH:
            whole(getattr(self, field), f"kernel {self.name}: {field}", low, high)


@dataclass(frozen=True)
class OpTime:
    """One operation of a stream with its modelled start and end in nanoseconds since the process began (hostcuda)."""

    sequence: int
    kind: str
    name: str
    ctas: int
    start_ns: int
    end_ns: int


_KINDS = ("kernel", "described", "copy", "set", "host")


class Stream:
    """A stream of the current device that does not wait for the legacy default stream.

    ``priority``: as CUDA counts, lower is more urgent; CUDA clamps it to what the device has. CudaError where CUDA
    refuses.
    """

    def __init__(self, priority: int = 0) -> None:
        priority = whole(priority, "priority", -(2**31), 2**31 - 1)
        library()
        self._handle = _native.StreamHandle(priority)

    @property
    def address(self) -> int:
        """The cudaStream_t, as a number."""
        return int(self._handle.address)

    @property
    def priority(self) -> int:
        return int(self._handle.priority)

    def synchronize(self) -> None:
        """Wait until everything in this stream has been done."""
        _native.stream_synchronize(self.address)

    def done(self) -> bool:
        """Whether everything in this stream has been done; does not wait."""
        return _native.stream_query(self.address)

    def capturing(self) -> bool:
        """Whether it takes part in a capture that nothing has broken (see :class:`Graph`)."""
        return _native.capture_active(self.address)

    def wait(self, event: "Event") -> None:
        """Let what is enqueued from now on wait for ``event``; does not block the host."""
        event._handle.wait_in(self.address)

    def launch(self, kernel: Kernel) -> None:
        """Enqueue a kernel by description. LibraryError on a real CUDA runtime, which runs compiled kernels only."""
        _native.launch_described(
            kernel.name,
            kernel.flops,
            kernel.bytes_read,
            kernel.bytes_written,
            kernel.ctas,
            kernel.threads_per_cta,
            kernel.registers_per_thread,
            kernel.shared_bytes_per_cta,
            self.address,
        )

    def mark(self) -> int:
        """Sequence number of the next operation, for :meth:`op_times` (hostcuda only)."""
        return _native.stream_mark(self.address)

    def op_times(self, since: int = 0) -> list[OpTime]:
        """Wait, then the modelled times of the operations from mark ``since`` on, oldest first (hostcuda only)."""
        return [
            OpTime(sequence, _KINDS[kind], name, ctas, start_ns, end_ns)
            for sequence, kind, ctas, start_ns, end_ns, name in _native.stream_op_times(self.address, since)
        ]


class Event:
    """A point in a stream, with its time."""

    def __init__(self) -> None:
        library()
        self._handle = _native.EventHandle()

    def record(self, stream: Any = None) -> None:
        """Record in ``stream`` (see :func:`stream_address`)."""
        self._handle.record(stream_address(stream))

    def synchronize(self) -> None:
        """Wait until the event has happened."""
        self._handle.synchronize()

    def done(self) -> bool:
        """Whether the event has happened; does not wait."""
        return self._handle.query()

    def elapsed_us(self, since: "Event") -> float:
        """Microseconds since ``since`` happened; modelled time on hostcuda. CudaError where one is still to come."""
        return self._handle.elapsed_ms(since._handle) * 1e3


def stream_address(stream: Any) -> int:
    """The cudaStream_t of: None (the legacy default stream), a :class:`Stream`, an object with ``__cuda_stream__`` or
    with ``cuda_stream`` (PyTorch), or a number. TypeError for anything else."""
    if stream is None:
        return 0
    if isinstance(stream, Stream):
        return stream.address
    if isinstance(stream, int):
        return whole(stream, "stream", 0, 2**64 - 1)
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int(protocol()[1])
    address = getattr(stream, "cuda_stream", None)
    if isinstance(address, int):
        return address
    raise TypeError(f"not a stream: {type(stream).__name__}; pass a lagom.nccl.Stream, a number or None")
