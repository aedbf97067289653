# SPDX-License-Identifier: Apache-2.0
"""Commands on the ranks of an MPI launcher, also `lagom run`, which leaves MPI to its program: what all say, once."""

import sys
from pathlib import Path

import pytest
from launch import LAGOM, NEEDS_MPIRUN, mpirun, own_lines, run

pytestmark = NEEDS_MPIRUN
NO_PROGRAM = "lagom run: no such program: lagom-none"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["run", "--", "lagom-none"], NO_PROGRAM),
        (["run", "--plan", "none.csv", "--", "true"], "lagom: none.csv: cannot be opened: No such file or directory"),
        (["run"], "lagom run: no program given: lagom run [--plan FILE] [--counters FILE] -- CMD ..."),
        (["run", "--plan"], "lagom run: argument --plan: expected one argument"),
        (["tune", "none"], "lagom tune: unknown workload 'none', known: phi2-fsdp-a40; or give a path to a .yaml file"),
    ],
)
def test_a_shared_error_is_told_once(words: list[str], line: str) -> None:
    done = mpirun(3, [*LAGOM, *words], timeout_s=60)
    assert done.returncode == 6 and own_lines(done) == [line], done.stderr


def test_every_different_error_is_told(tmp_path: Path) -> None:
    plan = str(tmp_path / "none.csv")
    wrong = {"program": ["--", "lagom-none"], "plan": ["--plan", plan, "--", "true"]}
    ranks = [["-n", "1", *LAGOM, "run", *wrong[kind]] for kind in ("program", "plan", "program")]
    done = run(["mpirun", *ranks[0], ":", *ranks[1], ":", *ranks[2]], timeout_s=60)
    told = [f"{NO_PROGRAM} (rank 0, 2)", f"lagom: {plan}: cannot be opened: No such file or directory (rank 1)"]
    assert done.returncode == 6 and own_lines(done) == told, done.stderr


@pytest.mark.parametrize(
    "others", ["import time; time.sleep(300)", "from mpi4py import MPI; MPI.COMM_WORLD.recv(source=1)"]
)
def test_a_rank_that_fails_alone_speaks_for_itself(others: str) -> None:
    """The others are programs by then, which do not listen; the launcher ends them."""
    alone = "import sys; from lagom.cli import _ranks, main; _ranks._JOINING_WAIT_S = 3; sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-P", "-c", alone, "run", "--", "lagom-none"]
    done = run(["mpirun", "-n", "1", sys.executable, "-c", others, ":", "-n", "1", *words], timeout_s=60)
    assert done.returncode == 6, done.stderr
    assert own_lines(done) == [f"{NO_PROGRAM} (rank 1; other ranks have not failed)"]


def test_without_mpi_for_python(tmp_path: Path) -> None:
    """Each rank then says what it has to say."""
    (tmp_path / "mpi4py.py").write_text("raise ImportError('not installed')\n")
    done = mpirun(2, [*LAGOM, "run", "--", "lagom-none"], {"PYTHONPATH": str(tmp_path)}, timeout_s=60)
    assert done.returncode == 6 and set(own_lines(done)) == {NO_PROGRAM} and "Traceback" not in done.stderr
