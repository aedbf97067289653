# SPDX-License-Identifier: Apache-2.0
"""What NCCL's own Makefiles do before and around compiling: which sources, generated headers, generators."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from . import functions, patch, trees
from .errors import BuildError

# Makefile's list of host sources (src/Makefile), as patterns below src/; enhcompat.cc is for a static cudart only.
HOST_SOURCES = (
    "bootstrap.cc", "channel.cc", "collectives.cc", "debug.cc", "enqueue.cc", "group.cc", "init.cc", "proxy.cc",
    "transport.cc", "mnnvl.cc", "allocator.cc", "dev_runtime.cc", "sym_kernels.cc", "ce_coll.cc", "mem_manager.cc",
    "init_nvtx.cc", "os/linux.cc", "graph/*.cc", "misc/*.cc", "transport/*.cc", "transport/net_ib/*.cc",
    "transport/net_ib/gdaki/*.cc", "register/*.cc", "plugin/*.cc", "plugin/*/*.cc", "nccl_device/*.cc",
    "scheduler/*.cc", "gin/*.cc", "rma/*.cc", "ras/*.cc", "transport/net_ib/gdaki/doca-gpunetio/src/*.cpp",
)  # fmt: skip
STATIC_CUDART = "enhcompat.cc"
NOT_IN_LIBRARY = {"ras/client.cc"}  # a program of its own
DOCA = "transport/net_ib/gdaki/doca-gpunetio"
DOCA_FLAGS = ("-DDOCA_VERBS_USE_CUDA_WRAPPER", "-DDOCA_VERBS_USE_NET_WRAPPER")
HOST_FLAGS = ("-DPROFAPI", *DOCA_FLAGS, "-DNCCL_GIN_PROXY_ENABLE=1", "-DNCCL_OS_LINUX")
INCLUDES = ("-Itree/src", "-Itree/include", "-Itree/src/include", "-Itree/src/include/plugin")
SYMMETRIC_TABLE = "sym_kernels_host.cc"
# Kernels that few GPUs have the instructions for; NCCL compiles them for these alone, whatever else is asked for.
SPECIFIC_SYMMETRIC = re.compile(r"_f8e\dm\d_(RSxLDMC_AGxSTMC|LDMC|RailA2A_LsaLDMC)\.cu$")


def host_sources(source: Path, series: patch.Series) -> list[str]:
    """NCCL's host files below `source` (a tree's src/), and those that the patches add."""
    names = {path.relative_to(source).as_posix() for pattern in HOST_SOURCES for path in source.glob(pattern)}
    added = (name.removeprefix("src/") for name in series.added_files())
    names |= {name for name in added if name.endswith((".cc", ".c")) and not name.startswith("include/")}
    return sorted(names - NOT_IN_LIBRARY)


def export_headers(makefiles: Path, tree: Path, commit: str) -> None:
    """The headers that NCCL's Makefile generates or installs before it compiles anything, into tree/include.

    `commit`: NCCL asks git for one; a digest of the build says more, and is the same wherever it is built.
    """
    source = tree / "src"
    version = dict(re.findall(r"^NCCL_(\w+)[ \t]*:=[ \t]*(\S*)", (makefiles / "version.mk").read_text(), re.MULTILINE))
    numbers = [int(version[part]) for part in ("MAJOR", "MINOR", "PATCH")]
    text = (source / "nccl.h.in").read_text()
    values = {
        "Major": str(numbers[0]),
        "Minor": str(numbers[1]),
        "Patch": str(numbers[2]),
        "Suffix": version.get("SUFFIX", ""),
        "Version": f"{numbers[0]}{numbers[1]:02d}{numbers[2]:02d}",
    }
    for name, value in values.items():
        text = text.replace(f"${{nccl:{name}}}", value)
    trees.write_if_changed(tree / "include" / "nccl.h", text.encode())
    installed = tree / "include" / "nccl_device" / "gin" / "gdaki" / "doca_gpunetio"
    shutil.copytree(source / DOCA / "include", installed, dirs_exist_ok=True)
    trees.write_if_changed(
        tree / "include" / "nccl_git_version.h",
        b'#pragma once\n#define NCCL_GIT_BRANCH "lagom"\n' + f'#define NCCL_GIT_COMMIT_HASH "{commit}"\n'.encode(),
    )


def generate(
    work: Path,
    folder: str,
    chosen: Sequence[str],
    absent: Callable[[Sequence[str]], dict[str, str]],
    possible: Callable[[str], bool] = lambda _: True,
) -> None:
    """Run NCCL's generators of `work`/tree and mirror what is to be compiled into `work`/`folder`.

    device/ holds the units of the `chosen` functions and their tables; symmetric/ the table of the symmetric kernels,
    the `chosen` units among those that are `possible` (by file name), and the files that `absent` makes of the names of
    all other kernels.
    """
    device = work / "tree" / "src" / "device"
    with tempfile.TemporaryDirectory(prefix="generate-", dir=work) as scratch:
        for arguments in (
            [str(device / "generate.py"), f"{scratch}/device", functions.only_funcs(chosen)],
            [str(device / "symmetric" / "generate.py"), f"{scratch}/symmetric"],
        ):
            done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
            if done.returncode:
                raise BuildError(f"{arguments[0]} failed:\n{done.stderr.strip()}")
        made = Path(scratch, "made")
        (made / "device").mkdir(parents=True)
        (made / "symmetric").mkdir()
        for path in Path(scratch, "device").iterdir():
            # Units without redop and type (all_reduce.cu) may exist to scrape dependencies only.
            is_table = path.name in ("device_table.cu", "host_table.cc")
            if is_table or (path.suffix == ".cu" and "DEFINE_" in path.read_text()):
                shutil.copy(path, made / "device")
        generated = Path(scratch, "symmetric")
        shutil.copy(generated / SYMMETRIC_TABLE, made / "symmetric")
        left_out = symmetric_kernels(generated / SYMMETRIC_TABLE)
        for path in generated.glob("*.cu"):
            held = re.findall(r"__global__ void (\w+)\(", path.read_text())
            if held and functions.symmetric_name(path.name) in chosen and possible(path.name):
                shutil.copy(path, made / "symmetric")
                left_out = [name for name in left_out if name not in held]
        for name, text in absent(left_out).items():
            (made / "symmetric" / name).write_text(text)
        trees.mirror(made, work / folder)


def symmetric_kernels(table: Path) -> list[str]:
    """The names of the symmetric kernels that the generated `table` lists."""
    names = re.findall(r"__global__ void (\w+)\(ncclSymkDevWorkArgs4K const&?\);", table.read_text())
    if not names:
        raise BuildError("symmetric/generate.py's table names no kernel: its format has changed")
    return names
