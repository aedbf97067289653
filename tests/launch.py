# SPDX-License-Identifier: Apache-2.0
"""Starting MPI programs from tests, never without a time limit."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pytest

NEEDS_MPIRUN = pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun")
LAGOM = [sys.executable, "-P", "-m", "lagom"]
_OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "self,sm,tcp",
}
NOTHING: Mapping[str, str] = MappingProxyType({})
# What an enclosing MPI job or a preload would hand down.
_DROPPED = ("OMPI_COMM", "PMIX_", "PRTE_", "LD_PRELOAD", "NCCL_", "LAGOM_PLAN", "LAGOM_COUNTERS", "LAGOM_REQUIRE")


def environment(more: Mapping[str, str] = NOTHING) -> dict[str, str]:
    """This process's environment without MPI, preload and NCCL settings, with what Open MPI needs, and ``more``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
    return {**kept, **_OPEN_MPI, **more}


def run(
    words: Sequence[str],
    more: Mapping[str, str] = NOTHING,
    timeout_s: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; TimeoutExpired, after killing it, if it takes longer."""
    return subprocess.run(
        list(words), env=environment(more), capture_output=True, text=True, timeout=timeout_s, check=False
    )


def mpirun(
    ranks: int,
    words: Sequence[str],
    more: Mapping[str, str] = NOTHING,
    timeout_s: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run ``words`` on ``ranks`` ranks."""
    return run(["mpirun", "-n", str(ranks), *words], more, timeout_s)


def own_lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What lagom itself said on standard error; the launcher has its own opinion on failing ranks."""
    return [line for line in done.stderr.splitlines() if line.startswith("lagom")]
