# SPDX-License-Identifier: Apache-2.0
"""The real NCCL on two ranks that wait for each other outside of NCCL: nobody hangs, and modelled times are the same on
an idle machine, a busy one and with ranks that sleep elsewhere."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from builds import host_build
from launch import NEEDS_MPIRUN, NOTHING, mpirun, run

PROGRAM = Path(__file__).parent / "two_ranks.py"
THREADS = Path(__file__).parent / "two_threads.py"


def times(seed: int, environment: Mapping[str, str] = NOTHING) -> list[str]:
    done = mpirun(2, [sys.executable, str(PROGRAM), str(seed)], environment, timeout_s=240)
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


@NEEDS_MPIRUN
@pytest.mark.usefixtures("hostcuda")
def test_two_ranks_that_hold_each_other_up() -> None:
    first = times(0)
    assert len(first) > 60
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        assert times(1) == first
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    assert times(2) == first


@NEEDS_MPIRUN
def test_two_ranks_through_multicast_addresses() -> None:
    """NVLink SHARP: the times of counters and data travel to all members."""
    build = host_build("AllReduce Sum f32 NVLS SIMPLE|AllGather NVLS SIMPLE", arch=900)
    environment = {"HOSTCUDA_MACHINE": "h100x8", "NCCL_ALGO": "NVLS", "LAGOM_NCCL": str(build)}
    first = times(0, environment)
    assert len(first) > 60
    assert times(1, environment) == first


@pytest.mark.usefixtures("hostcuda")
def test_two_ranks_in_one_process() -> None:
    """A thread and a device each: which of them gets a lock first must not show."""
    outputs = []
    for _ in range(3):
        done = run([sys.executable, str(THREADS)])
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert len(outputs[0].splitlines()) == 20
    assert len(set(outputs)) == 1
