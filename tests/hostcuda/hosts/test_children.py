# SPDX-License-Identifier: Apache-2.0
"""What the patches promise of communicators made from others: the plan's rules again, and ranks compared afresh."""

import re
from pathlib import Path

import pytest
from hostcuda.hosts.conftest import Start

MAKERS = ("split", "shrink", "grow")
RANKS = 3


@pytest.fixture
def plan(tmp_path: Path) -> str:
    path = tmp_path / "plan.csv"
    path.write_text("allreduce,-1,-1,-1,-1,2,-1,-1\n")
    return str(path)


@pytest.mark.parametrize("maker", MAKERS)
def test_children_start_from_the_plan(start: Start, plan: str, maker: str) -> None:
    start("children", f"{maker}_inherits_nothing", RANKS, env={"LAGOM_PLAN": plan}).succeed()


# What the changing rank is called in the child: shrink leaves rank 0 out.
CHANGER = {"split": (1, 1), "shrink": (2, 1), "grow": (2, 2)}
CHANGES = {
    "NCCL_BUFFSIZE=1048576": "NCCL_BUFFSIZE of rank {changer} is '1048576', of rank 0 ''",
    "NCCL_PROTO=LL": "NCCL_PROTO of rank {changer} is 'LL', of rank 0 ''",
    "LAGOM_PLAN=": "LAGOM_PLAN of rank {changer} has no plan, of rank 0 1 rule, digest",
}


def sampled() -> list[object]:
    """Every maker and every change once; all pairs in the full sampling."""
    return [
        pytest.param(maker, change, id=f"{maker}-{change.partition('=')[0]}", marks=() if m == c else pytest.mark.full)
        for m, maker in enumerate(MAKERS)
        for c, change in enumerate(CHANGES)
    ]


@pytest.mark.parametrize(("maker", "change"), sampled())
def test_ranks_of_a_child_are_compared(start: Start, plan: str, maker: str, change: str) -> None:
    changer, in_child = CHANGER[maker]
    env = {"LAGOM_PLAN": plan, "CHANGER": str(changer), "CHANGED": change}
    said = start("children", f"{maker}_compares", RANKS, env=env).succeed()
    words = re.findall(r"^rank \d+: (ranks differ: .*)$", said, re.MULTILINE)
    assert len(words) == RANKS - (maker == "shrink"), said
    assert len(set(words)) == 1
    assert CHANGES[change].format(changer=in_child) in words[0]


def test_a_communicator_in_the_making_takes_no_rules(start: Start) -> None:
    start("children", "in_progress", 2).succeed()


def test_half_an_operation_is_no_record(start: Start) -> None:
    job = start("children", "aborted_operation", 3, env={"NCCL_ALGO": "ring", "NCCL_PROTO": "Simple"})
    job.succeed()
    told = [line for line in job.lines() if "issued" in line]
    assert told[0] == "rank 0: issued 2, read 2, lost 0, pending 0"
    assert {line.partition(": ")[2] for line in told[1:]} == {"issued 3, read 2, lost 1, pending 0"}
