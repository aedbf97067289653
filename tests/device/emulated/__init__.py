# SPDX-License-Identifier: Apache-2.0
"""The compiled kernels' own source on hostcuda's simulator, found by name like the functions of a GPU's module."""

import ctypes
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import lagom.nccl as nccl
from lagom.build import tools
from lagom.build.rooms import room
from lagom.device.compiled import SOURCES

HERE = Path(__file__).parent


def build(folder: Path) -> Path:
    """Compile kernels.cu with the host's compiler; hostcuda's libraries must be the ones in use."""
    target = folder / "emulated.so"
    spare = folder / f"emulated.{os.getpid()}"
    hostcuda, headers = room("hostcuda"), tools.cuda_headers().folder
    command = [tools.compiler(), "-shared", "-fPIC", "-x", "c++", "-std=gnu++20", "-O2", "-w"]
    command += ["-include", str(hostcuda / "shim" / "device.h"), "-DHOSTCUDA_ARCH=800"]
    command += [f'-DLAGOM_DEVICE_OPS="{HERE / "ops.h"}"', f"-I{hostcuda}", f"-I{hostcuda / 'include'}", f"-I{SOURCES}"]
    command += ["-isystem", str(headers), "-isystem", str(headers / "cccl"), str(HERE / "kernels.cc")]
    command += ["-x", "none", nccl.library().cuda_path, "-o", str(spare)]
    subprocess.run(command, check=True)
    spare.replace(target)
    return target


def finder(path: Path) -> Callable[[str], nccl.Function]:
    """Functions by name. A CUfunction of hostcuda is the address under which a kernel was registered."""
    loaded = ctypes.CDLL(str(path))

    def find(name: str) -> nccl.Function:
        return nccl.Function(name, ctypes.cast(loaded[name], ctypes.c_void_p).value or 0, loaded)

    return find
