# SPDX-License-Identifier: Apache-2.0
"""`lagom bench` as a command: what it prints, and one line with the right code for what cannot be done."""

import json
import sys
from pathlib import Path

import pytest
from launch import LAGOM, NEEDS_MPIRUN, mpirun, own_lines, run

import lagom.nccl as nccl
from lagom.bench.collectives import COLLECTIVES

pytestmark = NEEDS_MPIRUN


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


@pytest.mark.usefixtures("hostcuda")
@pytest.mark.parametrize("collective", list(COLLECTIVES))
def test_all_of_them(collective: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    words = [*LAGOM, "bench", collective, "-b", "1K", "-e", "256K", "-f", "16", "-n", "2", "-J", str(report)]
    done = mpirun(3, words)
    assert done.returncode == 0, done.stderr
    lines = rows(done.stdout)
    in_place = "0" if COLLECTIVES[collective].in_place else "N/A"
    assert len(lines) == 3 and all(line[8] == "0" and line[12] == in_place for line in lines)
    busy = [
        row["out_of_place"]["bus_bw"] / row["out_of_place"]["alg_bw"]
        for row in json.loads(report.read_text())["results"]
    ]
    assert busy == pytest.approx([COLLECTIVES[collective].bus_factor(3)] * 3, rel=1e-3)
    assert f"# Collective test starting: {collective}_perf" in done.stdout
    assert done.stdout.rstrip().endswith(f"# Collective test concluded: {collective}_perf\n#")
    assert done.stdout.count("#  Rank") == 3


@pytest.mark.usefixtures("hostcuda")
def test_modelled_times_are_the_same_every_time(tmp_path: Path) -> None:
    words = [*LAGOM, "bench", "all_reduce", "-b", "8", "-e", "1M", "-f", "64", "-n", "3", "-J"]
    reports = []
    for name in ("a.json", "b.json"):
        assert mpirun(2, [*words, str(tmp_path / name)]).returncode == 0
        reports.append(json.loads((tmp_path / name).read_text())["results"])
    assert reports[0] == reports[1] and reports[0][0]["out_of_place"]["time"] > 0


def test_knobs_on_request(hostcuda: nccl.Library) -> None:
    if not hostcuda.patched:
        pytest.skip("not the patched library")
    knobs = ["--algorithm", "ring", "--protocol", "simple", "--channels", "2", "--threads", "256", "--chunk", "64K"]
    done = mpirun(2, [*LAGOM, "bench", "all_reduce", "-b", "1M", "-e", "1M", "-n", "2", "--knobs", *knobs])
    assert done.returncode == 0, done.stderr
    used = "algorithm=ring protocol=simple channels=2 threads=256 chunk_bytes=65536"
    assert f"#   knobs used: out-of-place {used}; in-place {used}" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["nosuch"], 6, "invalid choice: 'nosuch'"),
        (["all_reduce", "--frob"], 6, "unrecognized arguments: --frob"),
        (["all_reduce", "--min", "8"], 6, "unrecognized arguments: --min"),
        (["all_reduce", "-b", "8Q"], 6, "size '8Q' does not parse"),
        (["all_reduce", "-b", "16", "-e", "8"], 6, "below the smallest"),
        (["all_reduce", "-n", "many"], 6, "'many' is not a whole number"),
        (["all_reduce", "-d", "complex"], 6, "-d complex: one of"),
        (["all_reduce", "-o", "xor"], 6, "-o xor: one of sum, prod, max, min, avg, mulsum, all"),
        (["alltoall", "--channels", "1"], 6, "unknown collective 'alltoall'"),
        (["all_reduce", "-g", "2"], 5, "-g 2 is not implemented"),
        (["broadcast", "-r", "2"], 6, "-r 2: allowed is 0 to 1, or all"),
        (["all_reduce", "--channels", "65"], 6, "channels=65"),
        (["all_reduce", "--algorithm", "star"], 6, "unknown algorithm 'star'"),
        (["all_reduce", "-J", "x.csv"], 6, "only .json"),
        (["all_reduce", "-J", "/none/x.json"], 6, "-J /none/x.json: cannot be written: No such file or directory"),
        (["broadcast", "-r", "first"], 6, "'first' is not a whole number"),
        (["host", "-b", "8", "--plan", "x"], 6, "it has no options, but --minbytes, --plan is given"),
    ],
)
def test_one_line_for_all_ranks(words: list[str], code: int, says: str) -> None:
    done = mpirun(2, [*LAGOM, "bench", *words], timeout_s=60)
    lines = own_lines(done)
    assert done.returncode == code and len(lines) == 1 and says in lines[0], done.stderr


