# SPDX-License-Identifier: Apache-2.0
"""Stream capture: what goes into a graph, which streams take part, and what is forbidden meanwhile."""

import pytest
from hostcuda.runtime.conftest import Run

CASES = [
    "nothing_runs_while_capturing",
    "fork_and_join",
    "event_keeps_the_place_of_its_record",
    "unjoined_stream",
    "update_dependencies",
    "two_captures_do_not_meet",
    "events_do_not_cross_the_boundary",
    "a_captured_stream_cannot_be_watched",
    "unsafe_calls",
    "unsafe_calls_of_other_threads",
    "the_thread_that_began_it_ends_it",
    "legacy_default_stream",
    "launch_completion_event",
    "capture_into_a_graph",
    "streams_that_go",
]


@pytest.mark.parametrize("case", CASES)
def test_capture(run: Run, case: str) -> None:
    run("capture", case)


def test_every_case_is_run(run: Run) -> None:
    assert sorted(run("capture", check=False).stdout.split()) == sorted(CASES)
