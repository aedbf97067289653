# SPDX-License-Identifier: Apache-2.0
"""What no program should ask for is an error, and neither ends the process nor gives less than was asked for."""

import pytest
from hostcuda.runtime.conftest import Run

CASES = {
    "sizes_that_wrap_around": "",
    "devices_and_flags_that_are_none": "device 99 does not exist: machine a40x8 shows 8 (0..7)",
    "more_than_there_is": "",
    "ranges_that_are_mapped_in_part": "",
    "memory_goes_away_before_a_fill": "device 0: set failed: illegal memory address 0x",
    "memory_goes_away_before_a_copy": "device 0: copy failed: illegal memory address 0x",
    "memory_goes_away_before_a_stream_write": "device 0: memory operations failed: illegal memory address 0x",
    "host_memory_that_is_not_there": "device 0: copy failed: illegal memory address 0x1234560",
    "host_functions_that_wait": "a host function or callback called what waits for a device, which CUDA forbids",
}


@pytest.mark.parametrize("case", CASES)
def test_misuse(run: Run, case: str) -> None:
    assert CASES[case] in run("misuse", case).stderr


def test_every_case_is_run(run: Run) -> None:
    assert sorted(run("misuse", check=False).stdout.split()) == sorted(CASES)
