# SPDX-License-Identifier: Apache-2.0
"""Split, shrink, grow, finalize, revoke and every way to begin, on ranks joined by P2P, SHM and NET."""

import random

import pytest
from hostcuda.hosts.conftest import Start

# Cases and the fewest ranks they make sense with.
CASES = {
    "split": 3,
    "split_nocolor": 3,
    "split_arguments": 2,
    "split_share": 3,
    "split_many": 2,
    "shrink": 3,
    "shrink_share": 3,
    "shrink_abort": 3,
    "shrink_arguments": 2,
    "grow": 4,
    "grow_arguments": 2,
    "finalize": 2,
    "scalable": 3,
    "revoke": 2,
}
UNBLOCKED = {"collectives": 2, "in_progress": 2, "split": 3, "shrink_and_grow": 3, "group_of_inits": 2,
             "finalize_waits": 2}  # fmt: skip
TRANSPORTS = {
    "P2P": {},
    "SHM": {"NCCL_P2P_DISABLE": "1"},
    "NET": {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_SOCKET_IFNAME": "lo"},
}
PROGRAMS = [("communicators", case) for case in CASES] + [("nonblocking", case) for case in UNBLOCKED]


def fewest(source: str, case: str) -> int:
    return (CASES if source == "communicators" else UNBLOCKED)[case]


def run(start: Start, source: str, case: str, ranks: int, transport: str) -> None:
    job = start(source, case, ranks, env=TRANSPORTS[transport])
    said = job.succeed(120)
    assert said.count(": done\n") == ranks
    assert job.left_in_shared_memory() == []


@pytest.mark.parametrize(("source", "case"), PROGRAMS)
def test_case(start: Start, seed: int, source: str, case: str) -> None:
    choice = random.Random(f"{seed} {source} {case}")
    transport = choice.choice(list(TRANSPORTS))
    print(f"LAGOM_TEST_SEED={seed}: {transport}")
    run(start, source, case, fewest(source, case), transport)


@pytest.mark.full
@pytest.mark.parametrize("ranks", range(2, 9))
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("source", "case"), PROGRAMS)
def test_everywhere(start: Start, source: str, case: str, transport: str, ranks: int) -> None:
    if ranks < fewest(source, case):
        pytest.skip(f"{case} needs {fewest(source, case)} ranks")
    run(start, source, case, ranks, transport)


@pytest.mark.parametrize("devices", [1, 4])
def test_all_devices_of_one_process(start: Start, devices: int) -> None:
    start("communicators", "init_all", 1, env={"DEVICES": str(devices)}).succeed()


def test_every_case_is_run(start: Start) -> None:
    for source, own in (("communicators", [*CASES, "init_all"]), ("nonblocking", UNBLOCKED)):
        job = start(source, "", 1)
        job.wait(30)
        assert sorted(job.said().split()) == sorted(own)
