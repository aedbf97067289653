# SPDX-License-Identifier: Apache-2.0
"""Compiles small C++ programs against the simulator and runs them."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from compiler import gxx

HOSTCUDA = Path(__file__).parents[3] / "hostcuda"
HERE = Path(__file__).parent
FLAGS = ["-std=gnu++20", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{HOSTCUDA}", f"-I{HERE}"]

Program = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The simulator's objects, with a stand-in for the memory windows of the runtime."""
    folder = tmp_path_factory.mktemp("simt")
    sources = [*sorted((HOSTCUDA / "simt").glob("*.cc")), HOSTCUDA / "simt" / "switch.S", HERE / "windows.cc"]
    objects = []
    for source in sources:
        target = folder / f"{source.name}.o"
        subprocess.run([*gxx(), *FLAGS, "-c", str(source), "-o", str(target)], check=True)
        objects.append(str(target))
    return objects


@pytest.fixture(scope="session")
def build(simulator: list[str], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Compiles C++ text into a program; a compile error fails the test with the compiler's words."""

    def build_text(name: str, text: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        source = folder / f"{name}.cc"
        source.write_text(text)
        target = folder / name
        subprocess.run([*gxx(), *FLAGS, "-c", str(source), "-o", f"{target}.o"], check=True)
        subprocess.run([*gxx(), f"{target}.o", *simulator, "-o", str(target), "-lpthread"], check=True)
        return target

    return build_text


@pytest.fixture(scope="session")
def compile_error() -> Callable[[str], str]:
    """What the compiler says about text that must not compile."""

    def errors(text: str) -> str:
        result = subprocess.run(
            ["g++", *FLAGS, "-x", "c++", "-fsyntax-only", "-"], input=text, capture_output=True, text=True, check=False
        )
        assert result.returncode != 0, "it compiles"
        return result.stderr

    return errors


@pytest.fixture(scope="session")
def run() -> Program:
    def run_program(program: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        result = subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False, timeout=60)
        if check:
            assert result.returncode == 0, result.stdout + result.stderr
        return result

    return run_program
