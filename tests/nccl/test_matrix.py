# SPDX-License-Identifier: Apache-2.0
"""The five collectives against NumPy, see matrix.py. A sample normally, all cases with --full."""

import os
import random
import re
import sys
from pathlib import Path

import pytest
from launch import NEEDS_MPIRUN, mpirun

pytestmark = NEEDS_MPIRUN
MATRIX = [sys.executable, str(Path(__file__).with_name("matrix.py"))]
# LL128 exists on machines whose GPUs are all joined by NVLink only.
NVLINK = {"HOSTCUDA_MACHINE": "a100x8"}


def run(ranks: int, words: list[str], timeout_s: float) -> str:
    done = mpirun(ranks, [*MATRIX, *words], NVLINK, timeout_s)
    print(done.stdout[-4000:])
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    counted = re.search(r"^(\d+) of (\d+) cases ran on (\d+) ranks.*; 0 failures$", done.stdout, re.MULTILINE)
    assert counted, done.stdout
    return counted[0]


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_sample(ranks: int) -> None:
    seed = int(os.environ.get("LAGOM_TEST_SEED", random.randrange(1 << 30)))
    print(f"seed {seed}; LAGOM_TEST_SEED={seed} draws the same cases")
    run(ranks, ["--sample", "150", "--seed", str(seed)], timeout_s=300)


@pytest.mark.full
@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.timeout(7200)
def test_all(ranks: int) -> None:
    said = run(ranks, [], timeout_s=7000)
    assert said.startswith("2520 of 2520 cases")
