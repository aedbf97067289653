# SPDX-License-Identifier: Apache-2.0
"""Rank programs built against the NCCL that runs on CPUs, and jobs of them."""

import json
import os
import random
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType

import pytest
from builds import host_build
from compiler import gxx
from hostcuda.hosts.job import Job

import lagom.nccl as nccl
from lagom.build.tools import cuda_headers

HERE = Path(__file__).parent
NOTHING: Mapping[str, str] = MappingProxyType({})
CALLED = "AllReduce Sum f32 RING *"  # by the programs that also run with a stock library


@pytest.fixture(scope="session")
def build(patched: nccl.Library) -> Path:
    """The folder of the patched build that runs on CPUs."""
    return Path(patched.path).resolve().parent


@pytest.fixture(scope="session")
def stock(build: Path) -> Path:
    """The folder of a stock build of the same sources, for the same GPU generation."""
    return host_build(CALLED, arch=json.loads((build / "build.json").read_text())["arch"], stock=True)


@pytest.fixture(scope="session")
def program(build: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The program built from programs/NAME.cc with g++, as somebody would who knows nothing of Lagom."""
    folder = tmp_path_factory.mktemp("programs")

    def built(name: str) -> Path:
        target = folder / name
        if not target.exists():
            command = [
                *gxx(), "-std=c++17", "-O1", "-g1",
                "-Wall", "-Wextra", "-Werror", f"-I{build}", "-isystem", str(cuda_headers().folder),
                "-c", str(HERE / "programs" / f"{name}.cc"), "-o", f"{target}.o",
            ]  # fmt: skip
            subprocess.run(command, check=True)
            libraries = [str(build / "libnccl.so.2"), str(build / "libcudart.so.13"), "-lpthread"]
            subprocess.run([*gxx(cached=False), f"{target}.o", "-o", str(target), *libraries], check=True)
        return target

    return built


Start = Callable[..., Job]


@pytest.fixture
def start(program: Callable[[str], Path], build: Path, tmp_path: Path) -> Iterator[Start]:
    """start("collectives", "every", ranks): a job; whatever still runs when the test ends is killed."""
    with ExitStack() as jobs:

        def started(
            name: str,
            case: str,
            ranks: Sequence[Mapping[str, str]] | int,
            *,
            env: Mapping[str, str] = NOTHING,
            library: Path | None = None,
            prefixes: Sequence[Sequence[str]] = (),
        ) -> Job:
            environments = [{}] * ranks if isinstance(ranks, int) else ranks
            more = {
                "LD_LIBRARY_PATH": str(library or build),
                "NCCL_DEBUG": "INFO",
                "NCCL_DEBUG_SUBSYS": "INIT,P2P,SHM,NET,GRAPH,ENV,ALLOC",
                **env,
            }
            folder = tmp_path / f"job-{len(list(tmp_path.iterdir()))}"
            words = [str(program(name)), case]
            return jobs.enter_context(Job(words, environments, folder, more, prefixes))

        yield started


@pytest.fixture(scope="session")
def seed() -> int:
    """LAGOM_TEST_SEED, or a new one; tests that sample print it."""
    return int(os.environ.get("LAGOM_TEST_SEED") or random.randrange(1 << 32))
