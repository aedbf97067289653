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
# Algorithms x 3 protocols x 5 types x operations x 6 sizes x in and out of place.
CASES = {
    "all_reduce": 2 * 3 * 5 * 3 * 6 * 2,
    "all_gather": 3 * 5 * 6 * 2,
    "reduce_scatter": 3 * 5 * 3 * 6 * 2,
    "broadcast": 3 * 5 * 6 * 2,
    "reduce": 3 * 5 * 3 * 6 * 2,
}


def run(capsys: pytest.CaptureFixture[str], ranks: int, words: list[str], timeout_s: float) -> str:
    done = mpirun(ranks, [*MATRIX, *words], NVLINK, timeout_s)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    counted = re.search(r"^(\d+) of (\d+) cases ran on (\d+) ranks.*; 0 failures$", done.stdout, re.MULTILINE)
    assert counted, done.stdout
    with capsys.disabled():
        print(f"\n{counted[0]}")
    return counted[0]


@pytest.mark.usefixtures("hostcuda")
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_sample(capsys: pytest.CaptureFixture[str], ranks: int) -> None:
    """LAGOM_TEST_SEED draws the cases of an earlier run again."""
    seed = int(os.environ.get("LAGOM_TEST_SEED", random.randrange(1 << 30)))
    run(capsys, ranks, ["--sample", "150", "--seed", str(seed)], timeout_s=300)


@pytest.mark.full
@pytest.mark.usefixtures("hostcuda")
@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize(("collective", "cases"), CASES.items())
@pytest.mark.timeout(4000)
def test_all(capsys: pytest.CaptureFixture[str], ranks: int, collective: str, cases: int) -> None:
    said = run(capsys, ranks, ["--collective", collective], timeout_s=3900)
    assert said.startswith(f"{cases} of {cases} cases")
