# SPDX-License-Identifier: Apache-2.0
"""How a command's ranks report failures: once where all have it, and without a hang where one has it alone."""

import subprocess
import sys

import pytest
from launch import NEEDS_MPIRUN, mpirun, own_lines

pytestmark = NEEDS_MPIRUN

PROGRAM = """
import sys, time
from lagom.cli._ranks import Ranks
ranks = Ranks.collective()
rank = ranks.rank
{body}
"""


@pytest.mark.parametrize(
    ("body", "code", "lines"),
    [
        ("sys.exit(ranks.report('lagom: all', 3))", 3, ["lagom: all"]),
        (
            "sys.exit(ranks.report(f'lagom: own {rank % 2}', 2))",
            2,
            ["lagom: own 0 (rank 0, 2)", "lagom: own 1 (rank 1)"],
        ),
        (
            "if rank == 1:\n    sys.exit(ranks.report('lagom: alone', 4))\n"
            "from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()",
            4,
            ["lagom: alone (rank 1; the other ranks are stopped)"],
        ),
    ],
)
def test_reports(body: str, code: int, lines: list[str]) -> None:
    done = mpirun(3, [sys.executable, "-c", PROGRAM.format(body=body)], timeout_s=60)
    assert done.returncode == code and own_lines(done) == lines, done.stderr


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_rank_that_fails_waits_until_it_was_heard(name: str) -> None:
    """What a launcher has not yet read is lost when it ends the job, so a rank does not end before."""
    program = f"import sys; from lagom.cli import _ranks; print('lagom', file=sys.{name}); _ranks.await_forwarding()"
    pipes = {name: subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-P", "-c", program], **pipes) as process:  # type: ignore[call-overload]
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        assert getattr(process, name).readline() == b"lagom\n"
        assert process.wait(60) == 0
