# SPDX-License-Identifier: Apache-2.0
"""What ranks must have in common: init fails on all of them, soon, and says which rank and what."""

import json
import os
import random
import re
import sys
from pathlib import Path

import pytest
from launch import NEEDS_MPIRUN, mpirun

pytestmark = NEEDS_MPIRUN
BEGIN = str(Path(__file__).with_name("begin.py"))
PATCHES = Path(__file__).parents[2] / "nccl_patches"
COMPARED = re.findall(r'"(NCCL_\w+)"', (PATCHES / "src" / "lagom" / "agreed_variables.h").read_text())
# Those that have made ranks wait for each other for ever.
HANGS = ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_P2P_LEVEL", "NCCL_CUMEM_ENABLE")
# Values that NCCL takes; elsewhere 1 will do.
VALUES = {
    "NCCL_ALGO": "ring",
    "NCCL_PROTO": "LL",
    "NCCL_NET": "Socket",
    "NCCL_P2P_LEVEL": "LOC",
    "NCCL_MNNVL_ENABLE": "0",
    "NCCL_WORK_ARGS_BYTES": "4096",
    "NCCL_BUFFSIZE": "1048576",
    "NCCL_CHECK_MODE": "DEBUG_LOCAL",
    "NCCL_WIN_STRIDE": "4294967296",
}
RULE = "allreduce,-1,-1,ring,simple,1,-1,-1\n"


def begin(environments: list[dict[str, str]]) -> list[str]:
    """What each rank says. The whole job may take a minute; each rank's own init 10 s."""
    done = mpirun(len(environments), [sys.executable, BEGIN, json.dumps(environments)], timeout_s=60)
    lines = re.findall(r"^rank \d+ ([\d.]+) s: (.*)$", done.stdout, re.MULTILINE)
    assert len(lines) == len(environments), done.stdout + done.stderr
    assert all(float(seconds) < 10 for seconds, _ in lines), lines
    return [said for _, said in lines]


@pytest.fixture
def plan(tmp_path: Path) -> str:
    (tmp_path / "plan.csv").write_text(RULE)
    return str(tmp_path / "plan.csv")


def test_the_same_rules_in_other_words(plan: str, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text(f"# another file, the same rules\n{RULE.strip()},-1,-1,-1,-1,-1\n")
    said = begin([{"LAGOM_PLAN": plan, "LAGOM_REQUIRE": "1"}, {"LAGOM_PLAN": str(tmp_path / "other.csv")}])
    assert said == ["works", "works"]


def test_another_plan(plan: str, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text(RULE + RULE)
    said = begin([{"LAGOM_PLAN": plan}, {"LAGOM_PLAN": plan}, {"LAGOM_PLAN": str(tmp_path / "other.csv")}])
    assert len(set(said)) == 1
    assert re.fullmatch(r"ranks differ: LAGOM_PLAN of rank 2 has 2 rules, .*, of rank 0 1 rule, .*", said[0])


@pytest.mark.parametrize("without", [0, 1])
def test_no_plan_on_one_rank(plan: str, without: int) -> None:
    said = begin([{} if rank == without else {"LAGOM_PLAN": plan} for rank in range(2)])
    assert len(set(said)) == 1
    assert said[0].startswith("ranks differ: LAGOM_PLAN of rank 1")
    assert "no plan" in said[0]


def test_a_malformed_plan_on_one_rank(plan: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text(f"# one\n{RULE}allreduce,0,10,rong,ll,1,-1,-1\n")
    said = begin([{"LAGOM_PLAN": plan}, {"LAGOM_PLAN": str(bad)}, {"LAGOM_PLAN": plan}])
    assert len(set(said)) == 1
    assert said[0].startswith(f"rank 1: LAGOM_PLAN cannot be used: {bad}:3:16: unknown algorithm 'rong'")


def test_an_unreadable_plan(plan: str, tmp_path: Path) -> None:
    none = tmp_path / "none.csv"
    said = begin([{"LAGOM_PLAN": str(none)}, {"LAGOM_PLAN": plan}])
    assert set(said) == {f"rank 0: LAGOM_PLAN cannot be used: {none}: cannot be opened: No such file or directory"}


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [("NCCL_ALGO", "ring", "tree"), ("NCCL_BUFFSIZE", "4194304", "2097152"), ("NCCL_MAX_NCHANNELS", "4", None)],
)
def test_the_environment_that_decides_how_collectives_run(name: str, first: str, second: str | None) -> None:
    said = begin([{name: first}, {} if second is None else {name: second}])
    assert set(said) == {f"ranks differ: {name} of rank 1 is '{second or ''}', of rank 0 '{first}'"}


def differ(name: str) -> None:
    value = VALUES.get(name, "1")
    said = begin([{}, {}, {name: value}])
    assert set(said) == {f"ranks differ: {name} of rank 2 is '{value}', of rank 0 ''"}


def test_one_rank_reaches_the_others_by_another_way() -> None:
    """One of the variables, drawn at random; LAGOM_TEST_SEED draws it again."""
    seed = int(os.environ.get("LAGOM_TEST_SEED", random.randrange(1 << 30)))
    print("seed", seed)
    differ(HANGS[seed % len(HANGS)])


@pytest.mark.full
@pytest.mark.parametrize("name", COMPARED)
def test_every_variable_that_is_compared(name: str) -> None:
    differ(name)


def test_a_plan_is_required() -> None:
    assert set(begin([{}, {"LAGOM_REQUIRE": "1"}])) == {"LAGOM_REQUIRE is set on rank 1, but LAGOM_PLAN names no plan"}


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("LAGOM_COUNTERS_FILE", "/nowhere/ops-%r.csv", "LAGOM_COUNTERS_FILE: /nowhere/ops-1.csv cannot be written"),
        ("LAGOM_COUNTERS", "2", "LAGOM_COUNTERS is 2: allowed are 0 and 1"),
        ("LAGOM_REQUIRE", "yes", "LAGOM_REQUIRE is yes: allowed are 0 and 1"),
        ("LAGOM_MAX_CHANNELS", "32", "LAGOM_MAX_CHANNELS is 32: this version connects no more"),
        ("LAGOM_TEST_FALSIFY", "nothing", "LAGOM_TEST_FALSIFY is nothing: allowed are channels, threads, chunk"),
    ],
)
def test_a_variable_that_cannot_be_obeyed_on_one_rank(variable: str, value: str, words: str) -> None:
    said = begin([{}, {variable: value}])
    assert len(set(said)) == 1
    assert said[0].startswith(f"rank 1: {words}")
