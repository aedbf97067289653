# SPDX-License-Identifier: Apache-2.0
"""The patched library beside a stock one. Building that takes minutes: LAGOM_TEST_STOCK names one that is there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from launch import NEEDS_MPIRUN, mpirun

pytestmark = [NEEDS_MPIRUN, pytest.mark.full, pytest.mark.timeout(2400)]
HERE = Path(__file__).parent
FUNCTIONS = "AllGather RING *|AllReduce Sum f32 (RING|TREE) *|Broadcast RING *"


@pytest.fixture(scope="module")
def stock() -> str:
    named = os.environ.get("LAGOM_TEST_STOCK")
    if named:
        return named
    built = subprocess.run(
        [sys.executable, "-P", "-m", "lagom", "build", "--stock", "--functions", FUNCTIONS],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    said = Path(built.stdout.split()[-1])
    return str(said if said.is_file() else said / "libnccl.so.2")


@pytest.mark.parametrize("stock_rank", [0, 1])
def test_a_stock_rank_among_patched_ones(stock: str, stock_rank: int) -> None:
    """Both kinds fail, at once, in NCCL's own check of versions."""
    environments = [{"LAGOM_NCCL": stock} if rank == stock_rank else {} for rank in range(2)]
    done = mpirun(2, [sys.executable, str(HERE / "begin.py"), json.dumps(environments)], timeout_s=60)
    said = re.findall(r"^rank \d+ ([\d.]+) s: (.*)$", done.stdout, re.MULTILINE)
    assert len(said) == 2, done.stdout + done.stderr
    for seconds, text in said:
        assert float(seconds) < 10
        assert text.startswith("Mismatched NCCL version"), text


@pytest.mark.parametrize("more", [{}, {"LAGOM_COUNTERS": "1"}], ids=["plain", "counted"])
def test_without_a_rule_everything_is_as_in_stock(stock: str, more: dict[str, str]) -> None:
    """Algorithm, protocol and channels of the same calls, alone and in groups, as NCCL itself logs them."""

    def choices(library: dict[str, str]) -> list[str]:
        settings = {
            "HOSTCUDA_MACHINE": "a100x8",
            "NCCL_DEBUG": "INFO",
            "NCCL_DEBUG_SUBSYS": "TUNING",
            **more,
            **library,
        }
        done = mpirun(2, [sys.executable, str(HERE / "untuned.py"), "3", "200"], settings, timeout_s=600)
        assert done.returncode == 0, done.stderr[-4000:]
        return re.findall(r"\d+ Bytes -> Algo .*", done.stdout)

    seen = choices({})
    assert len(seen) > 200
    assert seen == choices({"LAGOM_NCCL": stock})
