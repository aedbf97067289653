# SPDX-License-Identifier: Apache-2.0
"""Captured collectives over every transport, with and without NCCL's implicit order of launches."""

import sys
from pathlib import Path

import pytest
from launch import NEEDS_MPIRUN, mpirun

REPLAY = str(Path(__file__).parent / "replay.py")
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


@pytest.mark.full
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("protocol", ["LL", "Simple"])
def test_usage_modes(transport: str, ranks: int, protocol: str) -> None:
    replay(ranks, [0, 1, 2], {"NCCL_PROTO": protocol, **TRANSPORTS[transport]})
