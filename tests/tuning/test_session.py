# SPDX-License-Identifier: Apache-2.0
"""Whole sessions with the real NCCL on hostcuda, on a workload small enough for a test."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from launch import LAGOM, NEEDS_MPIRUN, mpirun, own_lines

import lagom.nccl as nccl
from lagom.plan import read_plan

pytestmark = [NEEDS_MPIRUN, pytest.mark.usefixtures("patched")]

# Small GEMMs beside two all-gathers of different sizes; the second also holds up the last kernel.
SMALL = """\
format: lagom-workload/1
name: small
machine: a40x8
operations:
  - communicate: first
    collective: all_gather
    dtype: bfloat16
    count: 1_000_003
  - compute: up
    gemm: {m: 2048, n: 2048, k: 1024, dtype: bfloat16}
  - communicate: second
    collective: all_gather
    dtype: float32
    count: 70_001
  - compute: down
    after: second
    gemm: {m: 2048, n: 2048, k: 1024, dtype: bfloat16}
"""


def tune(folder: Path, ranks: int, *words: str) -> str:
    """Run `lagom tune` on SMALL; what it printed."""
    path = folder / "small.yaml"
    path.write_text(SMALL)
    done = mpirun(ranks, [*LAGOM, "tune", str(path), "--output", str(folder / "out"), *words], timeout_s=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("ranks", [2, 3])
def test_session(tmp_path: Path, ranks: int) -> None:
    printed = tune(tmp_path, ranks, "--budget", "8")
    out = tmp_path / "out"
    data = json.loads((out / "report.json").read_text())
    default, tuned = data["default"], data["tuned"]
    assert tuned["makespan_us"] <= default["makespan_us"]
    assert len([t for t in data["trials"] if "measured" in t]) <= 8
    for figure in (default["makespan_us"], tuned["makespan_us"], tuned["compute_us"], tuned["communication_us"]):
        assert f"{figure:,.3f} us" in printed
    for path in (out / "plan.csv", out / "report.html", out / "report.json", out / "counters-rank0.csv"):
        assert str(path) in printed and path.exists()
    plan = read_plan(out / "plan.csv")
    assert bool(plan.rules) != data["kept_default"]
    check_counters(out, ranks, plan.rules, [c["used"] for c in tuned["communications"]])


def check_counters(out: Path, ranks: int, rules: tuple[nccl.Rule, ...], used: list[dict[str, object]]) -> None:
    """Every rank's counters show the plan's knobs for both collectives, and the report says the same."""
    for rank in range(ranks):
        with (out / f"counters-rank{rank}.csv").open() as file:
            rows = [row for row in csv.DictReader(file) if int(row["bytes"]) > 1000]
        assert len(rows) == 2
        for row, told in zip(rows, used, strict=True):
            ran = {name: row[f"used_{name}"] for name in told}
            assert ran == {name: str(value) for name, value in told.items()}
            matching = [rule for rule in rules if rule.min_bytes == int(row["bytes"])]
            if rules:
                assert {name: str(getattr(matching[0].knobs, name)) for name in ran} == ran
                assert row["exact"] == "1" and int(row["plan_line"]) == matching[0].line


@contextlib.contextmanager
def busy_cores() -> Iterator[None]:
    """A busy loop for every core."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def test_idle_and_loaded_machines_print_the_same(tmp_path: Path) -> None:
    idle = tune(tmp_path, 2, "--budget", "4")
    with busy_cores():
        assert tune(tmp_path, 2, "--budget", "4") == idle


def test_json_is_all_there_is_on_standard_output(tmp_path: Path) -> None:
    data = json.loads(tune(tmp_path, 2, "--strategy", "nccl", "--json"))
    assert data["kept_default"] and data["knobs"] == {} and len(data["trials"]) == 1
    assert read_plan(tmp_path / "out" / "plan.csv").rules == ()


@pytest.mark.parametrize("knob", ["channels", "threads", "chunk"])
def test_a_device_that_does_something_else_is_no_measurement(tmp_path: Path, knob: str) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    words = [*LAGOM, "tune", str(tmp_path / "small.yaml"), "--output", str(tmp_path / "out")]
    done = mpirun(2, words, {"LAGOM_TEST_FALSIFY": knob})
    lines = own_lines(done)
    assert done.returncode == 1 and len(lines) == 1, done.stderr
    assert f"asked for {knob}" in lines[0] and "but the device ran with" in lines[0]
    assert not (tmp_path / "out" / "plan.csv").exists()


def test_a_library_without_patches_is_refused(tmp_path: Path, patched: nccl.Library) -> None:
    stock = tmp_path / "libnccl.so.2"
    source = tmp_path / "stock.c"
    source.write_text("int ncclGetVersion(int* version) { *version = 22907; return 0; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(stock), str(source)], check=True)
    done = mpirun(2, [*LAGOM, "tune", "phi2-fsdp-a40"], {"LAGOM_NCCL": str(stock)})
    lines = own_lines(done)
    assert done.returncode != 0 and len(lines) == 1 and str(stock) in lines[0], done.stderr
