# SPDX-License-Identifier: Apache-2.0
"""Running programs/calls.cc on one of several builds."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from launch import environment
from nccl_dump.sessions import Session

from lagom.build.tools import cuda_headers

HERE = Path(__file__).parent
DUMP = HERE  # folders of patches, for lagom build --extra-patch
PROGRAMS = HERE / "programs"
MUTANTS = HERE / "mutants"
KNOBS = HERE.parents[1] / "nccl_patches" / "include"
NOTHING: Mapping[str, str] = MappingProxyType({})


def built_functions() -> str:
    """The device functions of the builds that scripts/test makes to compare with stock."""
    script = HERE.parents[1] / "scripts" / "test-functions"
    return subprocess.run([script, "beside-stock"], capture_output=True, text=True, check=True).stdout.strip()


def compile_program(name: str, folder: Path, build: Path, source: Path = PROGRAMS) -> Path:
    """source/NAME.cc as a program that runs on whichever libraries LD_LIBRARY_PATH leads to."""
    target = folder / name
    include = cuda_headers().folder
    command = ["g++", "-std=gnu++20", "-O2", "-Wall", "-Wextra", "-Werror", str(source / f"{name}.cc")]
    command += [f"-I{PROGRAMS}", f"-I{build}", f"-I{KNOBS}", "-isystem", str(include), "-o", str(target)]
    command += [str(build / "libnccl.so.2"), str(build / "libcudart.so.13"), "-ldl", f"-Wl,-rpath-link,{build}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


def functions_of(build: Path) -> list[str]:
    """The device functions that a build holds."""
    found: list[str] = json.loads((build / "build.json").read_text())["functions"]
    return found


def reductions(build: Path) -> list[str]:
    """ "AllReduce Sum f32" and the like, where the build holds every ring and tree function of it."""
    held: dict[str, int] = {}
    for name in functions_of(build):
        words = name.split()
        if len(words) == 5 and words[3] in ("RING", "TREE"):
            held[" ".join(words[:3])] = held.get(" ".join(words[:3]), 0) + 1
    return sorted(name for name, number in held.items() if number == (6 if name.startswith("AllReduce") else 3))


def left_out(build: Path) -> dict[str, str]:
    """Settings that keep NCCL from choosing PAT, which it does across hosts, where the build has not all of it."""
    wanted = {"AllGather PAT SIMPLE"}
    for name in reductions(build):
        collective, op, _ = name.split()
        if collective == "ReduceScatter" and op not in ("PreMulSum", "SumPostDiv"):  # PAT has neither
            wanted.add(f"{name} PAT SIMPLE")
    return {} if wanted <= set(functions_of(build)) else {"NCCL_PAT_ENABLE": "0"}


def run(words: list[str], build: Path, settings: Mapping[str, str], timeout_s: float) -> str:
    """Run a program on a build's libraries to its end and return its output; whatever is left of it is killed."""
    more = {"LD_LIBRARY_PATH": str(build), "NCCL_SOCKET_IFNAME": "lo", "NCCL_DEBUG": "WARN", **settings}
    with subprocess.Popen(
        words,
        env=environment(more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout_s)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, f"status {process.returncode}: {' '.join(words)}\n{output[-6000:]}"
    return output


@dataclass(frozen=True)
class Outcome:
    """What one job left behind."""

    results: list[str]  # a call, a rank and a hash of what it received
    dumps: list[Path]  # of each process; empty where none was asked for


@dataclass(frozen=True)
class Jobs:
    """A compiled calls.cc, and where its files go."""

    program: Path
    folder: Path
    functions: Path

    def run(
        self,
        session: Session,
        build: Path,
        settings: Mapping[str, str] = NOTHING,
        *,
        name: str,
        dump: bool = False,
        dry: bool = False,
        rules: bool = False,
    ) -> Outcome:
        """Run a session on a build. ``name`` tells this session's runs apart."""
        results, dumps = self.folder / f"{name}.results", self.folder / f"{name}.dump"
        for path in self.folder.glob(f"{name}.*"):
            path.unlink()
        words = [str(self.program), *session.arguments(), "--functions", str(self.functions), "--results", str(results)]
        words += ["--dump", str(dumps)] if dump else []
        words += ["--dry", "1"] if dry else []
        words += ["--rules", "1"] if rules else []
        run(words, build, {**session.settings, **settings, **left_out(build)}, timeout_s=1200)
        processes = range(session.processes)
        lines = [line for p in processes for line in Path(f"{results}.{p}").read_text().splitlines()]
        return Outcome(lines, [Path(f"{dumps}.{p}") for p in processes] if dump else [])
