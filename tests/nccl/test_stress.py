# SPDX-License-Identifier: Apache-2.0
"""Random use of all of NCCL on H100s, see stress.py: a few rounds normally, ten minutes with --full.

LAGOM_TEST_SEED draws the rounds of an earlier run again.
"""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from builds import hopper
from launch import NEEDS_MPIRUN, NOTHING, mpirun

pytestmark = [NEEDS_MPIRUN, pytest.mark.usefixtures("hostcuda")]
STRESS = [sys.executable, "-P", str(Path(__file__).with_name("stress.py"))]
IPC = {"NCCL_CUMEM_ENABLE": "0"}
SHM = {"NCCL_P2P_DISABLE": "1"}
NET = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}


def run(
    capsys: pytest.CaptureFixture[str], ranks: int, words: list[str], more: Mapping[str, str], timeout_s: float = 300
) -> str:
    if "LAGOM_TEST_SEED" in os.environ:
        words = [*words, "--seed", os.environ["LAGOM_TEST_SEED"]]
    # So that a hang is told by its seed and round before the time is up.
    done = mpirun(ranks, [*STRESS, *words, "--hang", str(timeout_s / 2)], {**hopper(), **more}, timeout_s)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    counted = re.search(r"^seed \d+: rounds \d+ to \d+, (\d+) calls on .*; 0 failures$", done.stdout, re.MULTILINE)
    assert counted and int(counted[1]) > 0, done.stdout
    with capsys.disabled():
        print(f"\n{counted[0]}")
    return done.stdout


@pytest.mark.parametrize(
    ("ranks", "words", "more"),
    [(3, [], NOTHING), (2, [], SHM), (4, ["--layout", "pairs"], IPC)],
    ids=["processes", "shared memory", "two hosts"],
)
def test_a_few_rounds(
    capsys: pytest.CaptureFixture[str], ranks: int, words: list[str], more: Mapping[str, str]
) -> None:
    run(capsys, ranks, ["--rounds", "8", *words], more)


@pytest.mark.full
@pytest.mark.parametrize(
    ("ranks", "words", "more"),
    [
        (4, [], NOTHING),
        (2, ["--devices", "2"], NOTHING),
        (3, [], IPC),
        (3, [], SHM),
        (3, [], NET),
        (4, ["--layout", "pairs"], NOTHING),
        (4, ["--layout", "pairs"], IPC),
    ],
    ids=["P2P", "threads", "IPC", "SHM", "NET", "two hosts", "two hosts, IPC"],
)
@pytest.mark.timeout(1000)
def test_ten_minutes(capsys: pytest.CaptureFixture[str], ranks: int, words: list[str], more: Mapping[str, str]) -> None:
    run(capsys, ranks, ["--seconds", "100", *words], more, timeout_s=900)


def test_wrong_data_is_told(tmp_path: Path) -> None:
    """One wrong element on one rank, and the run fails with what draws it again."""
    program = tmp_path / "falsified.py"
    program.write_text(
        f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import stress, stress_calls\n"
        "class Wrong(stress_calls.Exchange):\n"
        "    def problem(self):\n"
        "        for _, _, recv, sender, _ in self._parts:\n"
        "            if recv.buffer.count and sender == 1:\n"
        "                recv.seen(recv.buffer)[0] ^= 1\n"
        "        return super().problem()\n"
        "stress_calls.Exchange = Wrong\n"
        "sys.exit(stress.main())\n"
    )
    words = [sys.executable, "-P", str(program), "--rounds", "6", "--seed", "3"]
    done = mpirun(2, words, more=hopper(), timeout_s=200)
    assert done.returncode != 0
    told = re.findall(r"^stress: seed 3, rank \d, round (\d+), exchange .*: 1 of", done.stderr, re.MULTILINE)
    assert told, done.stdout + done.stderr
    again = mpirun(2, [*words, "--from", told[0]], more=hopper(), timeout_s=200)
    assert f"round {told[0]}, exchange" in again.stderr
