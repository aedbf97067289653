# SPDX-License-Identifier: Apache-2.0
"""Aborts where no rank has died, and ends of processes that destroy nothing."""

import random
import signal

import pytest
from hostcuda.hosts.conftest import Start
from hostcuda.hosts.test_communicators import TRANSPORTS

CASES = ("init", "init_at_once", "split", "inside", "finalized", "again", "shared_child")


@pytest.mark.parametrize("case", CASES)
def test_abort(start: Start, seed: int, case: str) -> None:
    transport = random.Random(f"{seed} {case}").choice(list(TRANSPORTS))
    print(f"LAGOM_TEST_SEED={seed}: {transport}")
    job = start("abort", case, 3, env=TRANSPORTS[transport])
    said = job.succeed(120)
    assert said.count("abort gives 0") >= 3
    assert job.left_in_shared_memory() == []


@pytest.mark.full
@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("case", CASES)
def test_abort_everywhere(start: Start, case: str, transport: str, ranks: int) -> None:
    job = start("abort", case, ranks, env=TRANSPORTS[transport])
    job.succeed(120)
    assert job.left_in_shared_memory() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_ends_a_rank_at_once(start: Start, number: signal.Signals) -> None:
    """hostcuda's threads and handlers do not keep a process alive that was told to end."""
    job = start("abort", "signalled", 2)
    job.await_posts("inside", range(2), 60)
    for process in job.processes:
        process.send_signal(number)
    assert job.wait(10) == [-number, -number]
    assert job.left_in_shared_memory() == []


def test_a_handler_of_the_program_runs(start: Start) -> None:
    job = start("abort", "handled", 2)
    job.await_posts("inside", range(2), 60)
    for process in job.processes:
        process.terminate()
    assert job.wait(10) == [42, 42]


@pytest.mark.parametrize("case", ["returns", "exits_at_once", "idle_return"])
def test_a_rank_that_destroys_nothing(start: Start, case: str) -> None:
    """It ends, also with a collective on the device that never will."""
    job = start("abort", case, 2)
    assert job.wait(60) == [0, 0], job.everything()
    assert job.left_in_shared_memory() == []


def test_every_case_is_run(start: Start) -> None:
    job = start("abort", "", 1)
    job.wait(30)
    assert sorted(job.said().split()) == sorted(
        [*CASES, "signalled", "handled", "returns", "exits_at_once", "idle_return"]
    )
