# SPDX-License-Identifier: Apache-2.0
"""The timeline from Python: one object a process, plain numbers for operations. Times are integer picoseconds."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HOSTCUDA = Path(__file__).parents[3] / "hostcuda"
US = 1_000_000  # picoseconds
MS = 1000 * US
WITHIN_DEVICE, TO_HOST, FROM_HOST, TO_PEER, SET = range(5)

_U64 = ctypes.c_ulonglong
_SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "abi_error": (ctypes.c_char_p, []),
    "abi_new": (ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_int, ctypes.c_int]),
    "abi_delete": (None, [ctypes.c_void_p]),
    "abi_stream": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]),
    "abi_grid": (
        ctypes.c_longlong,
        [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, *[ctypes.c_uint] * 3, _U64, ctypes.c_int, _U64],
    ),
    "abi_kernel": (
        ctypes.c_longlong,
        [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, *[ctypes.c_double] * 3, *[ctypes.c_uint] * 3, _U64],
    ),
    "abi_copy": (ctypes.c_longlong, [ctypes.c_void_p, *[ctypes.c_int] * 3, _U64, _U64]),
    "abi_record": (ctypes.c_longlong, [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]),
    "abi_wait": (ctypes.c_longlong, [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int]),
    "abi_host_function": (ctypes.c_longlong, [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]),
    "abi_start": (ctypes.c_longlong, [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]),
    "abi_executed": (ctypes.c_longlong, [ctypes.c_void_p, ctypes.c_int, _U64, _U64, _U64]),
    "abi_synchronize": (ctypes.c_longlong, [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int]),
    "abi_times": (ctypes.c_longlong, [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p]),
    "abi_host_time": (ctypes.c_longlong, [ctypes.c_void_p, ctypes.c_int]),
    "abi_record_loads": (None, [ctypes.c_void_p]),
    "abi_loads": (ctypes.c_longlong, [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_longlong]),
    "abi_register": (ctypes.c_longlong, [ctypes.c_void_p, _U64]),
    "abi_unregister": (ctypes.c_int, [ctypes.c_void_p]),
    "abi_copy_ps": (_U64, [*[ctypes.c_uint] * 3, _U64, _U64, ctypes.c_uint]),
}


class ClockError(Exception):
    """What the timeline refuses, in its own words."""


@dataclass(frozen=True)
class Times:
    """`start` has its first SM, `begin` moves data (a grid: all placed, all peers there); picoseconds."""

    start: int
    begin: int
    end: int
    ctas: int
    sms: int

    @property
    def duration(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class Load:
    """What the placed operations drew between two times."""

    start: int
    end: int
    memory: int
    flops: int
    sms: int


@dataclass(frozen=True)
class Kernel:
    """A compute kernel; by default a GEMM whose CTAs fill an SM of the A40 each."""

    flops: float = 1e9
    read: float = 1e6
    written: float = 1e6
    ctas: int = 84
    threads: int = 256
    registers: int = 200
    shared: int = 64 * 1024


def load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


class Modelled:
    """A process's timeline. Every host thread and device has its number from 0."""

    def __init__(self, library: ctypes.CDLL, gpu: str | Path = "a40", devices: int = 1, hosts: int = 1) -> None:
        path = gpu if isinstance(gpu, Path) else HOSTCUDA / "gpus" / f"{gpu}.ini"
        self._lib = library
        self._self = library.abi_new(str(path).encode(), devices, hosts)
        if not self._self:
            raise ClockError(library.abi_error().decode())

    def close(self) -> None:
        if self._self:
            self._lib.abi_delete(self._self)
        self._self = None

    def __del__(self) -> None:
        self.close()

    def _checked(self, result: int) -> int:
        if result < 0:
            raise ClockError(self._lib.abi_error().decode())
        return result

    def stream(self, device: int = 0, priority: int = 0) -> int:
        return self._lib.abi_stream(self._self, device, priority)

    def grid(
        self,
        stream: int,
        ctas: int,
        *,
        host: int = 0,
        threads: int = 544,
        shared: int = 83 * 1024,
        collective: bool = True,
        in_flight: int = 0,
    ) -> int:
        return self._checked(
            self._lib.abi_grid(self._self, host, stream, ctas, threads, 0, shared, collective, in_flight)
        )

    def kernel(self, stream: int, kernel: Kernel, host: int = 0) -> int:
        k = kernel
        figures = (k.flops, k.read, k.written, k.ctas, k.threads, k.registers, k.shared)
        return self._checked(self._lib.abi_kernel(self._self, host, stream, *figures))

    def copy(self, stream: int, kind: int, size: int, link: int = 0, host: int = 0) -> int:
        return self._checked(self._lib.abi_copy(self._self, host, stream, kind, size, link))

    def record(self, stream: int, host: int = 0) -> int:
        return self._checked(self._lib.abi_record(self._self, host, stream))

    def wait(self, stream: int, op: int, host: int = 0) -> int:
        return self._checked(self._lib.abi_wait(self._self, host, stream, op))

    def host_function(self, stream: int, host: int = 0) -> int:
        return self._checked(self._lib.abi_host_function(self._self, host, stream))

    def start(self, op: int) -> int:
        """The grid begins to run on the CPU; its own arrival."""
        return self.start_details(op)[0]

    def start_details(self, op: int) -> tuple[int, int, list[int]]:
        """Arrival, launch number, SMs of the CTAs."""
        launch = ctypes.c_uint()
        sms = (ctypes.c_ushort * 64)()
        arrival = self._checked(self._lib.abi_start(self._self, op, ctypes.byref(launch), sms))
        return arrival, launch.value, list(sms)

    def executed(self, op: int, duration: int, peers: int = 0, traffic: int = 0) -> None:
        self._checked(self._lib.abi_executed(self._self, op, duration, peers, traffic))

    def run(self, op: int, duration: int, peers: int = 0, traffic: int = 0) -> int:
        """Starts and ends the grid; its own arrival."""
        arrival = self.start(op)
        self.executed(op, duration, peers, traffic)
        return arrival

    def synchronize(self, *ops: int, host: int = 0) -> None:
        numbers = (ctypes.c_int * len(ops))(*ops)
        self._checked(self._lib.abi_synchronize(self._self, host, numbers, len(ops)))

    def times(self, op: int, host: int = 0) -> Times:
        out = (_U64 * 5)()
        self._checked(self._lib.abi_times(self._self, host, op, out))
        return Times(*out)

    def host_time(self, host: int = 0) -> int:
        return self._checked(self._lib.abi_host_time(self._self, host))

    def record_loads(self) -> None:
        self._lib.abi_record_loads(self._self)

    def loads(self, device: int = 0) -> list[Load]:
        count = self._lib.abi_loads(self._self, device, None, 0)
        out = (_U64 * (5 * count))()
        self._lib.abi_loads(self._self, device, out, count)
        return [Load(*out[5 * i : 5 * i + 5]) for i in range(count)]

    def register(self, words: ctypes.Array, offset: int = 0, size: int | None = None) -> None:
        self._checked(self._lib.abi_register(ctypes.addressof(words) + offset, size or ctypes.sizeof(words)))

    def unregister(self, words: ctypes.Array) -> bool:
        return bool(self._lib.abi_unregister(ctypes.addressof(words)))


Make = Callable[..., Modelled]


def figures(gpu: str) -> dict[str, float]:
    """The numbers of a GPU's description as section.key."""
    found: dict[str, float] = {}
    section = ""
    for line in (HOSTCUDA / "gpus" / f"{gpu}.ini").read_text().splitlines():
        text = line.split(";")[0].strip()
        if text.startswith("["):
            section = text[1:-1]
        elif "=" in text:
            key, value = (part.strip() for part in text.split("=", 1))
            try:
                found[f"{section}.{key}"] = float(value)
            except ValueError:
                continue
    return found
