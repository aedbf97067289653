# SPDX-License-Identifier: Apache-2.0
"""When the operations of a group ran: as hostcuda's clock has it, or from events around each on any CUDA."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import lagom.nccl as nccl
from lagom.device.protocol import DeviceError


class Timer(Protocol):
    """Times one execution of a group."""

    def enqueue(self, name: str, stream: str, computes: bool, call: Callable[[], None]) -> None:
        """Put an operation into a stream by `call`, and see to it that its time will be known."""
        ...

    def read(self) -> list[tuple[int, int]]:
        """Start and end of each operation in the order of :meth:`enqueue`, in nanoseconds on one clock of the device.

        Call it when the streams have been synchronized.

        :raises DeviceError: where the device did not run exactly the operations that were enqueued.
        """
        ...


class ModelTimer:
    """hostcuda's own record of every operation: exact, and without an operation of its own in the streams."""

    def __init__(self, streams: Mapping[str, nccl.Stream]) -> None:
        self._streams = streams
        self._marks = {name: stream.mark() for name, stream in streams.items()}
        self._enqueued: list[tuple[str, str, bool]] = []

    def enqueue(self, name: str, stream: str, computes: bool, call: Callable[[], None]) -> None:
        """See :class:`Timer`."""
        call()
        self._enqueued.append((name, stream, computes))

    def read(self) -> list[tuple[int, int]]:
        """See :class:`Timer`."""
        times: dict[str, list[nccl.OpTime]] = {}
        for name, stream in self._streams.items():
            times[name] = [t for t in stream.op_times(self._marks[name]) if t.kind in ("kernel", "described")]
        ran = []
        for name, stream_name, computes in self._enqueued:
            if not times[stream_name]:
                raise DeviceError(f"the device has no time for '{name}'")
            time = times[stream_name].pop(0)
            if (time.kind == "described") != computes:
                raise DeviceError(f"'{name}' ran as '{time.name}', a {time.kind}")
            ran.append((time.start_ns, time.end_ns))
        if left := [time.name for rest in times.values() for time in rest]:
            raise DeviceError(f"the device ran more than was enqueued: {', '.join(left)}")
        return ran


class EventTimer:
    """Events before and after each operation. What lies between two kernels of a stream counts as the later one's."""

    def __init__(self, streams: Mapping[str, nccl.Stream]) -> None:
        self._streams = streams
        self._around: list[tuple[nccl.Event, nccl.Event]] = []

    def enqueue(self, name: str, stream: str, computes: bool, call: Callable[[], None]) -> None:
        """See :class:`Timer`."""
        before, after = nccl.Event(), nccl.Event()
        before.record(self._streams[stream])
        call()
        after.record(self._streams[stream])
        self._around.append((before, after))

    def read(self) -> list[tuple[int, int]]:
        """See :class:`Timer`."""
        if not self._around:
            return []
        zero = self._around[0][0]
        return [
            (round(before.elapsed_us(zero) * 1e3), round(after.elapsed_us(zero) * 1e3))
            for before, after in self._around
        ]
