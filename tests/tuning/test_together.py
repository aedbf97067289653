# SPDX-License-Identifier: Apache-2.0
"""Ranks fail together, and a proof run that cannot work ends on all of them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lagom.device import DeviceError
from lagom.tuning import Disagreement, RankFailed
from lagom.tuning.agreement import compare, together, wait_politely
from lagom.tuning.preloaded import Program, run_preloaded

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

pytestmark = pytest.mark.mpi(min_size=2)


@pytest.fixture
def world() -> Intracomm:
    """COMM_WORLD; imported here, because importing it anywhere starts MPI."""
    from mpi4py import MPI

    return MPI.COMM_WORLD


@pytest.fixture
def shared(world: Intracomm, tmp_path: Path) -> Path:
    """Rank 0's temporary folder."""
    return Path(world.bcast(str(tmp_path)))


def test_results_are_ones_own_or_rank_zeros(world: Intracomm) -> None:
    rank = world.Get_rank()
    assert together(world, lambda: rank) == rank
    assert together(world, lambda: rank, on=0) == 0


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failure_anywhere_is_a_failure_everywhere(world: Intracomm, failing: int) -> None:
    def step() -> None:
        if world.Get_rank() == failing:
            raise ValueError("no luck")

    with pytest.raises(RankFailed, match="no luck") as caught:
        together(world, step)
    assert caught.value.rank == failing and isinstance(caught.value.error, ValueError)


def test_errors_that_cannot_travel_are_told_in_words(world: Intracomm) -> None:
    class Odd(Exception):  # noqa: N818 - local, so it cannot be pickled
        pass

    def step() -> None:
        raise Odd("strange")

    with pytest.raises(RankFailed, match="Odd: strange"):
        together(world, step)


def test_disagreement_names_rank_and_field(world: Intracomm) -> None:
    compare(world, {"budget": 3})
    with pytest.raises(Disagreement, match="ranks differ in budget; rank 0: 3, rank 1: 4"):
        compare(world, {"budget": 3 + (world.Get_rank() == 1)})
    with pytest.raises(Disagreement, match="ranks differ in NCCL_ALGO; rank 0: not set, rank 1: ring"):
        compare(world, {"NCCL_ALGO": "ring"} if world.Get_rank() == 1 else {})


def test_waiting_does_not_burn_a_core(world: Intracomm) -> None:
    if world.Get_rank() == 0:
        time.sleep(1.0)
    before = time.process_time()
    assert wait_politely(world, world.Get_rank()) == world.Get_size() - 1
    assert time.process_time() - before < 0.3


def test_proof_run_without_a_library(world: Intracomm, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith("LAGOM_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LAGOM_CACHE", str(shared / "empty"))
    plan = shared / "plan.csv"
    if world.Get_rank() == 0:
        plan.write_text("# nothing\n")
    world.barrier()
    with pytest.raises(DeviceError, match=r"preloaded run of rank \d ended with 1: .*no NCCL library found"):
        run_preloaded(world, Program("phi2-fsdp-a40", world.Get_rank(), plan, shared))


def test_proof_run_that_does_not_end(world: Intracomm, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = shared / "slow"
    if world.Get_rank() == 0:
        slow.write_text("#!/bin/sh\nexec sleep 86400\n")
        slow.chmod(0o755)
    world.barrier()
    monkeypatch.setattr("sys.executable", str(slow))
    with pytest.raises(DeviceError, match="did not end within 1 s"):
        run_preloaded(world, Program("phi2-fsdp-a40", 0, shared / "plan.csv", shared, limit_s=1.0))
