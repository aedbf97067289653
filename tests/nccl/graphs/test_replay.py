# SPDX-License-Identifier: Apache-2.0
"""Captured collectives over every transport, with and without NCCL's implicit order of launches."""

import sys
from pathlib import Path

import pytest
from launch import NEEDS_MPIRUN, mpirun

REPLAY = str(Path(__file__).parent / "replay.py")
TIMES = str(Path(__file__).parent / "times.py")
CASES = ["once_captured_launched_often", "two_graphs", "captured_beside_enqueued", "a_group_over_two_streams", "update"]

TRANSPORTS = {
    "P2P": {},
    "SHM": {"NCCL_P2P_DISABLE": "1"},
    "NET": {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"},
}

pytestmark = [NEEDS_MPIRUN, pytest.mark.usefixtures("patched")]


def replay(ranks: int, modes: list[int], env: dict[str, str]) -> None:
    done = mpirun(ranks, [sys.executable, "-P", REPLAY, *map(str, modes)], env)
    assert done.returncode == 0, done.stdout + done.stderr
    expected = [f"{mode} {case}" for mode in modes for case in CASES if mode == 2 or case != "captured_beside_enqueued"]
    assert done.stdout.split("\n") == [*expected, "done", ""]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_transports(transport: str) -> None:
    replay(2 if transport == "P2P" else 3, [2], TRANSPORTS[transport])


def test_implicit_order_of_launches() -> None:
    """Captured kernels wait for the start of the one before, not for its end."""
    replay(2, [2], {"NCCL_LAUNCH_ORDER_IMPLICIT": "1"})


def test_times_depend_on_the_program_alone() -> None:
    """A launch goes onto the modelled timeline as its operations would have, and pauses of the CPU do not show."""
    outputs = []
    for seed in range(3):
        done = mpirun(2, [sys.executable, "-P", TIMES, str(seed)])
        assert done.returncode == 0, done.stdout + done.stderr
        outputs.append(done.stdout)
    assert outputs == [outputs[0]] * 3
    rows = [line.rsplit(" ", 2) for line in outputs[0].splitlines()]
    assert len(rows) == 2 * 4 * 3  # ranks, launches, kernels
    for row in range(0, len(rows), 3):
        by_name = {name.split(" ", 1)[1]: (int(start), int(end)) for name, start, end in rows[row : row + 3]}
        communication = next(times for name, times in by_name.items() if name.startswith("AllReduce"))
        assert by_name["before"][1] <= communication[0] < by_name["beside"][1]
        assert by_name["before"][1] <= by_name["beside"][0] < communication[1]


@pytest.mark.full
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("protocol", ["LL", "Simple"])
def test_usage_modes(transport: str, ranks: int, protocol: str) -> None:
    replay(ranks, [0, 1, 2], {"NCCL_PROTO": protocol, **TRANSPORTS[transport]})
