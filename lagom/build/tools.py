# SPDX-License-Identifier: Apache-2.0
"""What a build needs from the machine: compiler, ninja, git, CUDA's headers. Each is found or named as missing."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from .errors import BuildError
from .rooms import _PACKAGE


def need(program: str, hint: str) -> str:
    """Absolute path of `program`; BuildError with `hint` where it is not installed."""
    found = shutil.which(program)
    if not found:
        raise BuildError(f"{program} is not on PATH; {hint}")
    return found


def compiler() -> str:
    """The C++ compiler: $CXX, else g++."""
    return need(os.environ.get("CXX") or "g++", "install g++ (Debian: apt-get install g++), or let CXX name one")


def compiler_id(program: str) -> str:
    """First line of the compiler's own version text. BuildError for a GCC before 12, which lacks C++20 as used here."""
    text, version = _answer(program, "--version"), _answer(program, "-dumpversion")
    if not re.match(r"\d+(\.|$)", version) or not text:
        raise BuildError(f"{program} does not answer -dumpversion as a C++ compiler does; let CXX name a g++")
    if int(version.split(".")[0]) < 12:
        raise BuildError(f"{program} is version {version}; hostcuda needs GCC 12 or later")
    return text


def _answer(program: str, question: str) -> str:
    """The first line that a program answers; empty where it fails, cannot be run or says nothing."""
    try:
        done = subprocess.run([program, question], capture_output=True, text=True, errors="replace", check=False)
    except OSError:
        return ""
    lines = done.stdout.splitlines() if done.returncode == 0 else []
    return lines[0].strip() if lines else ""


def ninja() -> str:
    """The ninja executable: beside the running Python, of a checkout's .venv, or on PATH."""
    places = [Path(sysconfig.get_path("scripts")), _PACKAGE.parent / ".venv" / "bin"]
    for place in places:
        if os.access(place / "ninja", os.X_OK):
            return str(place / "ninja")
    return need("ninja", "install it with pip (pip install ninja) or the distribution (ninja-build)")


@dataclass(frozen=True)
class Headers:
    """A folder of CUDA toolkit headers."""

    folder: Path
    version: int  # CUDA_VERSION: 1000 * major + 10 * minor

    @property
    def major(self) -> int:
        return self.version // 1000

    @property
    def minor(self) -> int:
        return self.version % 1000 // 10

    def digest(self) -> str:
        """Identifies the headers by the files whose text changes with every release."""
        total = hashlib.sha256()
        for name in ("cuda.h", "cuda_runtime_api.h", "crt/host_config.h", "cuda_bf16.h"):
            total.update((self.folder / name).read_bytes())
        return total.hexdigest()


def cuda_headers() -> Headers:
    """Headers of CUDA 13: $LAGOM_CUDA_INCLUDE, NVIDIA's wheels, a checkout's .venv, or an installed toolkit."""
    named = os.environ.get("LAGOM_CUDA_INCLUDE")
    places = [Path(named)] if named else []
    if not named:
        packages = [Path(p) for p in sys.path if p]
        packages += sorted((_PACKAGE.parent / ".venv" / "lib").glob("python3*/site-packages"))
        places = [place / "nvidia" / "cu13" / "include" for place in packages]
        places.append(Path(os.environ.get("CUDA_HOME") or "/usr/local/cuda") / "include")
    tried = []
    for place in places:
        cuda_h = place / "cuda.h"
        if not cuda_h.is_file():
            if named or "nvidia" not in place.parts:
                tried.append(f"{place}: no cuda.h")
            continue
        match = re.search(r"^#define CUDA_VERSION (\d+)", cuda_h.read_text(), re.MULTILINE)
        version = int(match[1]) if match else 0
        if version // 1000 != 13:
            tried.append(f"{place}: CUDA_VERSION {version}, not 13")
            continue
        missing = [n for n in ("crt/host_config.h", "cccl/cuda/atomic", "cuda_bf16.h") if not (place / n).is_file()]
        if missing:
            tried.append(f"{place}: incomplete, no {', '.join(missing)}")
            continue
        return Headers(place, version)
    raise BuildError(
        "no headers of CUDA 13 found ("
        + ("; ".join(tried) or "none on this Python's path")
        + "); pip install nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85,"
        " or let LAGOM_CUDA_INCLUDE name their folder"
    )
