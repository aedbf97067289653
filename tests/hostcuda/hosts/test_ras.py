# SPDX-License-Identifier: Apache-2.0
"""NCCL's RAS on a job that runs on hostcuda: asked over its socket, judged by what it says of the job."""

import json
import re
import signal
import socket
from collections.abc import Mapping

import pytest
from hostcuda.hosts.conftest import NOTHING, Start
from hostcuda.hosts.job import Job
from hostcuda.hosts.ras_client import ask

CALLS = 4


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def running(start: Start, port: int, ranks: int = 3, more: Mapping[str, str] = NOTHING) -> Job:
    env = {"NCCL_RAS_ADDR": f"localhost:{port}", "CALLS": str(CALLS), **more}
    job = start("ras", "running", ranks, env=env)
    job.await_posts("ready", range(ranks), 60)
    return job


def test_status_of_a_running_job(start: Start) -> None:
    port = free_port()
    job = running(start, port)
    told = json.loads(ask("localhost", port, "set format json", "verbose status"))
    text = ask("localhost", port, "status")
    job.post("asked")
    job.succeed()

    assert told["nccl_version"] == "2.29.7"
    world, child = sorted(told["communicators"], key=lambda comm: -comm["size"])
    assert (world["size"], world["missing_ranks_count"], child["size"]) == (3, 0, 2)
    ranks = sorted(world["ranks"], key=lambda rank: rank["rank"])
    assert [rank["pid"] for rank in ranks] == [process.pid for process in job.processes]
    assert [rank["cuda_dev"] for rank in ranks] == [0, 1, 2]
    # Rank 0 has enqueued one that the others have not come to.
    assert [rank["collective_counts"]["AllReduce"] for rank in ranks] == [CALLS + 1, CALLS, CALLS]
    assert not any(rank["status"]["abort_flag"] or rank["status"]["async_error"] for rank in ranks)

    assert re.search(r"^\s+1\s+3\s+1\s+3\s+3$", text, re.MULTILINE), text
    assert "Communicator ranks have different AllReduce operation counts" in text
    assert f"Rank 0 has launched up to operation {CALLS + 1}" in text


def test_status_after_a_rank_was_killed(start: Start) -> None:
    port = free_port()
    job = running(start, port, more={"EXPECT": "death"})
    victim = 2  # every rank listens at that port; one that lives answers
    pid = job.processes[victim].pid
    job.processes[victim].send_signal(signal.SIGKILL)
    job.wait(10, [victim])
    text = ask("localhost", port, "status")
    job.post("asked")
    assert job.wait(60, [rank for rank in range(3) if rank != victim]) == [0, 0], job.everything()

    assert "Missing communicator data from 1 job process" in text
    assert f"Process {pid} on node" in text
    assert f"Rank {victim} -- GPU {victim} managed by process {pid}" in text


def test_without_ras_nobody_listens(start: Start) -> None:
    port = free_port()
    job = running(start, port, 2, {"NCCL_RAS_ENABLE": "0"})
    with pytest.raises(ConnectionRefusedError):
        ask("localhost", port, "status")
    job.post("asked")
    job.succeed()
