# SPDX-License-Identifier: Apache-2.0
"""Copies and fills of more than one dimension, and which of them the host waits for."""

import pytest
from hostcuda.runtime.conftest import Run

CASES = [
    "fills_of_two_and_three_dimensions",
    "copies_of_two_and_three_dimensions",
    "every_byte_and_no_more",
    "what_the_host_waits_for",
    "default_stream_copies_wait",
    "driver_fills_of_two_bytes",
    "driver_fills_of_four_bytes",
    "driver_fills_by_name",
]


@pytest.mark.parametrize("case", CASES)
def test_copies(run: Run, case: str) -> None:
    run("copies", case)


def test_every_case_is_run(run: Run) -> None:
    assert sorted(run("copies", check=False).stdout.split()) == sorted(CASES)
