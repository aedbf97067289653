# SPDX-License-Identifier: Apache-2.0
"""Knobs on the device: exactly what was asked, or refused by name. See exact.py and refusals.py."""

import os
import random
import re
import sys
from pathlib import Path

import pytest
from launch import NEEDS_MPIRUN, mpirun

pytestmark = NEEDS_MPIRUN
HERE = Path(__file__).parent
# All protocols are possible on it, LL128 included, and it connects 24 channels.
NVLINK = {"HOSTCUDA_MACHINE": "a100x8"}


def exact(ranks: int, sample: int, seed: int, more: dict[str, str], timeout_s: float = 300) -> tuple[int, str]:
    words = [sys.executable, str(HERE / "exact.py"), "--sample", str(sample), "--seed", str(seed)]
    done = mpirun(ranks, words, NVLINK | more, timeout_s)
    print(done.stdout[-4000:])
    assert re.search(r"^\d+ cases with seed", done.stdout, re.MULTILINE), done.stdout[-4000:] + done.stderr[-4000:]
    return done.returncode, done.stdout


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_used_is_asked(ranks: int) -> None:
    seed = int(os.environ.get("LAGOM_TEST_SEED", random.randrange(1 << 30)))
    print(f"seed {seed}; LAGOM_TEST_SEED={seed} draws the same cases")
    code, _ = exact(ranks, 120, seed, {})
    assert code == 0


@pytest.mark.full
@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.timeout(4000)
def test_used_is_asked_at_length(ranks: int) -> None:
    assert exact(ranks, 2500, 1, {}, timeout_s=3900)[0] == 0


@pytest.mark.parametrize(
    ("what", "words"), [("channels", r"channels \["), ("threads", "threads entered"), ("chunk", "decoded chunk")]
)
def test_a_falsified_descriptor_is_noticed(what: str, words: str) -> None:
    """The descriptor is changed behind the record's back: the reference and the library's own verdict both see it."""
    code, said = exact(2, 30, 7, {"LAGOM_TEST_FALSIFY": what})
    failed = [line for line in said.splitlines() if line.startswith("FAILED")]
    assert code == 1
    assert failed
    for line in failed:
        assert re.search(words, line), line
        assert line.endswith("the library says: not exact"), line


def test_refusals() -> None:
    done = mpirun(2, [sys.executable, str(HERE / "refusals.py")], NVLINK, 300)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def test_ll128_where_its_paths_are_not_safe() -> None:
    """PCIe: NCCL disables LL128, and a rule cannot enable it."""
    done = mpirun(2, [sys.executable, str(HERE / "one_call.py"), "ring", "ll128"], {"HOSTCUDA_MACHINE": "a40x8",
                  "NCCL_P2P_DISABLE": "0"}, 120)  # fmt: skip
    assert "algorithm=ring protocol=ll128 is not possible" in done.stdout, done.stdout + done.stderr
