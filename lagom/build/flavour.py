# SPDX-License-Identifier: Apache-2.0
"""What all flavours of a build share: what decides the result, finding one that is finished, the order of steps."""

import hashlib
import json
import os
import shlex
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from . import cache, ninjafile, patch, tools, trees

STAGED_TOPS = ("src", "makefiles")
SANITIZERS = ("address", "undefined")


@dataclass(frozen=True)
class Request:
    """What to build."""

    source: Path  # a pristine, verified NCCL tree
    arch: int = 800
    functions: tuple[str, ...] = ()  # names of device functions; empty: the flavour's default
    stock: bool = False  # without the patches
    extra_patches: tuple[Path, ...] = ()  # folders of further patches, see patch.Series
    sanitize: tuple[str, ...] = ()  # sanitizers of the compiler, of SANITIZERS, for the host side; in their order
    jobs: int = 0  # 0: one a core
    more_archs: tuple[int, ...] = ()  # further GPU generations in the same library

    @property
    def archs(self) -> tuple[int, ...]:
        """Every GPU generation, lowest first, each once."""
        return tuple(sorted({self.arch, *self.more_archs}))

    @property
    def series(self) -> patch.Series:
        return patch.Series(own=not self.stock, extra=self.extra_patches)

    @property
    def job_count(self) -> int:
        return self.jobs or len(os.sched_getaffinity(0))


