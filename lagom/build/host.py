# SPDX-License-Identifier: Apache-2.0
"""The host flavour: NCCL's own host and device code compiled with g++ against hostcuda, for machines with no GPU."""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import cache, functions, ninjafile, patch, tools, trees
from .errors import BuildError
from .rooms import room

ARCHITECTURES = (800, 900)
# Makefile's list of host sources (src/Makefile), as patterns below src/; enhcompat.cc is for a static cudart only.
HOST_SOURCES = (
    "bootstrap.cc", "channel.cc", "collectives.cc", "debug.cc", "enqueue.cc", "group.cc", "init.cc", "proxy.cc",
    "transport.cc", "mnnvl.cc", "allocator.cc", "dev_runtime.cc", "sym_kernels.cc", "ce_coll.cc", "mem_manager.cc",
    "init_nvtx.cc", "os/linux.cc", "graph/*.cc", "misc/*.cc", "transport/*.cc", "transport/net_ib/*.cc",
    "transport/net_ib/gdaki/*.cc", "register/*.cc", "plugin/*.cc", "plugin/*/*.cc", "nccl_device/*.cc",
    "scheduler/*.cc", "gin/*.cc", "rma/*.cc", "ras/*.cc", "transport/net_ib/gdaki/doca-gpunetio/src/*.cpp",
)  # fmt: skip
NOT_IN_LIBRARY = {"ras/client.cc"}  # a program of its own
DOCA = "transport/net_ib/gdaki/doca-gpunetio"
# A link in the work folder, so that commands, and what a compiler cache makes of them, do not depend on where it leads.
CUDA_INCLUDE = ("-isystem", "cuda-include", "-isystem", "cuda-include/cccl")
HOSTCUDA_ROOMS = ("runtime", "driver", "nvml", "simt", "clock")
STAGED_TOPS = ("src", "makefiles")


@dataclass(frozen=True)
class Request:
    """What to build."""

    source: Path  # a pristine, verified NCCL tree
    arch: int = 800
    functions: tuple[str, ...] = ()  # names of device functions; empty: functions.default(arch)
    stock: bool = False  # without the patches
    jobs: int = 0  # 0: one a core

    @property
    def chosen(self) -> tuple[str, ...]:
        return self.functions or functions.default(self.arch)

    @property
    def job_count(self) -> int:
        return self.jobs or len(os.sched_getaffinity(0))


