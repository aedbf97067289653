# SPDX-License-Identifier: Apache-2.0
"""Multicast objects: who has them, what they show, what is refused, and that nothing of them stays."""

import pytest
from hostcuda.runtime.conftest import Run

H100 = {"HOSTCUDA_MACHINE": "h100x8"}
CASES = [
    "who_has_multicast",
    "two_processes",
    "binding_waits_for_all_devices",
    "rules",
    "one_process",
    "nothing_is_left",
]
FAILURES = {
    "missing_members_fail_the_kernel": "not all devices have bound memory to this multicast address",
    "a_member_whose_process_ended": "its process has ended",
}


@pytest.mark.parametrize("case", CASES)
def test_multicast(run: Run, case: str) -> None:
    run("multicast", case, env=H100)


@pytest.mark.parametrize(("machine", "has"), [("a40x8", "0"), ("a100x8", "0"), ("h100x8", "1")])
def test_by_machine(run: Run, machine: str, has: str) -> None:
    assert run("multicast", "who_has_multicast", env={"HOSTCUDA_MACHINE": machine}).stdout.strip() == has


@pytest.mark.parametrize(("case", "why"), FAILURES.items())
def test_failing_kernel_says_why(run: Run, case: str, why: str) -> None:
    assert why in run("multicast", case, env=H100).stderr


def test_every_case_is_run(run: Run) -> None:
    assert sorted(run("multicast", check=False).stdout.split()) == sorted([*CASES, *FAILURES])