class Build(ABC):
    """One build: its identity, its work folder, its steps.

    A flavour sets what its methods need (compiler, headers) before it calls `__init__` here.
    """

    flavour: ClassVar[str]

    def __init__(self, request: Request) -> None:
        self.request = request
        self.cxx = tools.compiler()
        self.chosen = request.functions or self.default_functions()
        self.stage_key = self._stage_key()
        # Sanitizers change neither the tree nor most objects, so both kinds of build share a work folder.
        self.variant = "".join(f"-{name}" for name in request.sanitize)
        archs = ",".join(map(str, request.archs))
        self.base_key = hashlib.sha256(f"{self.stage_key}\n{archs}{self.variant}".encode()).hexdigest()
        chosen = "\n".join([archs, *self.chosen])
        self.functions_key = hashlib.sha256(chosen.encode()).hexdigest()[:8]
        self.key = hashlib.sha256(f"{self.base_key}\n{chosen}".encode()).hexdigest()[:16]
        self.work = cache.root() / "build" / (self.work_name() + ("-stock" if request.stock else ""))

    def work_name(self) -> str:
        """What tells work folders apart, but for `stock`. Those of one folder share the tree and the host objects."""
        return self.flavour

    def _stage_key(self) -> str:
        """Everything that decides the result, but the GPU, the choice of device functions and sanitizers."""
        parts = [
            self.flavour,
            trees.digest(self.request.source),
            self.request.series.digest(),
            trees.digest(Path(__file__).parent),
            tools.compiler_id(self.cxx),
            os.environ.get("CXXFLAGS", ""),
            *self.ingredients(),
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
            if built["base_key"] == self.base_key and set(self.chosen) <= set(built["functions"]):
                return described.parent
        return None

    def run(self, targets: Sequence[str] = ("all",), make_current: bool = True) -> Path:
        """Build what is not built yet. Returns the finished libraries' folder, or the work folder for other targets."""
        done = self.find() if tuple(targets) == ("all",) else None
        if not done:
            with cache.lock(self.work):
                self._stage()
                generated = self.generate()
                file = f"build-{self.functions_key}{self.variant}.ninja"
                self.describe(generated).write(self.work / file)
                ninjafile.run(self.work, file, targets, self.request.job_count)
                if tuple(targets) != ("all",):
                    return self.work
                self._publish()
                done = self.finished
        self.refresh(done)
        if make_current and self.request.series == patch.OWN and not self.request.sanitize:
            cache.point(cache.current(self.flavour), done)
        return done

    def _stage(self) -> None:
        stamp = self.work / "staged"
        self.link_outside()
        if stamp.is_file() and stamp.read_text() == self.stage_key:
            return
        self.stage()
        stamp.write_text(self.stage_key)

    def _publish(self) -> None:
        """Copy what programs need into lib/<key>, which appears at once and complete."""
        with cache.appearing(self.finished) as folder:
            self.publish(folder)
            described = {
                "flavour": self.flavour,
                "arch": self.request.arch,
                "archs": list(self.request.archs),
                "patched": not self.request.stock,
                "extra_patches": [folder.name for folder in self.request.extra_patches],
                "sanitize": list(self.request.sanitize),
                "key": self.key,
                "base_key": self.base_key,
                "compiler": tools.compiler_id(self.cxx),
                **self.description(),
                "functions": list(self.chosen),
            }
            (folder / "build.json").write_text(json.dumps(described, indent=1) + "\n")

    # Steps that flavours have in common.

    def ninja(self) -> ninjafile.NinjaFile:
        """A ninja file with the rules for C++."""
        ninja = ninjafile.NinjaFile()
        ccache = shutil.which("ccache")
        launcher = f"{shlex.quote(ccache)} " if ccache else ""
        cxx = f"{launcher}{shlex.quote(self.cxx)}"
        ninja.rule("compile", f"{cxx} $flags -MMD -MF $out.d -c $in -o $out", "compile $in", depfile=True)
        ninja.rule("link", f"{shlex.quote(self.cxx)} -shared -o $out $in $flags", "link $out")
        return ninja

    def compile(self, ninja: ninjafile.NinjaFile, output: str, source: str, flags: Sequence[str]) -> str:
        """One step of the C++ compiler; returns the object's path."""
        more = shlex.split(os.environ.get("CXXFLAGS", ""))
        return ninja.edge(f"objects/{output}", "compile", [source], flags=shlex.join([*flags, *more]))

    def host_objects(self, ninja: ninjafile.NinjaFile, sources: Sequence[str], flags: Sequence[str]) -> list[str]:
        """NCCL's host code. `sources`: below the staged src/. Those that the patches touch or add are instrumented."""
        objects = []
        instrumented = self.request.series.concerned() if self.request.sanitize else set()
        for name in sources:
            own = [*(["-x", "c", "-std=gnu11"] if name.endswith(".c") else ["-std=c++17"]), *flags]
            folder = "host"
            if f"src/{name}" in instrumented:
                folder, own = f"host{self.variant}", [*own, *self.sanitizing()]
            if "LAGOM_BUILD_DIGEST" in (self.work / "tree" / "src" / name).read_text():
                # Differs with the GPU and the choice of functions.
                folder, own = f"{folder}-{self.functions_key}", [*own, f'-DLAGOM_BUILD_DIGEST="{self.key}"']
            objects.append(self.compile(ninja, f"{folder}/{name}.o", f"tree/src/{name}", own))
        return objects

    @classmethod  # noqa: B027 (most flavours take any machine)
    def require_machine(cls) -> None:
        """BuildError where this flavour cannot run on the machine, before anything is fetched."""

    def sanitizing(self) -> list[str]:
        """Options for the compiler and for linking."""
        if not self.request.sanitize:
            return []
        return [f"-fsanitize={','.join(self.request.sanitize)}", "-fno-omit-frame-pointer", "-g1", "-O1"]

    def refresh(self, folder: Path) -> None:  # noqa: B027 (most flavours need nothing)
        """Mend what a finished build, maybe of another checkout, says about places outside of it."""

    # What a flavour adds.

    @abstractmethod
    def default_functions(self) -> tuple[str, ...]:
        """The device functions where the request names none."""

    @abstractmethod
    def ingredients(self) -> list[str]:
        """What else decides the result."""

    @abstractmethod
    def link_outside(self) -> None:
        """Point links of the work folder at what lies outside of it."""

    @abstractmethod
    def stage(self) -> None:
        """Write the sources into the work folder's tree/, only where they differ."""

    @abstractmethod
    def generate(self) -> str:
        """Run NCCL's generators for the chosen functions; returns the folder, relative to the work folder."""

    @abstractmethod
    def describe(self, generated: str) -> ninjafile.NinjaFile:
        """Every step of the build, with the target `all`."""

    @abstractmethod
    def publish(self, folder: Path) -> None:
        """Copy the results into `folder`."""

    @abstractmethod
    def description(self) -> dict[str, object]:
        """What build.json says beyond what every flavour says there."""
