# SPDX-License-Identifier: Apache-2.0
"""Writing a ninja file, and running ninja on it."""

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from . import tools, trees
from .errors import BuildError


def _escape(path: str) -> str:
    return path.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


class NinjaFile:
    """Rules and edges of one build, in the order in which they are added. Paths are relative to the work folder."""

    def __init__(self) -> None:
        self._lines = ["# written by lagom.build", "ninja_required_version = 1.5"]

    def rule(self, name: str, command: str, description: str, *, depfile: bool = False) -> None:
        self._lines += [f"rule {name}", f"  command = {command}", f"  description = {description}"]
        if depfile:
            self._lines += ["  depfile = $out.d", "  deps = gcc"]

    def edge(
        self, output: str, rule: str, inputs: Iterable[str], *, implicit: Iterable[str] = (), **variables: str
    ) -> str:
        """One step; returns `output` so that it can be collected."""
        line = f"build {_escape(output)}: {rule} {' '.join(map(_escape, inputs))}"
        extra = " ".join(map(_escape, implicit))
        self._lines.append(line + (f" | {extra}" if extra else ""))
        self._lines += [f"  {name} = {value}" for name, value in variables.items()]
        return output

    def alias(self, name: str, inputs: Iterable[str]) -> None:
        self._lines.append(f"build {name}: phony {' '.join(map(_escape, inputs))}")

    def write(self, path: Path) -> None:
        trees.write_if_changed(path, ("\n".join(self._lines) + "\n").encode())


def run(folder: Path, file: str, targets: Sequence[str], jobs: int, keep_going: bool = False) -> None:
    """Build `targets`. Can be interrupted: what was finished is not done again. BuildError where a step fails."""
    command = [tools.ninja(), "-C", str(folder), "-f", file, "-j", str(jobs)]
    if keep_going:
        command += ["-k", "0"]
    done = subprocess.run([*command, *targets])
    if done.returncode:
        raise BuildError(f"the build stopped (ninja status {done.returncode}); the failing step is printed above")
