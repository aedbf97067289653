# SPDX-License-Identifier: Apache-2.0
"""Which GPUs a machine has: none, or (hostcuda answers for them) some."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lagom.nccl as nccl

ROOT = Path(__file__).parents[2]
NO_DRIVER = pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")


def asked(**environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "lagom.build.gpus"]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60)


@NO_DRIVER
def test_a_machine_without_a_driver() -> None:
    done = asked(LD_LIBRARY_PATH="")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "no GPU on this machine: there is no CUDA driver (libcuda.so.1)\n"


@pytest.mark.parametrize(("machine", "arch"), [("a40x8", 860), ("h100x8", 900)])
def test_a_machine_with_gpus(hostcuda: nccl.Library, machine: str, arch: int) -> None:
    done = asked(LD_LIBRARY_PATH=str(Path(hostcuda.cuda_path).parent), HOSTCUDA_MACHINE=machine)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(arch)] * 8


@NO_DRIVER
def test_gpu_check_says_that_there_is_nothing_to_check(tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "gpu-check", str(tmp_path / "out")],
        env={**os.environ, "LD_LIBRARY_PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1 and not (tmp_path / "out").exists()
    assert done.stderr.splitlines() == [
        "no GPU on this machine: there is no CUDA driver (libcuda.so.1)",
        "gpu-check: nothing was checked",
    ]
