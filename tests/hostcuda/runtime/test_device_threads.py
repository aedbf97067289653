# SPDX-License-Identifier: Apache-2.0
"""Barriers and warps of kernels that the runtime launches."""

import pytest
from hostcuda.runtime.conftest import Run

CASES = ["barrier_of_a_cta", "named_barriers", "warps_meet"]


@pytest.mark.parametrize("case", CASES)
def test_device_threads(run: Run, case: str) -> None:
    run("device_threads", case)


def test_every_case_is_run(run: Run) -> None:
    assert sorted(run("device_threads", check=False).stdout.split()) == sorted(CASES)
