# SPDX-License-Identifier: Apache-2.0
"""Collectives against NumPy, see matrix.py. A sample normally, all cases with --full."""

import os
import random
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from builds import hopper, host_build
from launch import NEEDS_MPIRUN, NOTHING, mpirun

from lagom.bench.collectives import COLLECTIVES

pytestmark = [NEEDS_MPIRUN, pytest.mark.usefixtures("hostcuda")]
MATRIX = [sys.executable, "-P", str(Path(__file__).with_name("matrix.py"))]
# LL128 exists on machines whose GPUs are all joined by NVLink only.
NVLINK = {"HOSTCUDA_MACHINE": "a100x8"}
# What scripts/test-functions holds.
BUILT = [
    *("--dtype", "int32", "uint32", "float16", "bfloat16", "float32", "float64"),
    *("--op", "sum", "max", "min", "avg", "mulsum"),
]
PLACES = [("one", ranks) for ranks in range(2, 9)] + [("pairs", 4)] + [("apart", ranks) for ranks in range(2, 9)]
Cells = dict[str, tuple[int, int]]


def run(
    capsys: pytest.CaptureFixture[str],
    ranks: int,
    words: list[str],
    machine: Mapping[str, str],
    timeout_s: float = 300,
    least: int = 1,
) -> Cells:
    """The cells that ran and that were refused, by path; at least so many cases must have run."""
    done = mpirun(ranks, [*MATRIX, *words], machine, timeout_s)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    counted = re.search(r"^\d+ of \d+ cells, (\d+) cases ran on .*; 0 failures$", done.stdout, re.MULTILINE)
    assert counted and int(counted[1]) >= least, done.stdout
    assert "was built without" not in done.stdout, done.stdout[-4000:]
    with capsys.disabled():
        print(f"\n{counted[0]}")
    found = re.findall(r"^(.+): (\d+) ran, (\d+) refused", done.stdout, re.MULTILINE)
    return {path: (int(ran), int(refused)) for path, ran, refused in found}


def expected(layout: str) -> set[str]:
    """The rings and trees of NCCL on a100x8: LL128 inside a host only."""
    protocols = ("ll", "ll128", "simple") if layout == "one" else ("ll", "simple")
    rings = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
    paths = {f"{name} ring {protocol}" for name in rings for protocol in protocols}
    return paths | {f"all_reduce tree {protocol}" for protocol in protocols}


@pytest.mark.parametrize(
    ("layout", "ranks", "cells"), [("one", 2, 60), ("one", 3, 40), ("one", 4, 30), ("pairs", 4, 20), ("apart", 3, 20)]
)
def test_sample(capsys: pytest.CaptureFixture[str], layout: str, ranks: int, cells: int) -> None:
    """LAGOM_TEST_SEED draws the cases of an earlier run again."""
    seed = int(os.environ.get("LAGOM_TEST_SEED", random.randrange(1 << 30)))
    words = ["--layout", layout, "--sample", str(cells), "--seed", str(seed), "--algorithm", "ring", "tree"]
    run(capsys, ranks, [*words, *BUILT], NVLINK)


def test_sample_of_all_types(capsys: pytest.CaptureFixture[str]) -> None:
    """Also 8-bit floats and products, on a layout that is drawn as well."""
    seed = int(os.environ.get("LAGOM_TEST_SEED", random.randrange(1 << 30)))
    layout, ranks = random.Random(seed).choice([place for place in PLACES if place[1] <= 4])
    words = ["--layout", layout, "--sample", "60", "--seed", str(seed), "--algorithm", "ring", "tree"]
    run(capsys, ranks, words, hopper())


def test_what_is_refused_is_what_nccl_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    """By rule and by environment the same pairs run, and no others."""
    words = ["--small", "--dtype", "float32", "--op", "sum", "--algorithm", "ring", "tree", "pat"]
    words += ["--collective", "all_reduce", "broadcast"]
    cells = [run(capsys, 2, [*words, "--forced", forced], NVLINK) for forced in ("knobs", "environment")]
    assert cells[0] == cells[1] and len(cells[0]) == 2 * 3 * 3
    able = {path for path, (ran, _) in cells[0].items() if ran}
    assert able == {path for path in expected("one") if path.startswith(("all_reduce", "broadcast"))}


@pytest.mark.full
@pytest.mark.parametrize(("layout", "ranks"), [("one", 3), ("pairs", 4), ("apart", 3)])
@pytest.mark.timeout(2000)
def test_the_same_pairs_everywhere(capsys: pytest.CaptureFixture[str], layout: str, ranks: int) -> None:
    """Every pair of every collective: by rule, by environment, and by environment with a stock NCCL."""
    words = ["--small", "--layout", layout, "--dtype", "float32", "--op", "sum", "--algorithm", "ring", "tree"]
    words += ["--collective", "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"]
    stock = {"LAGOM_NCCL": str(host_build("AllReduce Sum f32 (RING|TREE) *|SendRecv", stock=True))}
    by_rule = run(capsys, ranks, words, NVLINK, 600)
    assert {path for path, (ran, _) in by_rule.items() if ran} == expected(layout)
    for library in (NOTHING, stock):
        assert run(capsys, ranks, [*words, "--forced", "environment"], {**NVLINK, **library}, 900) == by_rule


@pytest.mark.full
@pytest.mark.parametrize("collective", list(COLLECTIVES))
@pytest.mark.parametrize(("layout", "ranks"), PLACES)
@pytest.mark.timeout(8000)
def test_all(capsys: pytest.CaptureFixture[str], layout: str, ranks: int, collective: str) -> None:
    """All types and operations, on GPUs that have 8-bit floats; a few channels, so that the ranks' threads stay few."""
    words = ["--collective", collective, "--layout", layout, "--algorithm", "ring", "tree"]
    cells = run(capsys, ranks, words, hopper(), timeout_s=7900)
    whole = 72 if COLLECTIVES[collective].reduces else 12
    able = {path for path, (ran, refused) in cells.items() if (ran, refused) == (whole, 0)}
    assert able >= ({path for path in expected(layout) if path.startswith(f"{collective} ")} or {collective})


@pytest.mark.full
@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"])
@pytest.mark.parametrize(("layout", "ranks"), PLACES)
@pytest.mark.timeout(8000)
def test_other_algorithms(capsys: pytest.CaptureFixture[str], layout: str, ranks: int, collective: str) -> None:
    """What takes no knobs, by environment: what NCCL holds possible runs, the rest is refused in its words."""
    others = ["collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"]
    words = ["--collective", collective, "--layout", layout, "--forced", "environment", "--algorithm", *others]
    cells = run(capsys, ranks, words, hopper(), 7900, least=0)
    able = {path for path, (ran, _) in cells.items() if ran}
    wanted = set()
    if layout == "apart" and collective in ("all_gather", "reduce_scatter"):
        wanted.add(f"{collective} pat simple")
    if layout == "one" and ranks > 2 and collective == "all_reduce":
        wanted.add("all_reduce nvls simple")
    assert able >= wanted


@pytest.mark.full
@pytest.mark.parametrize("collective", list(COLLECTIVES))
@pytest.mark.timeout(4000)
def test_many_threads(capsys: pytest.CaptureFixture[str], collective: str) -> None:
    """8 ranks with as many channels as NCCL likes are more than 65,536 threads: a few cells."""
    seed = int(os.environ.get("LAGOM_TEST_SEED", random.randrange(1 << 30)))
    words = ["--collective", collective, "--ctas", "0", "--sample", "10", "--seed", str(seed), *BUILT]
    run(capsys, 8, [*words, "--algorithm", "ring", "tree"], NVLINK, timeout_s=3900)
