# SPDX-License-Identifier: Apache-2.0
"""Building other people's programs, unchanged, against the published build, and running them."""

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from lagom.build import cache, fetch

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Published:
    """A finished build for CPUs, as a user finds it."""

    folder: Path

    @property
    def cuda_include(self) -> Path:
        return self.folder / "cuda-include"

    def compile_options(self) -> list[str]:
        """What docs/hostcuda.md tells a user to give g++."""
        return [f"-I{self.folder}", f"-I{self.cuda_include}"]

    def link_options(self) -> list[str]:
        return [f"-L{self.folder}", f"-Wl,-rpath,{self.folder}", "-lnccl", "-lcudart"]

    def environment(self) -> dict[str, str]:
        """For programs that open libraries by name: NCCL's own plug-ins, cuda.bindings, nccl4py."""
        return {"LD_LIBRARY_PATH": str(self.folder)}


@pytest.fixture(scope="session")
def published() -> Published:
    folder = cache.current("host")
    if not (folder / "build.json").is_file():
        pytest.skip(f"no build for CPUs in {cache.libraries()}: lagom build makes one")
    return Published(folder.resolve())


@pytest.fixture(scope="session")
def nccl_source() -> Path:
    """NCCL's own tree as it was fetched; nothing in it is changed."""
    return fetch.pristine()


Compile = Callable[..., Path]


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """compiled(name, sources, options, compiler="g++") is the program or, with -shared, the library."""
    folder = tmp_path_factory.mktemp("programs")

    def build(name: str, sources: Sequence[Path], options: Sequence[str], compiler: str = "g++") -> Path:
        found = shutil.which(compiler)
        if found is None:
            pytest.skip(f"no {compiler}")
        target = folder / name
        if not target.exists():
            command = [found, *map(str, sources), *options, "-o", str(target)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
        return target

    return build


def gib_free() -> float:
    """Memory that a test may fill."""
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
