# SPDX-License-Identifier: Apache-2.0
"""Errors: whose they are, how long they last, and that what is refused is refused by name."""

import pytest
from hostcuda.runtime.conftest import Run

CASES = {
    "last_error_is_the_threads_own": "",
    "current_device_is_the_threads_own": "",
    "failed_kernel_is_sticky": "device 0: kernel broken_kernel failed: ",
    "failure_ends_what_follows": "broken on purpose",
    "callbacks_hear_of_failures": "broken on purpose",
    "lasting_and_passing_errors": "broken on purpose",
    "kernels_that_are_not_there": "kernel absent_kernel is not in this build",
    "impossible_launches": "kernel gate_kernel: 1025 threads a CTA, at most 1024 are allowed",
    "packed_parameters": "",
    "launch_completion_event": "",
    "handles_that_are_none": "",
    "forked_child": "",
}


@pytest.mark.parametrize("case", CASES)
def test_errors(run: Run, case: str) -> None:
    assert CASES[case] in run("errors", case).stderr


def test_every_case_is_run(run: Run) -> None:
    assert sorted(run("errors", check=False).stdout.split()) == sorted(CASES)
