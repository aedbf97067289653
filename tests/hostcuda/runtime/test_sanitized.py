# SPDX-License-Identifier: Apache-2.0
"""hostcuda under AddressSanitizer and UndefinedBehaviorSanitizer: every case of the programs here, without a report."""

import subprocess
from pathlib import Path

import pytest
from hostcuda.runtime.conftest import HERE, Run, compile_program
from sanitizers import preloads, reports, settings

# What a program or a case needs around it.
SURROUNDINGS = {
    "multicast": {"HOSTCUDA_MACHINE": "h100x8"},
    "devices_by_number": {"CUDA_VISIBLE_DEVICES": ""},
    "nothing_works_without_a_machine": {"HOSTCUDA_MACHINE": "none"},
}
# It weighs the process, to which AddressSanitizer adds what was freed last, so as to notice a late use.
LEFT_OUT = {"nothing_is_left_of_thousands"}
# hostcuda writes an int through a pointer of the program's: what is wrong with it, and what is said of that.
FAULTS = {
    "new char[2]": "heap-buffer-overflow",
    "new char[16] + 1": "misaligned address",
}


@pytest.fixture
def watched(tmp_path: Path) -> dict[str, str]:
    """An environment that puts the instrumented hostcuda before the one that a program was linked with."""
    return {**settings(tmp_path), **preloads()}


@pytest.mark.parametrize("name", sorted(file.stem for file in (HERE / "programs").glob("*.cc")))
def test_nothing_is_reported(run: Run, watched: dict[str, str], tmp_path: Path, name: str) -> None:
    cases = run(name, check=False).stdout.split()
    assert cases
    for case in set(cases) - LEFT_OUT:
        done = run(name, case, env={**watched, **SURROUNDINGS.get(name, {}), **SURROUNDINGS.get(case, {})})
        assert reports(tmp_path, done) == "", case


@pytest.mark.parametrize("pointer", FAULTS)
def test_what_is_wrong_is_reported(libraries: Path, watched: dict[str, str], tmp_path: Path, pointer: str) -> None:
    source = tmp_path / "wrong.cc"
    source.write_text(
        "#include <cuda_runtime_api.h>\n"
        f"int main() {{ return cudaGetDeviceCount(reinterpret_cast<int*>({pointer})); }}\n"
    )
    wrong = compile_program(source, libraries, tmp_path / "wrong")
    found = reports(tmp_path, subprocess.run([wrong], env=watched, capture_output=True, text=True, timeout=60))
    assert FAULTS[pointer] in found and "hostcuda/runtime/api_device.cc" in found
