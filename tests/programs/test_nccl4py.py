# SPDX-License-Identifier: Apache-2.0
"""nccl4py from PyPI, NCCL's own Python package, under mpi4py: on a build that LD_LIBRARY_PATH names, and preloaded."""

import importlib.util
import re
import sys

import pytest
from launch import LAGOM, NEEDS_MPIRUN, mpirun
from programs.conftest import HERE, Published

pytestmark = [
    NEEDS_MPIRUN,
    pytest.mark.skipif(importlib.util.find_spec("nccl") is None, reason="no nccl4py: scripts/venv test installs it"),
]
PROGRAM = [sys.executable, "-P", str(HERE / "nccl4py_ranks.py")]


def all_right(output: str, ranks: int) -> bool:
    return sorted(re.findall(r"rank \d: \d+ right", output)) == [f"rank {rank}: 9 right" for rank in range(ranks)]


def test_by_library_path(published: Published) -> None:
    done = mpirun(3, PROGRAM, published.environment())
    assert done.returncode == 0 and all_right(done.stdout, 3), done.stdout + done.stderr[-4000:]


@pytest.mark.full
def test_preloaded() -> None:
    done = mpirun(2, [*LAGOM, "run", "--", *PROGRAM])
    assert done.returncode == 0 and all_right(done.stdout, 2), done.stdout + done.stderr[-4000:]
