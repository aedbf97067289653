# SPDX-License-Identifier: Apache-2.0
"""A stock rank among patched ones. What both launch without a rule is compared in tests/nccl_dump."""

import json
import re
import sys
from pathlib import Path

import pytest
from builds import host_build
from launch import NEEDS_MPIRUN, mpirun

pytestmark = NEEDS_MPIRUN
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def stock() -> str:
    return str(host_build("AllReduce Sum f32 RING *", stock=True))


@pytest.mark.parametrize("stock_rank", [0, 1])
def test_a_stock_rank_among_patched_ones(stock: str, stock_rank: int) -> None:
    """Both kinds fail in NCCL's own check of versions."""
    environments = [{"LAGOM_NCCL": stock} if rank == stock_rank else {} for rank in range(2)]
    done = mpirun(2, [sys.executable, str(HERE / "begin.py"), json.dumps(environments)], timeout_s=60)
    said = re.findall(r"^rank \d+ ([\d.]+) s: (.*)$", done.stdout, re.MULTILINE)
    assert len(said) == 2, done.stdout + done.stderr
    for _, text in said:
        assert text.startswith("Mismatched NCCL version"), text
