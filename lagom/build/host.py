# SPDX-License-Identifier: Apache-2.0
"""The host flavour: NCCL's own host and device code compiled with g++ against hostcuda, for machines with no GPU."""

import json
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from . import cache, functions, nccl, ninjafile, patch, tools, trees
from .errors import BuildError
from .flavour import STAGED_TOPS, Build, Request
from .rooms import room

ARCHITECTURES = (800, 900, 1000)
# A link in the work folder, so that commands, and what a compiler cache makes of them, do not depend on where it leads.
CUDA_INCLUDE = ("-isystem", "cuda-include", "-isystem", "cuda-include/cccl")
HOSTCUDA_ROOMS = ("runtime", "driver", "nvml", "simt", "clock")


class HostBuild(Build):
    """NCCL on hostcuda."""

    flavour = "host"

    def __init__(self, request: Request) -> None:
        self.require_machine()
        if request.arch not in ARCHITECTURES:
            raise BuildError(f"arch {request.arch}: hostcuda models {', '.join(map(str, ARCHITECTURES))}")
        if len(request.archs) > 1:
            raise BuildError(
                f"arch {' '.join(map(str, request.archs))}: code for CPUs believes in one GPU generation; give one"
            )
        self.headers = tools.cuda_headers()
        self.flags = json.loads((room("hostcuda") / "tools" / "flags.json").read_text())
        super().__init__(request)

    @classmethod
    def require_machine(cls) -> None:
        machine = platform.machine()
        if machine not in ("x86_64", "AMD64"):
            raise BuildError(
                f"this machine is {machine}, and hostcuda runs on x86-64 only: NCCL's protocols rely on the order in"
                " which it stores, and device threads switch in its assembly"
            )

    def default_functions(self) -> tuple[str, ...]:
        return functions.default(self.request.arch)

    def ingredients(self) -> list[str]:
        return [trees.digest(room("hostcuda")), self.headers.digest()]

    def link_outside(self) -> None:
        cache.point(self.work / "cuda-include", self.headers.folder)

    def stage(self) -> None:
        """Pristine -> patched -> rewritten."""
        with tempfile.TemporaryDirectory(prefix="stage-", dir=self.work) as scratch:
            patched, rewritten = Path(scratch, "patched"), Path(scratch, "rewritten")
            trees.copy(self.request.source, patched, STAGED_TOPS)
            if self.request.series:
                patch.apply(patched, self.request.series)
            rewriter = room("hostcuda") / "tools" / "rewrite.py"
            command = [sys.executable, str(rewriter), str(patched), str(rewritten)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise BuildError(f"hostcuda cannot rewrite this tree: {done.stderr.strip()}")
            nccl.export_headers(patched / "makefiles", rewritten, self.stage_key[:12])
            trees.mirror(rewritten, self.work / "tree")
        trees.mirror(room("hostcuda"), self.work / "hostcuda")

    def generate(self) -> str:
        folder = f"generated-{self.functions_key}"
        nccl.generate(self.work, folder, self.chosen, _absent_kernels, _possible)
        return folder

    # Compiling and linking.

    @property
    def _out(self) -> str:
        return f"out{self.variant}"

    @property
    def _out_nccl(self) -> str:
        return f"out-{self.functions_key}{self.variant}"

    def describe(self, generated: str) -> ninjafile.NinjaFile:
        ninja = self.ninja()
        device = self._device_objects(ninja, generated)
        host = self._host_objects(ninja, generated)
        cudart = self._hostcuda(ninja)
        library = ninja.edge(
            f"{self._out_nccl}/libnccl.so.2", "link", [*host, *device],
            implicit=[cudart, "tree/src/libnccl.map"],
            flags=f"-Wl,-soname,libnccl.so.2 -Wl,--version-script=tree/src/libnccl.map -Wl,--no-undefined "
            f"{cudart} -lpthread -lrt -ldl {_RPATH} {shlex.join(self.sanitizing())}",
        )  # fmt: skip
        ninja.alias("host-objects", host)
        ninja.alias("device-objects", device)
        ninja.alias("hostcuda-libraries", [cudart, *self._doors(ninja, cudart)])
        ninja.alias("all", [library, "hostcuda-libraries"])
        return ninja

    def _host_objects(self, ninja: ninjafile.NinjaFile, generated: str) -> list[str]:
        source = self.work / "tree" / "src"
        flags = [
            "-O2", "-fPIC", "-fvisibility=hidden", "-w",
            f"-DCUDA_MAJOR={self.headers.major}", f"-DCUDA_MINOR={self.headers.minor}",
            *nccl.HOST_FLAGS, *nccl.INCLUDES,
            f"-Itree/src/{nccl.DOCA}/include", f"-Itree/src/{nccl.DOCA}/src", "-Ihostcuda/include",
            *CUDA_INCLUDE, *self.flags["host"],
        ]  # fmt: skip
        objects = self.host_objects(ninja, nccl.host_sources(source, self.request.series), flags)
        own = f"host-{self.functions_key}"
        for name in (f"symmetric/{nccl.SYMMETRIC_TABLE}", "symmetric/absent_kernels.cc", "device/host_table.cc"):
            objects.append(self.compile(ninja, f"{own}/{name}.o", f"{generated}/{name}", ["-std=c++17", *flags]))
        return objects

    def _device_objects(self, ninja: ninjafile.NinjaFile, generated: str) -> list[str]:
        flags = [
            *(flag.format(arch=self.request.arch) for flag in self.flags["device"]),
            "-fPIC", "-fvisibility=hidden", f"-DCUDA_MAJOR={self.headers.major}", f"-DCUDA_MINOR={self.headers.minor}",
            *nccl.DOCA_FLAGS, "-DNCCL_OS_LINUX", "-Itree/src/device", *nccl.INCLUDES,
            "-Ihostcuda", "-Ihostcuda/include", *CUDA_INCLUDE,
        ]  # fmt: skip
        folder = f"device-{self.functions_key}"
        units = sorted((self.work / generated / "device").glob("*.cu"))
        objects = [
            self.compile(ninja, f"{folder}/{path.name}.o", f"{generated}/device/{path.name}", flags) for path in units
        ]
        symmetric = [*flags, *self.flags["symmetric"]]
        for path in sorted((self.work / generated / "symmetric").glob("*.cu")):
            source = f"{generated}/symmetric/{path.name}"
            objects.append(self.compile(ninja, f"{folder}/symmetric/{path.name}.o", source, symmetric))
        for name in ("common.cu", "onerank.cu"):
            output = f"device-{self.request.arch}/{name}.o"
            objects.append(self.compile(ninja, output, f"tree/src/device/{name}", flags))
        return objects

    def _hostcuda(self, ninja: ninjafile.NinjaFile) -> str:
        """hostcuda is one library; returns its path."""
        flags = [
            "-std=gnu++20", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra",
            "-Ihostcuda", "-Ihostcuda/include", *CUDA_INCLUDE, *self.flags["hostcuda"], *self.sanitizing(),
        ]  # fmt: skip
        sources = [
            name
            for name in trees.files(self.work / "hostcuda")
            if name.split("/")[0] in HOSTCUDA_ROOMS and name.endswith((".cc", ".S"))
        ]
        if not sources:
            raise BuildError("hostcuda/ holds no sources")
        objects = [
            self.compile(ninja, f"hostcuda{self.variant}/{name}.o", f"hostcuda/{name}", flags) for name in sources
        ]
        exports = "hostcuda/libcudart.map"
        has_map = (self.work / exports).is_file()
        return ninja.edge(
            f"{self._out}/libcudart.so.13", "link", objects, implicit=[exports] if has_map else [],
            flags=f"-Wl,-soname,libcudart.so.13 {f'-Wl,--version-script={exports} ' if has_map else ''}"
            f"-Wl,--no-undefined -lpthread -ldl -lrt {_RPATH} {shlex.join(self.sanitizing())}",
        )  # fmt: skip

    def _doors(self, ninja: ninjafile.NinjaFile, cudart: str) -> list[str]:
        """libcuda and libnvidia-ml hold nothing: dlsym on their handle finds what their dependency exports."""
        trees.write_if_changed(self.work / "door.cc", b"// An empty library; everything is in libcudart.\n")
        door = self.compile(ninja, "door.o", "door.cc", ["-fPIC"])
        return [
            ninja.edge(
                f"{self._out}/{name}", "link", [door], implicit=[cudart],
                flags=f"-Wl,-soname,{name} -Wl,--no-as-needed {cudart} {_RPATH}",
            )
            for name in ("libcuda.so.1", "libnvidia-ml.so.1")
        ]  # fmt: skip

    # Publishing.

    def publish(self, folder: Path) -> None:
        for path in (
            self.work / self._out_nccl / "libnccl.so.2",
            *(self.work / self._out / n for n in ("libcudart.so.13", "libcuda.so.1", "libnvidia-ml.so.1")),
            self.work / "tree" / "include" / "nccl.h",
            self.work / "tree" / "src" / "include" / "nccl_knobs.h",
            self.work / "tree" / "src" / "include" / "nccl_plan.h",
            self.work / "hostcuda" / "include" / "hostcuda.h",
        ):
            if path.suffix != ".h" or path.is_file():  # a stock build has no knobs
                shutil.copy2(path, folder)
        for link, target in (("libnccl.so", "libnccl.so.2"), ("libcudart.so", "libcudart.so.13")):
            (folder / link).symlink_to(target)
        for name in ("gpus", "machines"):
            if (self.work / "hostcuda" / name).is_dir():
                shutil.copytree(self.work / "hostcuda" / name, folder / "share" / "hostcuda" / name)

    def refresh(self, folder: Path) -> None:
        # Beside nccl.h, so that one folder has all that a program needs to be compiled. The headers lie in the
        # environment of whoever asked last.
        cache.point(folder / "cuda-include", self.headers.folder)

    def description(self) -> dict[str, object]:
        return {"cuda_headers": self.headers.version}


_RPATH = "'-Wl,-rpath,$$ORIGIN' -Wl,--enable-new-dtags"


def _possible(unit: str) -> bool:
    """Whether hostcuda can run the symmetric kernels of this generated file.

    Not those that drive network cards from the GPU, and not those that NCCL itself compiles for single GPUs only.
    """
    return "_gin" not in unit and not nccl.SPECIFIC_SYMMETRIC.search(unit)


def _absent_kernels(names: Sequence[str]) -> dict[str, str]:
    """Stand-ins for symmetric kernels that this build leaves out: launching one fails and names it."""
    lines = ['#include "sym_kernels.h"', '#include "device.h"', '#include "hostcuda.h"', ""]
    lines += [f"__global__ void {name}(ncclSymkDevWorkArgs4K const&) {{}}" for name in names]
    lines += ["", "namespace {", "struct Absent {", "  Absent() {"]
    for name in names:
        lines += [
            f"    {{ hostcudaKernelEntry_t kernel = {{sizeof(kernel), HOSTCUDA_KERNEL_ENTRY_VERSION}};"
            f' kernel.symbol = (const void*)&{name}; kernel.name = "{name}"; hostcudaRegisterKernel(&kernel); }}'
        ]
    return {"absent_kernels.cc": "\n".join([*lines, "  }", "} absent;", "}", ""])}
