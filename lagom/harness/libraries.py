# SPDX-License-Identifier: Apache-2.0
"""The two libraries that are compared, and how a program gets one of them without knowing."""

from __future__ import annotations

import json
import mmap
from dataclasses import dataclass
from pathlib import Path

from lagom.build import cache

SONAME = "libnccl.so.2"
_HOSTCUDA = "libcudart.so.13"
# As symbols end; their beginning may be shared with another symbol.
_ANY_NCCL, _ANY_PATCHED = b"ncclGetVersion\0", b"ncclCommSetKnobRules\0"


@dataclass(frozen=True)
class Library:
    """:param side: "stock" or "patched". :param path: of libnccl.so.2."""

    side: str
    path: Path

    def environment(self) -> dict[str, str]:
        """What puts it in front of any program. hostcuda, where it lies beside, comes along: programs name the CUDA
        runtime and the driver by soname only."""
        beside = self.path.parent / _HOSTCUDA
        if not beside.exists():
            return {"LD_PRELOAD": str(self.path)}
        return {"LD_PRELOAD": f"{self.path}:{beside}", "LD_LIBRARY_PATH": str(self.path.parent)}


def library(side: str, named: Path | None, flavour: str) -> Library:
    """The library that `named` (a file, or a folder with libnccl.so.2) says, else the last build of that side.

    :raises ValueError: where it is not there, is no NCCL, or is the other side.
    """
    path = named if named is not None else _built(side, flavour)
    if path.is_dir():
        path = path / SONAME
    option = f"--{side} {path}"
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            is_nccl = content[:4] == b"\x7fELF" and content.find(_ANY_NCCL) >= 0
            is_patched = content.find(_ANY_PATCHED) >= 0
    except OSError as error:
        raise ValueError(f"{option}: {error.strerror}") from error
    except ValueError:
        is_nccl = False  # an empty file cannot be mapped
    if not is_nccl:
        raise ValueError(f"{option}: not a NCCL library")
    if is_patched != (side == "patched"):
        raise ValueError(f"{option}: this NCCL is {'patched' if is_patched else 'not patched'}")
    return Library(side, path.resolve())


def _built(side: str, flavour: str) -> Path:
    """The folder of a build in the cache: the current one, or of stock ones the newest."""
    options = ("" if flavour == "host" else f" --flavour {flavour}") + (" --stock" if side == "stock" else "")
    missing = ValueError(
        f"no {side} build in {cache.libraries()}: make one with `lagom build{options}`, or give --{side} PATH"
    )
    if side == "patched":
        current = cache.current(flavour)
        if not current.exists():
            raise missing
        return current
    found = []
    for described in cache.libraries().glob("*/build.json"):
        built = json.loads(described.read_text())
        if built["flavour"] == flavour and not built["patched"] and not built.get("extra_patches"):
            found.append(described)
    if not found:
        raise missing
    return max(found, key=lambda path: path.stat().st_mtime).parent
