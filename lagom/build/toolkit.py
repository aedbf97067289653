# SPDX-License-Identifier: Apache-2.0
"""nvcc and what it needs: of the machine, or else NVIDIA's wheels in a folder of the cache."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from . import cache
from .errors import BuildError
from .tools import Headers

_PARTS = ("nvidia-cuda-nvcc", "nvidia-cuda-runtime", "nvidia-cuda-crt", "nvidia-cuda-cccl", "nvidia-nvvm")
# By release of CUDA, the versions of these parts. Mixing releases gives compile errors deep inside the toolkit.
WHEELS = {
    "13.0": ("13.0.88", "13.0.96", "13.0.88", "13.0.85", "13.0.88"),
    "13.2": ("13.2.86", "13.2.86", "13.2.86", "13.2.86", "13.2.86"),
}
DEFAULT_RELEASE = "13.0"


@dataclass(frozen=True)
class Toolkit:
    """A CUDA 13 toolkit."""

    nvcc: str
    version: str  # nvcc's own version text, one line
    headers: Headers
    libraries: Path  # holds libcudart_static.a

    @property
    def cudart(self) -> Path:
        return self.libraries / "libcudart_static.a"

    def digest(self) -> str:
        """Identifies the compiler, its headers and the runtime that is linked in."""
        runtime = hashlib.sha256(self.cudart.read_bytes()).hexdigest()
        return f"{self.version} {self.headers.digest()} {runtime}"

    def architectures(self) -> tuple[int, ...]:
        """What --arch may be: compute capability times 100."""
        listed = subprocess.run([self.nvcc, "--list-gpu-code"], capture_output=True, text=True).stdout
        return tuple(sorted(10 * int(number) for number in re.findall(r"^sm_(\d+)$", listed, re.MULTILINE)))


def find() -> Toolkit:
    """$NVCC, nvcc on PATH, of $CUDA_HOME, of /usr/local/cuda; where none is usable, the wheels, fetched once.

    $LAGOM_CUDA_VERSION asks for one release; an nvcc of another one is passed over.
    """
    release = os.environ.get("LAGOM_CUDA_VERSION", "")
    if release and release not in WHEELS:
        raise BuildError(f"LAGOM_CUDA_VERSION is {release}; allowed is {', '.join(WHEELS)}")
    named = os.environ.get("NVCC")
    if named:
        return _inspect(named)
    tried = []
    for place in ("nvcc", f"{os.environ.get('CUDA_HOME') or '/usr/local/cuda'}/bin/nvcc"):
        if program := shutil.which(place):
            try:
                found = _inspect(program)
            except BuildError as error:
                tried.append(str(error))
                continue
            if not release or found.version.startswith(f"release {release},"):
                return found
            tried.append(f"{program} is {found.version}, not {release}")
    try:
        return _inspect(str(_wheels(release or DEFAULT_RELEASE) / "nvidia" / "cu13" / "bin" / "nvcc"))
    except BuildError as error:
        raise BuildError("; ".join(["no usable nvcc on this machine", *tried, str(error)])) from None


def _inspect(program: str) -> Toolkit:
    """The toolkit around an nvcc. BuildError where it is not CUDA 13 or lacks a part."""
    try:
        version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        dry = subprocess.run(
            [program, "-dryrun", "-x", "cu", "-c", "-o", "x.o", os.devnull], capture_output=True, text=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise BuildError(f"{program} does not run: {error}") from error
    # nvcc may be a script that calls another one; where its toolkit lies is what it says itself.
    top = re.search(r"^#\$ TOP=(.+?)\s*$", dry.stderr, re.MULTILINE)
    release = re.search(r"release .*", version)
    if not top or not release:
        raise BuildError(f"{program} is not nvcc: it names no release, or no folder of its toolkit")
    folder = Path(top[1]).resolve()
    include = _holding(program, "cuda.h", folder, ("include", "targets/x86_64-linux/include"))
    match = re.search(r"^#define CUDA_VERSION (\d+)", (include / "cuda.h").read_text(), re.MULTILINE)
    number = int(match[1]) if match else 0
    if number // 1000 != 13:
        raise BuildError(f"{program}: {release[0]}, CUDA_VERSION {number}; needed is CUDA 13")
    for part in ("cccl/cuda/atomic", "crt/host_config.h"):
        _holding(program, part, include, (".",))
    libraries = _holding(program, "libcudart_static.a", folder, ("lib64", "lib", "targets/x86_64-linux/lib"))
    return Toolkit(program, release[0], Headers(include, number), libraries)


def _holding(program: str, name: str, folder: Path, places: tuple[str, ...]) -> Path:
    for place in places:
        if (folder / place / name).is_file():
            return folder / place
    raise BuildError(f"the toolkit of {program} has no {name} in {folder} ({', '.join(places)})")


def _wheels(release: str) -> Path:
    """The folder that the wheels of a release are unpacked in; fetched with pip if it is not there."""
    wheels = [f"{part}=={version}" for part, version in zip(_PARTS, WHEELS[release], strict=True)]
    key = hashlib.sha256("\n".join(wheels).encode()).hexdigest()[:16]
    folder = cache.root() / "toolkit" / key
    if folder.is_dir():
        return folder
    with cache.lock(cache.root() / "toolkit"), cache.appearing(folder) as made:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(made), *wheels]
        done = subprocess.run([*command, "--disable-pip-version-check"], capture_output=True, text=True)
        if done.returncode:
            why = done.stderr.strip().splitlines() or ["it printed nothing"]
            raise BuildError(f"pip could not fetch the wheels {', '.join(wheels)}: {why[-1]}")
    return folder
