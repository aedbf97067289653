# SPDX-License-Identifier: Apache-2.0
"""The harness's command line: launchers, refusals, and whole runs on this machine, by mpirun and a stand-in of srun."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from builds import host_build
from launch import LAGOM, NEEDS_MPIRUN, own_lines, run

from lagom.harness import launchers

GATHER = "AllGather RING *"
# srun's part: as many ranks as it is told, of the program that follows its options.
SRUN = """#!/bin/sh
echo "$@" >> "$SRUN_SAW"
while [ "$1" != env ]; do
  if [ "$1" = --ntasks ]; then ranks=$2; fi
  shift
done
exec mpirun -n "$ranks" "$@"
"""


def program(folder: Path, name: str, text: str = "#!/bin/sh\n") -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_results_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    sides = ["--stock", host_build(GATHER, stock=True), "--patched", host_build(GATHER)]
    done = run([*LAGOM, "harness", *map(str, sides), "--output", str(tmp_path / "file")])
    assert done.returncode == 6, done.stderr
    assert own_lines(done) == [f"lagom harness: cannot write to {tmp_path}/file: File exists"]  # before any run


def test_mpirun_with_a_hostfile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mpirun = program(tmp_path, "mpirun")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    hosts = tmp_path / "hosts"
    hosts.write_text("# two of them\nnode-1 slots=4\n\n10.0.0.2 slots=4 max_slots=8\n")
    chosen = launchers.choose(8, 4, hosts, False, ["--mca", "x"])
    assert chosen.words == (
        str(mpirun), "-n", "8", "--hostfile", str(hosts), "--map-by", "ppr:4:node:oversubscribe", "--mca", "x"
    )  # fmt: skip
    monkeypatch.setenv("LD_PRELOAD", "")
    command = chosen.command(["prog", "-b"], {"LD_PRELOAD": "/x.so"})
    assert command[: len(chosen.words) + 1] == [*chosen.words, "env"]
    assert command[-3:] == ["LD_PRELOAD=/x.so", "prog", "-b"]
    assert "LAGOM_PLAN" in command and "LD_PRELOAD" not in command


def test_srun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    srun = program(tmp_path, "srun")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    wanted = (str(srun), "--ntasks", "16", "--mpi=pmix", "--kill-on-bad-exit=1", "--ntasks-per-node", "8")
    assert launchers.choose(16, 8, None, True, []).words == wanted
    with pytest.raises(ValueError, match="no mpirun in PATH"):
        launchers.choose(16, 8, None, False, [])
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert launchers.choose(16, 8, None, False, []).words == wanted


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("node-1\nnode 2\n", r"hosts:2: 'node 2'; allowed is HOST or HOST slots=N"),
        ("a slots=x\n", r"hosts:1: 'a slots=x'"),
        ("# nobody\n", r"hosts: names no host"),
        (None, r"hosts: No such file"),
    ],
)
def test_bad_hostfiles(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "hosts"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=words):
        launchers.check_hostfile(path)


@NEEDS_MPIRUN
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--ranks", "0"], "argument --ranks: '0' is not a whole number from 1"),
        (["--limit", "nan"], "argument --limit: 'nan' is not a number of seconds above 0"),
        (["--bench", "all_reduce,all_to"], "'all_to' is none of all_reduce, all_gather"),
        (["--program", "'x"], "argument --program: ''x': No closing quotation"),
        (["--slurm", "--hostfile", "h"], "lagom harness: --slurm and --hostfile exclude each other"),
        (["--hostfile", "/nowhere"], "lagom harness: --hostfile /nowhere: No such file"),
        (["--stock", "/nowhere"], "lagom harness: --stock /nowhere: No such file"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, words: list[str], told: str) -> None:
    done = run([*LAGOM, "harness", "--output", str(tmp_path / "out"), *words])
    (line,) = own_lines(done)
    assert done.returncode == 6 and told in line and not (tmp_path / "out").exists()


def test_not_under_a_launcher(tmp_path: Path) -> None:
    done = run([*LAGOM, "harness"], {"PMIX_RANK": "0"})
    assert done.returncode == 6
    assert own_lines(done) == ["lagom harness: it starts the ranks itself; run it without mpirun or srun"]


@NEEDS_MPIRUN
@pytest.mark.parametrize("launcher", ["hostfile", "slurm"])
def test_side_by_side_on_this_machine(tmp_path: Path, launcher: str) -> None:
    stock, patched = host_build(GATHER, stock=True), host_build(GATHER)
    environment = {"SRUN_SAW": str(tmp_path / "saw")}
    if launcher == "hostfile":
        hosts = tmp_path / "hosts"
        hosts.write_text("localhost slots=2\n")
        where = ["--hostfile", str(hosts)]
    else:
        program(tmp_path, "srun", SRUN)
        environment["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
        where = ["--slurm", "--ranks-per-node", "2"]
    what = ["--bench", "all_gather", "--bench-options", "-b 1K -e 8K -f 8 -n 2", "--repeats", "1"]
    sides = ["--stock", str(stock), "--patched", str(patched)]
    done = run([*LAGOM, "harness", *where, *sides, *what, "--output", str(tmp_path / "out")], environment)
    assert done.returncode == 0, done.stdout + done.stderr
    data = json.loads((tmp_path / "out" / "harness.json").read_text())
    assert data["libraries"] == {"stock": f"{stock}/libnccl.so.2", "patched": f"{patched}/libnccl.so.2"}
    # On a modelled clock the patched library without a plan is the stock one.
    assert [one["ratios"] for one in data["differences"]["all_gather"]] == [[1.0, 1.0]] * 2
    assert all(row["wrong"] == 0 for one in data["runs"] for row in one["rows"])
    if launcher == "slurm":
        saw = (tmp_path / "saw").read_text().splitlines()
        assert len(saw) == 2 and all(line.startswith("--ntasks 2 --mpi=pmix") for line in saw)
