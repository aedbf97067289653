# SPDX-License-Identifier: Apache-2.0
"""`lagom tune` and `lagom workload` with input that cannot work: one line, the right code, no hang. No NCCL needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LAGOM = [sys.executable, "-m", "lagom"]
NEEDS_MPI = pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun")


def clean_environment(cache: Path) -> dict[str, str]:
    """No library anywhere, and an Open MPI that accepts root and few cores."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LAGOM_", "NCCL_", "HOSTCUDA_", "OMPI_", "PMIX_"))}
    more = {
        "LAGOM_CACHE": str(cache),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
    }
    return {**kept, **more}


def run(command: list[str], cache: Path, folder: Path | None = None) -> tuple[int, list[str]]:
    """(exit code, lines of lagom's own on standard error)."""
    done = subprocess.run(
        command, env=clean_environment(cache), cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, [line for line in done.stderr.splitlines() if line.startswith("lagom")]


def mpirun(ranks: int, *words: str) -> list[str]:
    """The command line for `lagom WORDS` on so many ranks."""
    return ["mpirun", "-n", str(ranks), *LAGOM, *words]


@NEEDS_MPI
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
def test_one_line_and_a_code(tmp_path: Path, ranks: int, words: tuple[str, ...], code: int, says: str) -> None:
    (tmp_path / "bad.yaml").write_text("format: lagom-workload/1\nx: 1\n")
    found, lines = run(mpirun(ranks, "tune", *words), tmp_path / "cache", tmp_path)
    assert found == code and len(lines) == 1 and says in lines[0], lines


@NEEDS_MPI
@pytest.mark.parametrize(
    ("second", "says"),
    [
        ([*LAGOM, "tune", "w.yaml", "--budget", "3"], "different arguments"),
        (["env", "NCCL_ALGO=ring", *LAGOM, "tune", "w.yaml"], "NCCL_ALGO; rank 0: not set, rank 1: ring"),
        (["env", "-C", "other", *LAGOM, "tune", "w.yaml"], "ranks differ in"),
    ],
)
def test_ranks_that_disagree(tmp_path: Path, second: list[str], says: str) -> None:
    (tmp_path / "other").mkdir()
    show = [*LAGOM, "workload", "show", "phi2-fsdp-a40", "--yaml"]
    text = subprocess.run(show, capture_output=True, text=True, check=True).stdout
    (tmp_path / "w.yaml").write_text(text)
    (tmp_path / "other" / "w.yaml").write_text(text.replace("78671360", "78671364"))
    command = ["mpirun", "-n", "1", *LAGOM, "tune", "w.yaml", ":", "-n", "1", *second]
    code, lines = run(command, tmp_path / "cache", tmp_path)
    assert code == 6 and len(lines) == 1 and says in lines[0], lines


def test_without_mpirun(tmp_path: Path) -> None:
    code, lines = run([*LAGOM, "tune", "phi2-fsdp-a40"], tmp_path)
    assert code == 6 and len(lines) == 1 and "mpirun -n 4 lagom tune phi2-fsdp-a40" in lines[0]


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
def test_workload_mistakes(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    code, lines = run([*LAGOM, "workload", *words], tmp_path)
    assert code == 6 and len(lines) == 1 and says in lines[0], lines


def test_shown_yaml_can_be_read_back(tmp_path: Path) -> None:
    from lagom.workload import preset, read_workload

    show = [*LAGOM, "workload", "show", "phi2-fsdp-a40", "--yaml"]
    path = tmp_path / "w.yaml"
    path.write_text(subprocess.run(show, capture_output=True, text=True, check=True).stdout)
    assert read_workload(path) == preset("phi2-fsdp-a40")
