# SPDX-License-Identifier: Apache-2.0
"""Graphs: order, parameters, updates, user objects, and their place on the modelled timeline."""

import pytest
from hostcuda.runtime.conftest import Run

CASES = [
    "every_kind_of_node",
    "edges_and_no_more",
    "order_in_the_stream",
    "the_last_node_ends_the_launch",
    "launches_are_one_after_the_other",
    "hundred_launches",
    "kernel_arguments_are_copied",
    "pageable_memory_is_read_when_it_runs",
    "parameters_change",
    "update",
    "clones_and_edits",
    "bad_handles",
    "nothing_is_left_of_thousands",
    "work_of_two_devices",
    "legacy_default_stream",
    "through_the_driver",
    "user_objects",
    "user_objects_of_a_broken_capture",
    "modelled_times",
    "priorities",
    "helpers_launch_without_time",
]


@pytest.mark.parametrize("case", CASES)
def test_graphs(run: Run, case: str) -> None:
    run("graphs", case)


def test_every_case_is_run(run: Run) -> None:
    assert sorted(run("graphs", check=False).stdout.split()) == sorted(CASES)
