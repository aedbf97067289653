# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels: machine code for a GPU, loaded and launched through the CUDA driver."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _native
from .checks import whole
from .library import library
from .streams import stream_address

DRIVER_SONAME = "libcuda.so.1"
_opened: str | None = None


def driver() -> str:
    """Open the CUDA driver once: the one beside the CUDA runtime in use (hostcuda's), else the system's; its file.

    LibraryError where there is none.
    """
    global _opened
    if _opened is None:
        beside = Path(library().cuda_path).parent / DRIVER_SONAME
        _opened = _native.open_driver(str(beside) if beside.exists() else DRIVER_SONAME)
    return _opened


@dataclass(frozen=True)
class Function:
    """A kernel that takes one structure. ``address`` is its CUfunction; ``module`` is what must stay loaded with it."""

    name: str
    address: int
    module: object = None

    def allow_shared(self, nbytes: int) -> None:
        """Let its CTAs take that much dynamic shared memory. CudaError where the device has not as much."""
        driver()
        _native.allow_shared(self.address, whole(nbytes, "shared memory", 0, 2**31 - 1))

    def launch(self, ctas: int, threads: int, shared_bytes: int, arguments: bytes, stream: Any = None) -> None:
        """Enqueue it in ``stream``; ``arguments`` is its structure, packed. CudaError where the driver refuses."""
        driver()
        _native.launch_function(
            self.address,
            self.name,
            whole(ctas, "ctas", 1, 2**31 - 1),
            whole(threads, "threads", 1, 1024),
            whole(shared_bytes, "shared_bytes", 0, 2**32 - 1),
            arguments,
            stream_address(stream),
        )


class Module:
    """Machine code in the current device's context. CudaError where the driver refuses it, as hostcuda does."""

    def __init__(self, image: bytes) -> None:
        driver()
        self._handle = _native.ModuleHandle(image)

    def function(self, name: str) -> Function:
        """CudaError where it holds none of that name."""
        return Function(name, self._handle.function(name), self)
