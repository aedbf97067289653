# SPDX-License-Identifier: Apache-2.0
"""Builds the timeline with plain C calls in front of it."""

import ctypes
import subprocess
from pathlib import Path

import pytest
from compiler import gxx
from hostcuda.clock.modelled import HOSTCUDA, Make, Modelled, load

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def clock_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("clock")
    command = [*gxx(), "-std=gnu++20", "-O2", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    objects = []
    files = [HOSTCUDA / "runtime" / name for name in ("ini.cc", "text_file.cc")]
    for source in [*sorted((HOSTCUDA / "clock").glob("*.cc")), *files, HERE / "clock_abi.cc"]:
        objects.append(str(folder / f"{source.stem}.o"))
        subprocess.run([*command, f"-I{HOSTCUDA}", "-c", str(source), "-o", objects[-1]], check=True)
    library = folder / "libclock_abi.so"
    subprocess.run([*gxx(cached=False), "-shared", "-o", str(library), *objects], check=True)
    return load(library)


@pytest.fixture(scope="session")
def make(clock_library: ctypes.CDLL) -> Make:
    """make(gpu, devices=, hosts=) is a fresh timeline."""

    def made(gpu: str | Path = "a40", devices: int = 1, hosts: int = 1) -> Modelled:
        return Modelled(clock_library, gpu, devices, hosts)

    return made
