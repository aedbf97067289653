# SPDX-License-Identifier: Apache-2.0
"""The simulator under AddressSanitizer and UndefinedBehaviorSanitizer: fibers switch, end, fault and overflow, and
their stacks are used again, without a report; what is wrong in the code that they run is reported."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from compiler import gxx
from hostcuda.simt.conftest import FLAGS, HERE, HOSTCUDA
from hostcuda.simt.test_threads import CASES, FAILURES, PROLOGUE, REFUSED, program

SANITIZE = ["-fsanitize=address,undefined", "-fno-omit-frame-pointer", "-g1", "-O1"]
# The device code of this one divides by zero, which is a report of its own; of NCCL's device code none is instrumented.
ITS_OWN = {"division_by_zero"}
WRONG = (
    PROLOGUE
    + """
int main() {
  char* eight = new char[8];
  launch([=] { __syncthreads(); if (tid() == 40) *const_cast<volatile char*>(eight + 8) = 1; }, 1, 64);
}
"""
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs threads and wrong."""
    folder = tmp_path_factory.mktemp("sanitized")
    (folder / "threads.cc").write_text(program())
    (folder / "wrong.cc").write_text(WRONG)
    simulator = [*sorted((HOSTCUDA / "simt").glob("*.cc")), HOSTCUDA / "simt" / "switch.S", HERE / "windows.cc"]

    def compile_one(source: Path) -> str:
        target = f"{folder / source.name}.o"
        subprocess.run([*gxx(), *FLAGS, *SANITIZE, "-c", str(source), "-o", target], check=True)
        return target

    with ThreadPoolExecutor(2) as pool:
        threads, wrong, *others = pool.map(compile_one, [folder / "threads.cc", folder / "wrong.cc", *simulator])
    for name, own in (("threads", threads), ("wrong", wrong)):
        subprocess.run(["g++", *SANITIZE, own, *others, "-o", str(folder / name), "-lpthread"], check=True)
    return folder


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
    return subprocess.run(
        [str(program), *arguments], env=settings, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize("name", [name for name in (*CASES, *FAILURES, *REFUSED) if name not in ITS_OWN])
def test_nothing_is_reported(built: Path, name: str) -> None:
    done = run(built / "threads", name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, done.stderr
    expected = {**FAILURES, **REFUSED}.get(name)
    assert expected is None or expected[1] in done.stdout


def test_what_is_wrong_is_reported(built: Path) -> None:
    done = run(built / "wrong")
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr and "wrong.cc" in done.stderr
    assert "0 bytes after 8-byte region" in done.stderr or "0 bytes to the right of 8-byte region" in done.stderr
