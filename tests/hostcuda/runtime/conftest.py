# SPDX-License-Identifier: Apache-2.0
"""Builds hostcuda's libraries by themselves, and the small programs of this folder against them."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

import pytest
from compiler import gxx

from lagom.build.tools import cuda_headers

HERE = Path(__file__).parent
HOSTCUDA = HERE.parents[2] / "hostcuda"
ROOMS = ("runtime", "driver", "nvml", "clock", "simt")
NOTHING: Mapping[str, str] = MappingProxyType({})

Run = Callable[..., subprocess.CompletedProcess[str]]


def flags() -> list[str]:
    warnings = ["-Wall", "-Wextra", "-Werror"]
    cuda = ["-isystem", str(cuda_headers().folder)]
    return ["-O1", "-g1", "-fPIC", *warnings, f"-I{HOSTCUDA}", f"-I{HOSTCUDA}/include", *cuda]


def compile_source(source: Path, target: Path) -> Path:
    """A source file of hostcuda, or a changed copy of one, as an object of libcudart; gives ``target``."""
    standard = ["-std=gnu++20"] if source.suffix == ".cc" else []
    command = [*gxx(), *standard, *flags(), "-fvisibility=hidden", "-c", str(source), "-o", str(target)]
    subprocess.run(command, check=True)
    return target


def link_runtime(objects: Sequence[Path], target: Path) -> None:
    script = f"-Wl,--version-script={HOSTCUDA}/libcudart.map"
    link = ["g++", "-shared", f"-Wl,-soname,{target.name}", "-Wl,-z,defs", script, "-o", str(target)]
    subprocess.run([*link, *map(str, objects), "-lpthread", "-ldl"], check=True)


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with libcudart.so.13, libcuda.so.1 and libnvidia-ml.so.1, and the data they look for beside them."""
    folder = tmp_path_factory.mktemp("hostcuda")
    sources = [file for room in ROOMS for pattern in ("*.cc", "*.S") for file in (HOSTCUDA / room).glob(pattern)]

    def compile_one(source: Path) -> Path:
        return compile_source(source, folder / f"{source.parent.name}-{source.name}.o")

    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compile_one, sorted(sources)))
    runtime = folder / "libcudart.so.13"
    link_runtime(objects, runtime)
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        link = ["g++", "-shared", f"-Wl,-soname,{name}", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN", str(runtime)]
        subprocess.run([*link, "-o", str(folder / name)], check=True)
    (folder / "share").mkdir()
    (folder / "share" / "hostcuda").symlink_to(HOSTCUDA)
    return folder


def compile_program(source: Path, libraries: Path, target: Path) -> Path:
    """A program on ``libraries``; a compile error fails the test with the compiler's words."""
    # A runpath, so that LD_LIBRARY_PATH can put another library first.
    path = ["-Wl,--enable-new-dtags", f"-Wl,-rpath,{libraries}"]
    needs = [str(libraries / "libcudart.so.13"), *path, "-lpthread", "-ldl"]
    command = [*gxx(), "-std=gnu++20", *flags(), "-c", str(source), "-o", f"{target}.o"]
    subprocess.run(command, check=True)
    subprocess.run(["g++", f"{target}.o", "-o", str(target), *needs], check=True)
    return target


@pytest.fixture(scope="session")
def program(libraries: Path) -> Callable[[str], Path]:
    """The program built from programs/NAME.cc."""

    def built(name: str) -> Path:
        target = libraries / name
        return target if target.exists() else compile_program(HERE / "programs" / f"{name}.cc", libraries, target)

    return built


@pytest.fixture(scope="session")
def run(program: Callable[[str], Path]) -> Run:
    """run("streams", "wait_event"): one case of a program, which must end well unless check=False."""

    def run_case(
        name: str, *arguments: str, env: Mapping[str, str] = NOTHING, check: bool = True, timeout_s: float = 60
    ) -> subprocess.CompletedProcess[str]:
        dropped = ("HOSTCUDA_", "NCCL_", "CUDA_VISIBLE_DEVICES")
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
        done = subprocess.run(
            [str(program(name)), *arguments],
            env={**inherited, **env},
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
        if check:
            assert done.returncode == 0, done.stdout + done.stderr
        return done

    return run_case
