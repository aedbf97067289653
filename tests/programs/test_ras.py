# SPDX-License-Identifier: Apache-2.0
"""ncclras, NCCL's program that asks a running job how it is, against a live job of two ranks."""

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from launch import NEEDS_MPIRUN, environment, run
from programs.conftest import HERE, Compile, Published

pytestmark = NEEDS_MPIRUN


@pytest.fixture(scope="module")
def ncclras(compiled: Compile, published: Published, nccl_source: Path) -> Path:
    source = nccl_source / "src"
    options = ["-std=c++17", "-O1", "-w", *published.compile_options(), f"-I{source}", f"-I{source / 'include'}"]
    return compiled("ncclras", [source / "ras" / "client.cc"], [*options, "-DNCCL_OS_LINUX"])


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Where the RAS of a job listens, which has communicated and keeps its communicator."""
    number, end = free_port(), tmp_path_factory.mktemp("ras") / "end"
    words = ["mpirun", "-n", "2", sys.executable, str(HERE / "job.py"), str(end)]
    with subprocess.Popen(
        words,
        env=environment({"NCCL_RAS_ADDR": f"localhost:{number}"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as job:
        try:
            assert job.stdout is not None
            said = []
            for line in job.stdout:
                said.append(line)
                if line == "waiting\n":
                    break
            assert said and said[-1] == "waiting\n", "".join(said)
            yield number
            end.touch()
            assert job.wait(60) == 0
        finally:
            job.kill()


def test_text(ncclras: Path, port: int) -> None:
    done = run([str(ncclras), "-p", str(port), "-v"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"NCCL version 2\.29\.7", done.stdout)
    # Nodes, processes, GPUs; then communicators with their ranks.
    assert re.search(r"^ +1 +2 +1 +2\b", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"\bRUNNING\b.*\bOK\b", done.stdout), done.stdout


def test_json(ncclras: Path, port: int) -> None:
    done = run([str(ncclras), "-p", str(port), "-f", "json", "-v"])
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    (comm,) = told["communicators"]
    assert comm["size"] == comm["ranks_count"] == 2
    assert comm["missing_ranks_count"] == 0
    assert sorted(rank["rank"] for rank in comm["ranks"]) == [0, 1]
    counts = [rank["collective_counts"] for rank in comm["ranks"]]
    assert counts[0] == counts[1]
    assert counts[0]["AllReduce"] == 2 and counts[0]["Broadcast"] == counts[0]["AllGather"] == 1


def test_nobody_there(ncclras: Path) -> None:
    number = free_port()
    done = run([str(ncclras), "-p", str(number)])
    assert done.returncode == 1
    assert f":{number}: Connection refused" in done.stderr
