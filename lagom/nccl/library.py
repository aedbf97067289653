# SPDX-License-Identifier: Apache-2.0
"""Finding the NCCL library and the CUDA runtime that belongs to it.

Searched in this order; the first that is there is taken, and if it cannot be used that is an error, not a reason to
go on:

1. a NCCL that is already in the process, through LD_PRELOAD or because another module opened it: a second copy beside
it
   would be a second, unconnected NCCL. If LAGOM_NCCL names another file, that is an error;
2. ``LAGOM_NCCL``: a file, or a folder with ``libnccl.so.2``;
3. the last build in the cache (``lagom build``);
4. the system's ``libnccl.so.2``, then NVIDIA's pip wheel.
"""

import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from lagom.build import cache

from . import _native
from ._native import LibraryError

NCCL_SONAME = "libnccl.so.2"
CUDA_SONAMES = ("libcudart.so.13", "libcudart.so.12")


@dataclass(frozen=True)
class Library:
    """The libraries in use. ``version`` and ``cuda_version`` are codes: 22907 is NCCL 2.29.7, 13000 CUDA 13.0."""

    path: str
    found_by: str
    version: int
    patched: bool
    build: str | None
    cuda_path: str
    cuda_version: int
    hostcuda: bool

    @property
    def version_text(self) -> str:
        return f"{self.version // 10000}.{self.version // 100 % 100}.{self.version % 100}"

    def describe(self) -> str:
        """One line for people."""
        kind = f"patched, build {self.build}" if self.patched else "not patched"
        runtime = "hostcuda" if self.hostcuda else "CUDA"
        cuda_text = f"{self.cuda_version // 1000}.{self.cuda_version // 10 % 100}"
        return f"NCCL {self.version_text} ({kind}) from {self.path}, {runtime} {cuda_text} from {self.cuda_path}"


_library: Library | None = None


def library() -> Library:
    """The libraries of this process, loaded at the first call. LibraryError where there are none or they do not fit."""
    global _library
    if _library is None:
        _library = _load()
    return _library


def _load() -> Library:
    chosen, found_by = find_nccl()
    path = _native.open_nccl(chosen)
    cuda_path = _native.open_cuda(_find_cuda(path))
    build = _native.knobs_info()
    return Library(
        path=path,
        found_by=found_by,
        version=_native.nccl_version(),
        patched=build is not None,
        build=build,
        cuda_path=cuda_path,
        cuda_version=_native.cuda_version(),
        hostcuda=_native.cuda_has("hostcudaVersion"),
    )


def find_nccl() -> tuple[str, str]:
    """(file or soname to open, how it was found), without opening it."""
    named = os.environ.get("LAGOM_NCCL")
    present = _native.file_in_process("ncclGetVersion", (NCCL_SONAME,))
    if present:
        if named and not _same_file(_named_file(named), present):
            raise LibraryError(
                f"LAGOM_NCCL names {named}, but {present} is already in the process (LD_PRELOAD, or opened by "
                "another module); drop one of them"
            )
        return present, "already in the process"
    if named:
        return str(_named_file(named)), "LAGOM_NCCL"
    built = cache.current("host") / NCCL_SONAME
    if built.exists():
        return str(built.resolve()), "cache"
    wheel = _in_wheel("nvidia.nccl", "lib", NCCL_SONAME)
    if _opens(NCCL_SONAME):
        return NCCL_SONAME, "system"
    if wheel:
        return wheel, "pip wheel"
    raise LibraryError(
        f"no NCCL library found: none in the process, LAGOM_NCCL is not set, no build in {cache.libraries()}, and the "
        f"system has no {NCCL_SONAME}; build one with `lagom build`, or set LAGOM_NCCL to a file"
    )


def in_process() -> bool:
    """Whether a NCCL is in the process already, loaded here or by others; the choice is then made."""
    return bool(_native.file_in_process("ncclGetVersion", (NCCL_SONAME,))) or _library is not None


def _named_file(named: str) -> Path:
    path = Path(named).expanduser()
    if path.is_dir():
        path = path / NCCL_SONAME
    if not path.exists():
        raise LibraryError(f"LAGOM_NCCL names {path}, which does not exist")
    return path.resolve()


def _same_file(a: Path, b: str) -> bool:
    return os.path.exists(b) and os.path.samefile(a, b)


def _opens(soname: str) -> bool:
    # The loader's own search (cache, LD_LIBRARY_PATH, run paths) cannot be asked without opening.
    try:
        _native.try_open(soname)
    except LibraryError:
        return False
    return True


def _find_cuda(nccl_path: str) -> str:
    """The CUDA runtime: the one NCCL itself brought, else one beside it, else the system's, else the pip wheel's."""
    present = _native.file_in_process("cudaGetDeviceCount", CUDA_SONAMES)
    if present and not _same_file(Path(nccl_path), present):
        return present
    for soname in CUDA_SONAMES:
        beside = Path(nccl_path).parent / soname
        if beside.exists():
            return str(beside)
    for soname in CUDA_SONAMES:
        if _opens(soname):
            return soname
    for package, soname in (("nvidia.cu13", "libcudart.so.13"), ("nvidia.cuda_runtime", "libcudart.so.12")):
        wheel = _in_wheel(package, "lib", soname)
        if wheel:
            return wheel
    raise LibraryError(
        f"NCCL was found at {nccl_path}, but no CUDA runtime: none in the process, none beside it, and the system has "
        f"none of {', '.join(CUDA_SONAMES)}"
    )


def _in_wheel(package: str, *parts: str) -> str | None:
    """A file of an installed namespace package, found without importing anything."""
    if package.partition(".")[0] not in sys.modules and importlib.util.find_spec(package.partition(".")[0]) is None:
        return None
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder, *parts)
        if path.exists():
            return str(path)
    return None