@pytest.mark.parametrize("start", [[], ["mpirun", "-n", "1"]])
def test_one_rank_only(start: list[str]) -> None:
    done = run([*start, *LAGOM, "bench", "all_reduce"], timeout_s=60)
    assert done.returncode == 6 and own_lines(done) == [
        "lagom bench: one rank only; start at least 2, e.g. mpirun -n 2 lagom bench all_reduce"
    ]


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ([*LAGOM, "bench", "all_reduce", "-b", "16"], "ranks have different arguments: rank 0 'bench all_reduce -b 8'"),
        ([*LAGOM, "bench", "all_reduce", "-x"], "ranks have different arguments"),
    ],
)
def test_ranks_that_disagree(other: list[str], says: str) -> None:
    first = [*LAGOM, "bench", "all_reduce", "-b", "8"]
    done = run(["mpirun", "-n", "1", *first, ":", "-n", "1", *other], timeout_s=60)
    lines = own_lines(done)
    assert done.returncode == 6 and len(lines) == 1 and says in lines[0], done.stderr


def test_no_library(tmp_path: Path) -> None:
    none = {"LAGOM_CACHE": str(tmp_path), "LAGOM_NCCL": ""}
    done = mpirun(2, [*LAGOM, "bench", "all_reduce"], none, timeout_s=60)
    lines = own_lines(done)
    assert done.returncode == 1 and len(lines) == 1 and "no NCCL library found" in lines[0], done.stderr


def test_one_rank_without_library_stops_all(tmp_path: Path) -> None:
    """Not a hang, although the other rank has everything it needs."""
    words = [*LAGOM, "bench", "all_reduce", "-b", "8", "-e", "8"]
    done = run(
        ["mpirun", "-n", "1", "env", f"LAGOM_NCCL={tmp_path}/none", *words, ":", "-n", "1", *words], timeout_s=60
    )
    lines = own_lines(done)
    assert done.returncode == 1 and len(lines) == 1 and "does not exist" in lines[0], done.stderr


@pytest.mark.usefixtures("hostcuda")
def test_no_devices() -> None:
    done = mpirun(2, [*LAGOM, "bench", "all_reduce"], {"CUDA_VISIBLE_DEVICES": ""}, timeout_s=60)
    lines = own_lines(done)
    assert done.returncode == 2 and len(lines) == 1 and "no device (cudaErrorNoDevice" in lines[0], done.stderr
    assert "hostcuda:" not in done.stderr


def test_run_starts_the_program_with_a_plan(hostcuda: nccl.Library, tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text("allreduce,-1,-1,ring,simple,1,-1,-1\n")
    show = "import os; print(os.environ['LAGOM_PLAN'], os.environ['LD_PRELOAD'])"
    words = [*LAGOM, "run", "--plan", str(plan), "--", sys.executable, "-c", show]
    done = run(words)
    if not hostcuda.patched:
        assert done.returncode == 1 and "is not patched" in own_lines(done)[0]
        return
    assert done.returncode == 0 and done.stdout.split()[0] == str(plan) and hostcuda.path in done.stdout
    plan.write_text("allreduce,x\n")
    done = run(words)
    assert done.returncode == 6 and own_lines(done)[0].startswith(f"lagom: {plan}:1:")
    assert run([*LAGOM, "run", "--", "no-such-program"]).returncode == 6
    assert run([*LAGOM, "run"]).returncode == 6
