# SPDX-License-Identifier: Apache-2.0
"""NCCL on each described machine: it starts, joins four ranks as the machine is joined, and data are right. One machine
of those that the default build is for, drawn at random (LAGOM_TEST_SEED draws it again); with --full all of them."""

import os
import random
import re
import sys
from pathlib import Path

import pytest
from builds import host_build
from launch import NEEDS_MPIRUN, mpirun

pytestmark = NEEDS_MPIRUN
PROGRAM = str(Path(__file__).with_name("ways.py"))
NEEDED = "AllReduce Sum f32 (RING|TREE) *|AllGather RING *|SendRecv"
# Architecture of the build; what NCCL calls the way from the first GPU to the second, and to the third.
MACHINES = {
    "a40x8": (800, "NVL", "PXB"),
    "a100x8": (800, "NVL", "NVL"),
    "h100x8": (900, "NVL", "NVL"),
    "h200x8": (900, "NVL", "NVL"),
    "b200x8": (1000, "NVL", "NVL"),
}


def check(machine: str) -> None:
    arch, near, far = MACHINES[machine]
    more = {
        "LAGOM_NCCL": str(host_build(NEEDED, arch=arch)),
        "HOSTCUDA_MACHINE": machine,
        # Its functions are another build's.
        "NCCL_NVLS_ENABLE": "0",
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,GRAPH,P2P,SHM",
    }
    done = mpirun(4, [sys.executable, PROGRAM, "ranks"], more, 240)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.count("checked 9 calls") == 4
    # NCCL's own picture of the machine: a line for each GPU with its paths to all others.
    paths = re.search(r"GPU/0-\w+ :(GPU/.*)", done.stdout)
    assert paths, done.stdout[-3000:]
    kinds = re.findall(r"GPU/0-\w+ \(\d+/[\d.]+/(\w+)\)", paths[1])
    assert kinds[:3] == ["LOC", near, far], paths[1]


def test_a_machine(capsys: pytest.CaptureFixture[str]) -> None:
    names = [name for name, (arch, _, _) in MACHINES.items() if arch == 800]
    name = names[int(os.environ.get("LAGOM_TEST_SEED", random.randrange(1 << 30))) % len(names)]
    with capsys.disabled():
        print(f"\n{name}")
    check(name)


@pytest.mark.full
@pytest.mark.parametrize("name", MACHINES)
def test_every_machine(name: str) -> None:
    check(name)
