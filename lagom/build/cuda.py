# SPDX-License-Identifier: Apache-2.0
"""The CUDA flavour: the patched NCCL compiled with nvcc for GPUs, with the options of NCCL's own Makefiles."""

import shlex
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from . import cache, functions, nccl, ninjafile, patch, resources, toolkit, trees
from .errors import BuildError
from .flavour import STAGED_TOPS, Build, Request

# Links in the work folder, so that commands do not depend on where they lead.
CUDA_INCLUDE = ("-isystem", "cuda-include", "-isystem", "cuda-include/cccl")
MAX_REGISTERS = 96  # NCCL's limit: 640 threads a block
MAX_REGISTERS_SYMMETRIC = 128
SPECIFIC_GPU = "100f"


class CudaBuild(Build):
    """NCCL for GPUs of one or several architectures; libcudart is linked statically, as stock does."""

    flavour = "cuda"

    def __init__(self, request: Request) -> None:
        if request.sanitize:
            raise BuildError("--sanitize: only with --flavour host")
        self.toolkit = toolkit.find()
        known = self.toolkit.architectures()
        for arch in request.archs:
            if arch not in known:
                raise BuildError(f"arch {arch}: {self.toolkit.nvcc} compiles for {', '.join(map(str, known))}")
        super().__init__(request)

    def default_functions(self) -> tuple[str, ...]:
        return functions.everything()

    def ingredients(self) -> list[str]:
        return [self.toolkit.digest()]

    def link_outside(self) -> None:
        cache.point(self.work / "cuda-include", self.toolkit.headers.folder)
        cache.point(self.work / "cuda-lib", self.toolkit.libraries)

    def stage(self) -> None:
        """Pristine -> patched."""
        with tempfile.TemporaryDirectory(prefix="stage-", dir=self.work) as scratch:
            tree = Path(scratch, "tree")
            trees.copy(self.request.source, tree, STAGED_TOPS)
            if self.request.series:
                patch.apply(tree, self.request.series)
            nccl.export_headers(tree / "makefiles", tree, self.stage_key[:12])
            device_api = tree / "src" / "include"
            shutil.copytree(device_api / "nccl_device", tree / "include" / "nccl_device", dirs_exist_ok=True)
            shutil.copy2(device_api / "nccl_device.h", tree / "include")
            trees.mirror(tree, self.work / "tree")

    def generate(self) -> str:
        folder = f"generated-{self.functions_key}"
        nccl.generate(self.work, folder, self.chosen, _absent_kernels)
        return folder

    # Compiling and linking.

    def describe(self, generated: str) -> ninjafile.NinjaFile:
        ninja = self.ninja()
        nvcc = f"{shlex.quote(self.toolkit.nvcc)} -ccbin {shlex.quote(self.cxx)}"
        # ptxas reports on every function; the report is kept beside the object, and shown where the step fails.
        keep = "2> $out.report || { cat $out.report >&2; exit 1; }"
        ninja.rule("nvcc", f"{nvcc} $flags -Xptxas -v -MMD -MF $out.d -o $out $in {keep}", "nvcc $in", depfile=True)
        ninja.rule("device-link", f"{nvcc} $flags -Xnvlink -v -dlink -o $out $in {keep}", "device-link $out")
        device = self._device_objects(ninja, generated)
        host = self._host_objects(ninja, generated)
        library = ninja.edge(
            f"{self._out}/libnccl.so.2", "link", [*host, *device],
            implicit=["cuda-lib/libcudart_static.a", "tree/src/libnccl.map"],
            flags="-Wl,-soname,libnccl.so.2 -Wl,--version-script=tree/src/libnccl.map -Wl,--no-undefined "
            "cuda-lib/libcudart_static.a -lpthread -lrt -ldl",
        )  # fmt: skip
        ninja.alias("host-objects", host)
        ninja.alias("device-objects", device)
        ninja.alias("all", [library])
        return ninja

    @property
    def _out(self) -> str:
        return f"out-{self.functions_key}"

    @property
    def _common(self) -> str:
        """Where objects go that do not depend on the choice of functions."""
        return "device-" + "-".join(map(str, self.request.archs))

    def _defines(self) -> list[str]:
        headers = self.toolkit.headers
        return [f"-DCUDA_MAJOR={headers.major}", f"-DCUDA_MINOR={headers.minor}"]

    def _host_objects(self, ninja: ninjafile.NinjaFile, generated: str) -> list[str]:
        source = self.work / "tree" / "src"
        flags = [
            "-O3", "-fPIC", "-fvisibility=hidden", "-w", *self._defines(), *nccl.HOST_FLAGS, *nccl.INCLUDES,
            f"-Itree/src/{nccl.DOCA}/include", f"-Itree/src/{nccl.DOCA}/src", *CUDA_INCLUDE,
        ]  # fmt: skip
        names = sorted([*nccl.host_sources(source, self.request.series), nccl.STATIC_CUDART])
        objects = self.host_objects(ninja, names, flags)
        for name in (f"symmetric/{nccl.SYMMETRIC_TABLE}", "device/host_table.cc"):
            output = f"host-{self.functions_key}/{name}.o"
            objects.append(self.compile(ninja, output, f"{generated}/{name}", ["-std=c++17", *flags]))
        return objects

    def _device_objects(self, ninja: ninjafile.NinjaFile, generated: str) -> list[str]:
        common = [
            "-std=c++17", "-O3", "--expt-extended-lambda", "-Xfatbin", "-compress-all", *nccl.DOCA_FLAGS,
            "-DNCCL_OS_LINUX", "-Itree/src/device", *nccl.INCLUDES, "--compiler-options", "-fPIC -fvisibility=hidden",
        ]  # fmt: skip
        own = [option for arch in self.request.archs for option in _gencode(f"{arch // 10}")]
        folder = f"device-{self.functions_key}"
        made = self.work / generated
        units = {f"{folder}/{path.name}": f"{generated}/device/{path.name}" for path in (made / "device").glob("*.cu")}
        units |= {f"{self._common}/{name}": f"tree/src/device/{name}" for name in ("common.cu", "onerank.cu")}
        flags = [*common, *own, f"-maxrregcount={MAX_REGISTERS}"]
        objects = [
            ninja.edge(f"objects/{name}.o", "nvcc", [source], flags=shlex.join(["-dc", *flags]))
            for name, source in sorted(units.items())
        ]
        for path in sorted((made / "symmetric").glob("*.cu")):
            target = _gencode(SPECIFIC_GPU) if nccl.SPECIFIC_SYMMETRIC.search(path.name) else own
            flags = [*common, *target, f"-maxrregcount={MAX_REGISTERS_SYMMETRIC}", "-dw"]
            output = f"objects/{folder}/symmetric/{path.name}.o"
            source = f"{generated}/symmetric/{path.name}"
            objects.append(ninja.edge(output, "nvcc", [source], flags=shlex.join(flags)))
        glue = ninja.edge(
            f"{self._out}/device_glue.o", "device-link", objects,
            flags=shlex.join([*own, "-Lcuda-lib", f"-maxrregcount={MAX_REGISTERS}", *common[-2:]]),
        )  # fmt: skip
        return [*objects, glue]

    # Publishing.

    def resources(self) -> dict[str, resources.Resources]:
        """What the device functions of this build's objects take; the device link's figures last."""
        objects = self.work / "objects"
        reports = sorted(
            [*(objects / self._common).glob("*.report"), *(objects / f"device-{self.functions_key}").rglob("*.report")]
        )
        reports.append(self.work / self._out / "device_glue.o.report")
        return resources.parse(path.read_text() for path in reports)

    def publish(self, folder: Path) -> None:
        shutil.copy2(self.work / self._out / "libnccl.so.2", folder)
        (folder / "libnccl.so").symlink_to("libnccl.so.2")
        for name in ("nccl.h", "nccl_device.h"):
            shutil.copy2(self.work / "tree" / "include" / name, folder)
        shutil.copytree(self.work / "tree" / "include" / "nccl_device", folder / "nccl_device")
        if not self.request.stock:
            for name in ("nccl_knobs.h", "nccl_plan.h"):
                shutil.copy2(self.work / "tree" / "src" / "include" / name, folder)
        if len(self.request.archs) == 1:
            resources.write(folder / "resources.json", self.resources())

    def description(self) -> dict[str, object]:
        return {"nvcc": self.toolkit.version}


def _gencode(gpu: str) -> list[str]:
    return [f"-gencode=arch=compute_{gpu},code=sm_{gpu}"]


def _absent_kernels(names: Sequence[str]) -> dict[str, str]:
    """Stand-ins for symmetric kernels that this build leaves out: launching one names it and fails."""
    lines = ["#include <cstdio>", '#include "sym_kernels.h"', '#include "device.h"', ""]
    for name in names:
        lines += [
            f"__global__ void {name}(ncclSymkDevWorkArgs4K const) {{",
            "  if (blockIdx.x == 0 && threadIdx.x == 0)",
            f'    printf("NCCL: {name} was left out of this build: build with --functions Symmetric\\n");',
            "  __trap();",
            "}",
        ]
    return {"absent_kernels.cu": "\n".join([*lines, ""])} if names else {}
