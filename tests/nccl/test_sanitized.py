# SPDX-License-Identifier: Apache-2.0
"""NCCL's patched host code under AddressSanitizer and UndefinedBehaviorSanitizer: collectives by plan and by protocol,
counted, without a report."""

import itertools
import sys
from pathlib import Path

import pytest
from launch import NEEDS_MPIRUN, mpirun, run
from sanitizers import preloads, reports, sanitized, settings

JOB = Path(__file__).parents[1] / "programs" / "job.py"
PLAN = "allreduce,0,100000,ring,ll,2,-1,-1\nallgather,-1,-1,ring,simple,1,-1,-1\nbroadcast,-1,-1,ring,-1,-1,-1,-1\n"
TRANSPORTS = {
    "p2p": {},
    "shm": {"NCCL_P2P_DISABLE": "1"},
    "net": {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"},
}
# Without --full the plan everywhere, and each protocol somewhere.
SOME = {("p2p", "Simple"), ("shm", "LL128"), ("net", "LL"), *((transport, "plan") for transport in TRANSPORTS)}
JOBS = [
    job if job in SOME else pytest.param(*job, marks=pytest.mark.full)
    for job in itertools.product(TRANSPORTS, ("plan", "LL", "LL128", "Simple"))
]
# The patched library reads a struct that begins with 8 bytes of size through the program's pointer.
WRONG = """
import ctypes, sys
libc, nccl = ctypes.CDLL(None), ctypes.CDLL(sys.argv[1])
libc.malloc.restype = ctypes.c_void_p
nccl.ncclGetKnobsInfo(ctypes.c_void_p(libc.malloc(4)))
"""


def words(*arguments: str) -> list[str]:
    """Python with its arguments; mpirun itself stays as it is."""
    return ["env", *(f"{name}={text}" for name, text in preloads().items()), sys.executable, *arguments]


@NEEDS_MPIRUN
@pytest.mark.parametrize(("transport", "protocol"), JOBS)
def test_nothing_is_reported(tmp_path: Path, transport: str, protocol: str) -> None:
    """The job ends with right data and counted operations, and nothing is reported."""
    more = {**settings(tmp_path), **TRANSPORTS[transport], "LAGOM_NCCL": str(sanitized()), "HOSTCUDA_MACHINE": "a100x8"}
    if protocol == "plan":
        (tmp_path / "plan.csv").write_text(PLAN)
        more |= {"LAGOM_PLAN": str(tmp_path / "plan.csv"), "LAGOM_REQUIRE": "1"}
    else:
        more |= {"NCCL_PROTO": protocol, "NCCL_ALGO": "Ring"}
    more["LAGOM_COUNTERS_FILE"] = str(tmp_path / "ran.csv")
    done = mpirun(2, words(str(JOB)), more, timeout_s=300)
    found = reports(tmp_path, done)
    assert found == "", found
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert done.stdout.count("6 right") == 2
    assert {file.name for file in tmp_path.glob("ran.csv*")} == {"ran.csv.0", "ran.csv.1"}


def test_what_is_wrong_is_reported(tmp_path: Path) -> None:
    found = reports(tmp_path, run(words("-c", WRONG, str(sanitized() / "libnccl.so.2")), settings(tmp_path)))
    assert "heap-buffer-overflow" in found and "lagom/knobs.cc" in found
