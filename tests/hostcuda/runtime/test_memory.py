# SPDX-License-Identifier: Apache-2.0
"""Memory: shadows, owners, sharing between processes, questions about pointers, limits."""

import pytest
from hostcuda.runtime.conftest import Run

CASES = [
    "shadows_and_owners",
    "reused_memory_is_fresh",
    "ipc_shows_data_and_shadow",
    "ipc_of_an_ended_process",
    "shared_descriptor",
    "freed_memory_that_a_peer_has_open",
    "freed_handle_that_a_peer_has_open",
    "mapping_rules",
    "pointers",
    "wrong_addresses",
    "device_memory_is_limited",
    "allocations_are_cheap",
    "no_name_is_left_behind",
]


@pytest.mark.parametrize("case", CASES)
def test_memory(run: Run, case: str) -> None:
    run("memory", case)


def test_every_case_is_run(run: Run) -> None:
    assert sorted(run("memory", check=False).stdout.split()) == sorted(CASES)
