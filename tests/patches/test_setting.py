# SPDX-License-Identifier: Apache-2.0
"""Rules change on all ranks or on none, see setting.py. LAGOM_TEST_SEED draws an earlier run again."""

import os
import random
import sys
from pathlib import Path

import pytest
from launch import NEEDS_MPIRUN, NOTHING, mpirun

pytestmark = NEEDS_MPIRUN
SETTING = [sys.executable, "-P", str(Path(__file__).with_name("setting.py"))]
SHORT = {"LAGOM_TIMEOUT_S": "2"}


def run(capsys: pytest.CaptureFixture[str], ranks: int, words: list[str], timeout_s: float = 120) -> None:
    seed = os.environ.get("LAGOM_TEST_SEED", str(random.randrange(1 << 30)))
    with capsys.disabled():
        print(f"\nsetting rules: {' '.join(words)} --seed {seed}")
    done = mpirun(
        ranks, [*SETTING, *words, "--seed", seed], SHORT if words[0] in ("away", "late") else NOTHING, timeout_s
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("right") == ranks


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_every_difference_is_heard_by_all(capsys: pytest.CaptureFixture[str], ranks: int) -> None:
    run(capsys, ranks, ["disagree", "--ways", "20"])


def test_each_call_has_the_rules_of_its_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, 4, ["traffic", "--changes", "10"])


@pytest.mark.parametrize("what", ["away", "late"])
def test_a_rank_that_stays_away(capsys: pytest.CaptureFixture[str], what: str) -> None:
    run(capsys, 3, [what])


def test_communicators_that_do_not_block(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, 2, ["nonblocking"])


def test_two_devices_in_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, 1, ["devices"])


@pytest.mark.full
@pytest.mark.parametrize("ranks", [2, 4])
def test_200_differences(capsys: pytest.CaptureFixture[str], ranks: int) -> None:
    run(capsys, ranks, ["disagree", "--ways", "200"], 600)


@pytest.mark.full
def test_1000_changes_during_traffic(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, 4, ["traffic", "--changes", "200"], 600)
