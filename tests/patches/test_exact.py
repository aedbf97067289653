# SPDX-License-Identifier: Apache-2.0
"""Knobs on the device: exactly what was asked, or refused by name. See exact.py and refusals.py."""

import csv
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
    ("what", "words"),
    [("channels", r"channels \["), ("threads", "threads entered"), ("chunk", "decoded chunk|largest count")],
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
    """Four A40s are joined by PCIe: NCCL disables LL128 on such a path, and a rule cannot enable it."""
    words = [sys.executable, str(HERE / "one_call.py"), "ring", "ll128"]
    done = mpirun(4, words, {"HOSTCUDA_MACHINE": "a40x8"}, 120)
    assert "algorithm=ring protocol=ll128 is not possible" in done.stdout, done.stdout + done.stderr
    assert "works" not in done.stdout


def test_lost_records_are_counted() -> None:
    done = mpirun(2, [sys.executable, str(HERE / "counting.py")], NVLINK, 300)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    print(done.stdout)


def test_a_plan_is_in_force_in_an_unchanged_program(tmp_path: Path) -> None:
    """LAGOM_PLAN sets the knobs, LAGOM_COUNTERS_FILE says that they ran; the program knows of neither."""
    (tmp_path / "plan.csv").write_text(
        "# first match wins\nallreduce,-1,4096,tree,simple,3,-1,-1,-1,-1,128,1024\nallreduce,-1,-1,ring,simple,5,-1,2\n"
    )
    settings = {"LAGOM_PLAN": str(tmp_path / "plan.csv"), "LAGOM_REQUIRE": "1",
                "LAGOM_COUNTERS_FILE": str(tmp_path / "ops-%r.csv")}  # fmt: skip
    done = mpirun(2, [sys.executable, str(HERE / "untuned.py"), "5", "10"], NVLINK | settings, 200)
    assert done.returncode == 0, done.stderr[-4000:]
    for rank in range(2):
        with (tmp_path / f"ops-{rank}.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert len(rows) >= 10
        assert [int(row["op_index"]) for row in rows] == list(range(len(rows)))
        assert {row["collective"] for row in rows} == {"allreduce", "allgather"}
        for row in rows:
            used = [row[f"used_{knob}"] for knob in ("algorithm", "protocol", "channels", "threads", "chunk_bytes")]
            assert (row["exact"], row["rank"], row["n_ranks"]) == ("1", str(rank), "2")
            if row["collective"] == "allgather":
                assert (row["plan_line"], row["asked_channels"]) == ("0", "-1")
            elif int(row["bytes"]) <= 4096:
                assert (row["plan_line"], used) == ("2", ["tree", "simple", "3", "128", "1024"])
            else:
                assert (row["plan_line"], used[:3]) == ("3", ["ring", "simple", "5"])
            assert row["channel_sm"].count(";") == int(row["used_channels"]) - 1
            assert int(row["start_ns"]) < int(row["stop_ns"])
            assert int(row["wait_ns"]) + int(row["move_ns"]) == int(row["sm_ns"])


@pytest.mark.parametrize("ranks", [2, 3])
def test_groups_of_tuned_and_untuned_collectives(ranks: int) -> None:
    done = mpirun(ranks, [sys.executable, str(HERE / "grouped.py")], NVLINK, 200)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
