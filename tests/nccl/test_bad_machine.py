# SPDX-License-Identifier: Apache-2.0
"""A machine that cannot be: the job ends soon, with an exit code and a line that says why."""

from pathlib import Path

import pytest
from launch import LAGOM, NEEDS_MPIRUN, mpirun

import lagom.nccl as nccl

pytestmark = NEEDS_MPIRUN
NAMES = "a100x8, a40x8, b200x8, h100x8, h200x8"
BENCH = [*LAGOM, "bench", "all_reduce", "-b", "1K", "-e", "1K"]


@pytest.fixture
def topology(tmp_path: Path) -> str:
    (tmp_path / "machine.xml").write_text("<system>\n<cpu>\n")
    return str(tmp_path / "machine.xml")


def lines_of(ranks: int, more: dict[str, str]) -> list[str]:
    done = mpirun(ranks, BENCH, more, timeout_s=120)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    return sorted({line for line in done.stderr.splitlines() if line.startswith(("hostcuda:", "lagom"))})


@pytest.mark.parametrize(
    ("machine", "fault"),
    [
        ("b300x8", f"HOSTCUDA_MACHINE='b300x8': it is {NAMES}, or a path to a description, with a slash"),
        ("/nowhere/machine.ini", "/nowhere/machine.ini: cannot be read: No such file or directory"),
    ],
)
def test_no_such_machine(hostcuda: nccl.Library, machine: str, fault: str) -> None:
    said = lines_of(2, {"HOSTCUDA_MACHINE": machine})
    assert said[0] == f"hostcuda: no machine to simulate: {fault}"


def test_a_malformed_topology(hostcuda: nccl.Library, topology: str) -> None:
    said = lines_of(2, {"NCCL_TOPO_FILE": topology})
    assert said[0] == f"hostcuda: no machine to simulate: {topology}:3: <cpu> is not closed"


def test_no_devices(hostcuda: nccl.Library) -> None:
    said = lines_of(2, {"CUDA_VISIBLE_DEVICES": ""})
    assert "lagom: cudaGetDeviceCount failed: no device (cudaErrorNoDevice, code 100) (on rank 0)" in said


def test_more_ranks_than_devices(hostcuda: nccl.Library) -> None:
    said = lines_of(3, {"CUDA_VISIBLE_DEVICES": "0,1"})
    assert "lagom: this host has 2 devices, too few for its rank 2 (one device a rank) (on rank 2)" in said


def test_code_for_another_gpu(hostcuda: nccl.Library) -> None:
    """The default build is for 8.x."""
    said = lines_of(2, {"HOSTCUDA_MACHINE": "h100x8"})
    assert said[0].startswith("hostcuda: kernels compiled for compute capability 8.0 cannot run on NVIDIA H100")
    assert said[0].endswith("(9.0): a build for 9.x is needed")
