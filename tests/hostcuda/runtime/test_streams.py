# SPDX-License-Identifier: Apache-2.0
"""Order: within a stream, across streams and devices, with the host. Each case hangs or fails where one is dropped."""

from pathlib import Path

import pytest
from hostcuda.runtime.conftest import Run

CASES = [
    "wait_event",
    "wait_is_for_the_record_so_far",
    "record_is_where_it_was_called",
    "events_never_recorded",
    "kinds_of_events",
    "wait_across_devices",
    "queries_are_honest",
    "host_functions_in_order",
    "host_function_that_blocks",
    "host_functions_of_several_streams",
    "stream_callbacks",
    "memset_in_order",
    "memset_zero_of_a_large_range",
    "pageable_source_is_staged",
    "pinned_source_is_read_in_order",
    "pageable_destination_is_complete",
    "large_copies",
    "legacy_default_stream",
    "per_thread_default_stream",
    "streams_run_side_by_side",
    "destroyed_stream_finishes",
    "free_waits_for_the_device",
    "idle_wait_is_cheap",
    "work_in_flight_at_exit",
]


@pytest.mark.parametrize("case", CASES)
def test_order(run: Run, case: str) -> None:
    run("streams", case)


def test_every_case_is_run(run: Run) -> None:
    listed = run("streams", check=False).stdout.split()
    assert sorted(listed) == sorted(CASES), Path(__file__).name