class HostBuild:
    """One build: its identity, its work folder, its steps."""

    def __init__(self, request: Request) -> None:
        if request.arch not in ARCHITECTURES:
            raise BuildError(f"arch {request.arch}: hostcuda models {', '.join(map(str, ARCHITECTURES))}")
        self.request = request
        self.headers = tools.cuda_headers()
        self.cxx = tools.compiler()
        self.flags = json.loads((room("hostcuda") / "tools" / "flags.json").read_text())
        self.base_key = self._base_key()
        chosen = "\n".join(request.chosen)
        self.functions_key = hashlib.sha256(chosen.encode()).hexdigest()[:8]
        self.key = hashlib.sha256(f"{self.base_key}\n{chosen}".encode()).hexdigest()[:16]
        stock = "-stock" if request.stock else ""
        self.work = cache.root() / "build" / f"host-{request.arch}{stock}"

    def _base_key(self) -> str:
        """Everything that decides the result, but the choice of device functions."""
        parts = [
            "host",
            str(self.request.arch),
            trees.digest(self.request.source),
            "stock" if self.request.stock else patch.digest(),
            trees.digest(room("hostcuda")),
            trees.digest(Path(__file__).parent),
            self.headers.digest(),
            tools.compiler_id(self.cxx),
            os.environ.get("CXXFLAGS", ""),
        ]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @property
    def finished(self) -> Path:
        return cache.libraries() / self.key

    def find(self) -> Path | None:
        """A finished build of the same sources that holds at least the chosen functions, if there is one."""
        if (self.finished / "build.json").is_file():
            return self.finished
        for described in sorted(cache.libraries().glob("*/build.json")):
            built = json.loads(described.read_text())
            if built["base_key"] == self.base_key and set(self.request.chosen) <= set(built["functions"]):
                return described.parent
        return None

    def run(self, targets: Sequence[str] = ("all",), make_current: bool = True) -> Path:
        """Build what is not built yet. Returns the finished libraries' folder, or the work folder for other targets."""
        done = self.find() if tuple(targets) == ("all",) else None
        if not done:
            with cache.lock(self.work):
                self._stage()
                generated = self._generate()
                file = f"build-{self.functions_key}.ninja"
                self._describe(generated).write(self.work / file)
                ninjafile.run(self.work, file, targets, self.request.job_count)
                if tuple(targets) != ("all",):
                    return self.work
                self._publish()
                done = self.finished
        if make_current and not self.request.stock:
            cache.point(cache.current("host"), done)
        return done

    # Staging: pristine -> patched -> rewritten, each written into the work folder only where it differs.

    def _stage(self) -> None:
        cache.point(self.work / "cuda-include", self.headers.folder)
        stamp = self.work / "staged"
        wanted = self.base_key
        if stamp.is_file() and stamp.read_text() == wanted:
            return
        with tempfile.TemporaryDirectory(prefix="stage-", dir=self.work) as scratch:
            patched, rewritten = Path(scratch, "patched"), Path(scratch, "rewritten")
            trees.copy(self.request.source, patched, STAGED_TOPS)
            if not self.request.stock:
                patch.apply(patched)
            rewriter = room("hostcuda") / "tools" / "rewrite.py"
            command = [sys.executable, str(rewriter), "--arch", str(self.request.arch), str(patched), str(rewritten)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise BuildError(f"hostcuda cannot rewrite this tree: {done.stderr.strip()}")
            self._export_headers(patched, rewritten)
            trees.mirror(rewritten, self.work / "tree")
        trees.mirror(room("hostcuda"), self.work / "hostcuda")
        stamp.write_text(wanted)

    def _export_headers(self, patched: Path, tree: Path) -> None:
        """The headers that NCCL's Makefile generates or installs before it compiles anything."""
        source = tree / "src"
        version = dict(
            re.findall(r"^NCCL_(\w+)[ \t]*:=[ \t]*(\S*)", (patched / "makefiles/version.mk").read_text(), re.MULTILINE)
        )
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
        # NCCL asks git for its commit; the digest of the build says more, and is the same wherever it is built.
        trees.write_if_changed(
            tree / "include" / "nccl_git_version.h",
            b'#pragma once\n#define NCCL_GIT_BRANCH "lagom"\n'
            + f'#define NCCL_GIT_COMMIT_HASH "{self.base_key[:12]}"\n'.encode(),
        )

    def _generate(self) -> str:
        """Run NCCL's generators for the chosen functions; returns the folder, relative to the work folder."""
        folder = f"generated-{self.functions_key}"
        device = self.work / "tree" / "src" / "device"
        with tempfile.TemporaryDirectory(prefix="generate-", dir=self.work) as scratch:
            for arguments in (
                [str(device / "generate.py"), f"{scratch}/device", functions.only_funcs(self.request.chosen)],
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
            table = Path(scratch, "symmetric", "sym_kernels_host.cc")
            shutil.copy(table, made / "symmetric")
            (made / "symmetric" / "absent_kernels.cc").write_text(_absent_kernels(table.read_text()))
            trees.mirror(made, self.work / folder)
        return folder

    # Compiling and linking.

    def _describe(self, generated: str) -> ninjafile.NinjaFile:
        ninja = ninjafile.NinjaFile()
        ccache = shutil.which("ccache")
        launcher = f"{shlex.quote(ccache)} " if ccache else ""
        cxx = f"{launcher}{shlex.quote(self.cxx)}"
        ninja.rule("compile", f"{cxx} $flags -MMD -MF $out.d -c $in -o $out", "compile $in", depfile=True)
        ninja.rule("link", f"{shlex.quote(self.cxx)} -shared -o $out $in $flags", "link $out")
        device = self._device_objects(ninja, generated)
        host = self._host_objects(ninja, generated)
        out = f"out-{self.functions_key}"
        cudart = self._hostcuda(ninja)
        nccl = ninja.edge(
            f"{out}/libnccl.so.2", "link", [*host, *device],
            implicit=[cudart, "tree/src/libnccl.map"],
            flags=f"-Wl,-soname,libnccl.so.2 -Wl,--version-script=tree/src/libnccl.map -Wl,--no-undefined "
            f"{cudart} -lpthread -lrt -ldl {_RPATH}",
        )  # fmt: skip
        ninja.alias("host-objects", host)
        ninja.alias("device-objects", device)
        ninja.alias("hostcuda-libraries", [cudart, *self._doors(ninja, cudart)])
        ninja.alias("all", [nccl, "hostcuda-libraries"])
        return ninja

    def _host_objects(self, ninja: ninjafile.NinjaFile, generated: str) -> list[str]:
        source = self.work / "tree" / "src"
        names = {
            path.relative_to(source).as_posix() for pattern in HOST_SOURCES for path in source.glob(pattern)
        } - NOT_IN_LIBRARY
        if not self.request.stock:
            added = (name.removeprefix("src/") for name in patch.added_files())
            names |= {name for name in added if name.endswith((".cc", ".c")) and not name.startswith("include/")}
        base = [
            "-O2", "-fPIC", "-fvisibility=hidden", "-w",
            f"-DCUDA_MAJOR={self.headers.major}", f"-DCUDA_MINOR={self.headers.minor}",
            "-DPROFAPI", "-DDOCA_VERBS_USE_CUDA_WRAPPER", "-DDOCA_VERBS_USE_NET_WRAPPER", "-DNCCL_GIN_PROXY_ENABLE=1",
            "-DNCCL_OS_LINUX", "-Itree/src", "-Itree/include", "-Itree/src/include", "-Itree/src/include/plugin",
            f"-Itree/src/{DOCA}/include", f"-Itree/src/{DOCA}/src", "-Ihostcuda/include",
            *CUDA_INCLUDE, *self.flags["host"],
        ]  # fmt: skip
        objects = []
        own = f"host-{self.functions_key}"  # objects that differ with the choice of functions
        for name in sorted(names):
            flags = [*(["-x", "c", "-std=gnu11"] if name.endswith(".c") else ["-std=c++17"]), *base]
            folder = "host"
            if "LAGOM_BUILD_DIGEST" in (source / name).read_text():
                folder, flags = own, [*flags, f'-DLAGOM_BUILD_DIGEST="{self.key}"']
            objects.append(self._compile(ninja, f"{folder}/{name}.o", f"tree/src/{name}", flags))
        for name in ("symmetric/sym_kernels_host.cc", "symmetric/absent_kernels.cc", "device/host_table.cc"):
            objects.append(self._compile(ninja, f"{own}/{name}.o", f"{generated}/{name}", ["-std=c++17", *base]))
        return objects

    def _device_objects(self, ninja: ninjafile.NinjaFile, generated: str) -> list[str]:
        flags = [
            *(flag.format(arch=self.request.arch) for flag in self.flags["device"]),
            "-fPIC", "-fvisibility=hidden", f"-DCUDA_MAJOR={self.headers.major}", f"-DCUDA_MINOR={self.headers.minor}",
            "-DDOCA_VERBS_USE_CUDA_WRAPPER", "-DDOCA_VERBS_USE_NET_WRAPPER", "-DNCCL_OS_LINUX",
            "-Itree/src/device", "-Itree/src", "-Itree/include", "-Itree/src/include", "-Itree/src/include/plugin",
            "-Ihostcuda", "-Ihostcuda/include", *CUDA_INCLUDE,
        ]  # fmt: skip
        folder = f"device-{self.functions_key}"
        units = sorted((self.work / generated / "device").glob("*.cu"))
        objects = [
            self._compile(ninja, f"{folder}/{path.name}.o", f"{generated}/device/{path.name}", flags) for path in units
        ]
        for name in ("common.cu", "onerank.cu"):
            objects.append(self._compile(ninja, f"device/{name}.o", f"tree/src/device/{name}", flags))
        return objects

    def _hostcuda(self, ninja: ninjafile.NinjaFile) -> str:
        """hostcuda is one library; returns its path."""
        flags = [
            "-std=gnu++20", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra",
            "-Ihostcuda", "-Ihostcuda/include", *CUDA_INCLUDE, *self.flags["hostcuda"],
        ]  # fmt: skip
        sources = [
            name
            for name in trees.files(self.work / "hostcuda")
            if name.split("/")[0] in HOSTCUDA_ROOMS and name.endswith((".cc", ".S"))
        ]
        if not sources:
            raise BuildError("hostcuda/ holds no sources")
        objects = [self._compile(ninja, f"hostcuda/{name}.o", f"hostcuda/{name}", flags) for name in sources]
        exports = "hostcuda/libcudart.map"
        has_map = (self.work / exports).is_file()
        return ninja.edge(
            "out/libcudart.so.13", "link", objects, implicit=[exports] if has_map else [],
            flags=f"-Wl,-soname,libcudart.so.13 {f'-Wl,--version-script={exports} ' if has_map else ''}"
            f"-Wl,--no-undefined -lpthread -ldl -lrt {_RPATH}",
        )  # fmt: skip

    def _doors(self, ninja: ninjafile.NinjaFile, cudart: str) -> list[str]:
        """libcuda and libnvidia-ml hold nothing: dlsym on their handle finds what their dependency exports."""
        trees.write_if_changed(self.work / "door.cc", b"// An empty library; everything is in libcudart.\n")
        door = self._compile(ninja, "door.o", "door.cc", ["-fPIC"])
        return [
            ninja.edge(
                f"out/{name}", "link", [door], implicit=[cudart],
                flags=f"-Wl,-soname,{name} -Wl,--no-as-needed {cudart} {_RPATH}",
            )
            for name in ("libcuda.so.1", "libnvidia-ml.so.1")
        ]  # fmt: skip

    def _compile(self, ninja: ninjafile.NinjaFile, output: str, source: str, flags: Sequence[str]) -> str:
        more = shlex.split(os.environ.get("CXXFLAGS", ""))
        return ninja.edge(f"objects/{output}", "compile", [source], flags=shlex.join([*flags, *more]))

    # Publishing.

    def _publish(self) -> None:
        """Copy what programs need into lib/<key>, which appears at once and complete."""
        out = self.work / f"out-{self.functions_key}"
        with cache.appearing(self.finished) as folder:
            for path in (
                out / "libnccl.so.2",
                *(self.work / "out" / n for n in ("libcudart.so.13", "libcuda.so.1", "libnvidia-ml.so.1")),
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
            described = {
                "flavour": "host",
                "arch": self.request.arch,
                "patched": not self.request.stock,
                "key": self.key,
                "base_key": self.base_key,
                "compiler": tools.compiler_id(self.cxx),
                "cuda_headers": self.headers.version,
                "functions": list(self.request.chosen),
            }
            (folder / "build.json").write_text(json.dumps(described, indent=1) + "\n")


_RPATH = "'-Wl,-rpath,$$ORIGIN' -Wl,--enable-new-dtags"


def _absent_kernels(table: str) -> str:
    """Stand-ins for the symmetric kernels, which this build leaves out: launching one fails and names it."""
    names = re.findall(r"__global__ void (\w+)\(ncclSymkDevWorkArgs4K const\);", table)
    if not names:
        raise BuildError("symmetric/generate.py's table names no kernel: its format has changed")
    lines = ['#include "sym_kernels.h"', '#include "device.h"', '#include "hostcuda.h"', ""]
    lines += [f"__global__ void {name}(ncclSymkDevWorkArgs4K const) {{}}" for name in names]
    lines += ["", "namespace {", "struct Absent {", "  Absent() {"]
    for name in names:
        lines += [
            f"    {{ hostcudaKernelEntry_t kernel = {{sizeof(kernel), HOSTCUDA_KERNEL_ENTRY_VERSION}};"
            f' kernel.symbol = (const void*)&{name}; kernel.name = "{name}"; hostcudaRegisterKernel(&kernel); }}'
        ]
    return "\n".join([*lines, "  }", "} absent;", "}", ""])
