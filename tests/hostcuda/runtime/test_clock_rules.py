# SPDX-License-Identifier: Apache-2.0
"""Modelled time: what moves it, what does not, and that a program's times are its own."""

import subprocess
from pathlib import Path

import pytest
from hostcuda.runtime.conftest import Run

CASES = [
    "times_are_modelled",
    "queries",
    "helpers_do_not_move_time",
    "op_times",
    "done_events_still_order_time",
    "default_stream_orders_time",
    "wrong_descriptions",
    "freed_ranges_are_forgotten",
]


@pytest.mark.parametrize("case", CASES)
def test_rules(run: Run, case: str) -> None:
    run("clock", case)


def test_every_case_is_run(run: Run) -> None:
    assert sorted(run("clock", check=False).stdout.split()) == sorted([*CASES, "program"])


def test_the_same_times_on_an_idle_and_a_busy_machine(run: Run) -> None:
    idle = run("clock", "program").stdout
    assert len(idle.splitlines()) == 17
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(3)]
    try:
        again = [run("clock", "program").stdout for _ in range(3)]
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert again == [idle] * 3


def test_times_depend_on_the_machine(run: Run) -> None:
    assert run("clock", "program").stdout != run("clock", "program", env={"HOSTCUDA_MACHINE": "h100x8"}).stdout


def test_little_thread_local_storage(libraries: Path) -> None:
    """libnccl's thread-local data lies in the static block, and so must ours: then there is little room for it."""
    segments = subprocess.run(
        ["readelf", "-lW", str(libraries / "libcudart.so.13")], capture_output=True, text=True, check=True
    ).stdout
    tls = next(line.split() for line in segments.splitlines() if line.split()[:1] == ["TLS"])
    assert int(tls[5], 16) <= 256
    dynamic = subprocess.run(
        ["readelf", "-dW", str(libraries / "libcudart.so.13")], capture_output=True, text=True, check=True
    ).stdout
    assert "STATIC_TLS" in dynamic
