# SPDX-License-Identifier: Apache-2.0
"""Stream memory operations (waits and writes of single words) and batches of copies."""

import pytest
from hostcuda.runtime.conftest import Run

CASES = [
    "wait_greater_or_equal_is_cyclic",
    "wait_equal",
    "wait_any_bit",
    "wait_any_zero_bit",
    "writes_come_in_order",
    "what_follows_a_wait_waits",
    "batch_in_order",
    "bad_operations",
    "between_processes",
    "idle_wait_is_cheap",
    "batch_copies_in_stream_order",
    "batch_takes_ephemeral_sources_along",
    "batch_reads_pageable_memory_in_order",
    "captured_operations",
    "bad_batches",
]


@pytest.mark.parametrize("case", CASES)
def test_memory_operations(run: Run, case: str) -> None:
    run("memory_ops", case)


def test_every_case_is_run(run: Run) -> None:
    assert sorted(run("memory_ops", check=False).stdout.split()) == sorted(CASES)
