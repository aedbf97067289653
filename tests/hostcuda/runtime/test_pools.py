# SPDX-License-Identifier: Apache-2.0
"""Stream-ordered allocation and memory pools."""

import pytest
from hostcuda.runtime.conftest import Run

CASES = [
    "freed_in_stream_order",
    "release_threshold",
    "what_is_used_is_counted",
    "plain_free_of_pooled_memory",
    "pools_of_devices",
    "access",
    "limits",
    "not_in_a_capture",
]


@pytest.mark.parametrize("case", CASES)
def test_pools(run: Run, case: str) -> None:
    run("pools", case)


def test_every_case_is_run(run: Run) -> None:
    assert sorted(run("pools", check=False).stdout.split()) == sorted(CASES)
