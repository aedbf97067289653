# SPDX-License-Identifier: Apache-2.0
"""`lagom tune` and `lagom workload` with input that cannot work: one line, the right code, no hang. No NCCL needed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from launch import LAGOM, NEEDS_MPIRUN, mpirun, own_lines, run

from lagom.workload import preset, read_workload


@pytest.fixture
def no_library(tmp_path: Path) -> dict[str, str]:
    """Environment in which no NCCL is found."""
    return {"LAGOM_CACHE": str(tmp_path / "cache"), "LAGOM_NCCL": ""}


@NEEDS_MPIRUN
@pytest.mark.parametrize(
    ("ranks", "words", "code", "says"),
    [
        (1, ("phi2-fsdp-a40",), 6, "needs at least 2 ranks"),
        (2, ("phi3",), 6, "unknown workload 'phi3', known: phi2-fsdp-a40"),
        (2, ("none.yaml",), 6, "none.yaml: cannot read"),
        (2, ("bad.yaml",), 6, "bad.yaml:2:1: unknown key 'x'"),
        (2, ("phi2-fsdp-a40", "--budget", "0"), 6, "--budget: '0' is not a whole number from 1"),
        (2, ("phi2-fsdp-a40", "--strategy", "magic"), 6, "unknown strategy 'magic', known: linear, nccl"),
        (2, ("phi2-fsdp-a40", "--bugdet", "3"), 6, "unrecognized arguments"),
        (2, ("phi2-fsdp-a40", "--output", "bad.yaml/x"), 6, "cannot write to"),
        (2, ("phi2-fsdp-a40",), 1, "no NCCL library found"),
    ],
)
def test_one_line_and_a_code(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    no_library: dict[str, str],
    ranks: int,
    words: tuple[str, ...],
    code: int,
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_text("format: lagom-workload/1\nx: 1\n")
    done = mpirun(ranks, [*LAGOM, "tune", *words], no_library)
    lines = own_lines(done)
    assert done.returncode == code and len(lines) == 1 and says in lines[0], done.stderr


@NEEDS_MPIRUN
@pytest.mark.parametrize(
    ("second", "says"),
    [
        ([*LAGOM, "tune", "w.yaml", "--budget", "3"], "different arguments"),
        (["env", "NCCL_ALGO=ring", *LAGOM, "tune", "w.yaml"], "NCCL_ALGO; rank 0: not set, rank 1: ring"),
        (["env", "-C", "other", *LAGOM, "tune", "w.yaml"], "ranks differ in"),
    ],
)
def test_ranks_that_disagree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_library: dict[str, str], second: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("other").mkdir()
    text = shown_yaml()
    Path("w.yaml").write_text(text)
    Path("other/w.yaml").write_text(text.replace("78671360", "78671364"))
    done = mpirun(1, [*LAGOM, "tune", "w.yaml", ":", "-n", "1", *second], no_library)
    lines = own_lines(done)
    assert done.returncode == 6 and len(lines) == 1 and says in lines[0], done.stderr


def test_without_mpirun() -> None:
    done = run([*LAGOM, "tune", "phi2-fsdp-a40"])
    lines = own_lines(done)
    assert done.returncode == 6 and len(lines) == 1 and "mpirun -n 4 lagom tune phi2-fsdp-a40" in lines[0]


def shown_yaml() -> str:
    """What `lagom workload show --yaml` prints."""
    show = [*LAGOM, "workload", "show", "phi2-fsdp-a40", "--yaml"]
    return subprocess.run(show, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("show", "phi3"), "unknown workload"),
        (("show", "phi2-fsdp-a40", "--ranks", "1"), "at least 2 ranks"),
        (("functions", "missing.yaml"), "cannot read"),
        (("frobnicate",), "invalid choice"),
        ((), "required"),
    ],
)
def test_workload_mistakes(words: tuple[str, ...], says: str) -> None:
    done = run([*LAGOM, "workload", *words])
    lines = own_lines(done)
    assert done.returncode == 6 and len(lines) == 1 and says in lines[0], done.stderr


def test_shown_yaml_can_be_read_back(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(shown_yaml())
    assert read_workload(path) == preset("phi2-fsdp-a40")
