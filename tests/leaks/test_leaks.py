# SPDX-License-Identifier: Apache-2.0
"""Nothing grows: communicators made and destroyed over and over, and many collectives on one.

Judged by what a process holds late beside what it held in the middle of a run, so that what is set up once does not
count. `cycles.cc` says what a cycle does.
"""

import json
import os
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from builds import host_build
from nccl_dump.jobs import built_functions, compile_program, run

HERE = Path(__file__).parent
FUNCTIONS = built_functions()
COUNTED = ("descriptors", "threads", "mappings", "dev_shm", "memfd_bytes")
# NCCL itself does not free the list of a communicator's local ranks (32 bytes with malloc's own): two communicators a
# cycle. The rest is malloc's small change, which varies from sample to sample.
HEAP_BYTES_A_CYCLE = 100
SMALL_CHANGE_BYTES = 16 << 10
HEAP_BYTES_A_CALL = 1
RESIDENT_BYTES = 4 << 20  # stacks of fibers are touched deeper now and then
RESIDENT_BYTES_EARLY = 24 << 20  # and in a short run, stacks that were not in use so far: 12 MiB at once have been seen

Sample = dict[str, Any]
PLACES = {"processes": (2, 1), "devices": (1, 2)}


@pytest.fixture(scope="module")
def patched() -> Path:
    return host_build(FUNCTIONS)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, patched: Path) -> Path:
    return compile_program("cycles", tmp_path_factory.mktemp("leaks"), patched, HERE)


def orphans() -> set[str]:
    """Files in /dev/shm that no process has open or mapped."""
    there = {str(path) for path in Path("/dev/shm").iterdir() if path.is_file()}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            held = (process / "maps").read_text()
            there -= {line.split(maxsplit=5)[-1] for line in held.splitlines() if "/dev/shm/" in line}
            there -= {os.readlink(link) for link in (process / "fd").iterdir()}
        except OSError:
            continue  # gone, or not ours
    return there


def samples(
    program: Path,
    build: Path,
    *,
    place: str,
    cycles: int,
    calls: int,
    features: bool,
) -> list[list[Sample]]:
    """What each process held as it went on."""
    processes, devices = PLACES[place]
    words = [str(program), "--cycles", str(cycles), "--calls", str(calls), "--features", str(int(features))]
    words += ["--processes", str(processes), "--devices", str(devices)]
    before = orphans()
    output = run(words, build, {"HOSTCUDA_MACHINE": "a40x8"}, timeout_s=3500)
    assert not orphans() - before
    found = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return [[sample for sample in found if sample["process"] == process] for process in range(processes)]


def growth(of_process: list[Sample], field: str, per: str) -> tuple[float, float]:
    """How much more of ``field`` the last third of the samples holds than the middle third, and how far they are."""
    third = len(of_process) // 3
    middle, late = of_process[third : 2 * third], of_process[-third:]
    more = mean(sample[field] for sample in late) - mean(sample[field] for sample in middle)
    return more, mean(sample[per] for sample in late) - mean(sample[per] for sample in middle)


def judge(
    all_processes: list[list[Sample]], per: str, heap_bytes_each: float, resident_bytes: int = RESIDENT_BYTES
) -> None:
    told = []
    for of_process in all_processes:
        third = len(of_process) // 3
        assert third >= 3
        for field in COUNTED:
            most = [max(s[field] for s in part) for part in (of_process[third : 2 * third], of_process[-third:])]
            if most[1] > most[0]:
                told.append(f"{field}: {most[0]} -> {most[1]}")
        more, steps = growth(of_process, "heap_bytes", per)
        print(f"heap: {more:.0f} bytes in {steps:.0f} {per}s, {more / steps:.1f} each")
        if more > SMALL_CHANGE_BYTES + heap_bytes_each * steps:
            told.append(f"heap: {more:.0f} bytes in {steps:.0f} {per}s")
        for field in ("anonymous_bytes", "shared_bytes"):
            more, _ = growth(of_process, field, per)
            print(f"{field}: {more:.0f} more")
            if more > resident_bytes:
                told.append(f"{field}: {more:.0f} bytes in {steps:.0f} {per}s")
    assert not told, "; ".join(told)


@pytest.mark.parametrize("place", PLACES)
def test_some_communicators(program: Path, patched: Path, place: str) -> None:
    """Children, rules, counters, registered and pinned memory, own streams and events in every cycle."""
    found = samples(program, patched, place=place, cycles=18, calls=10, features=True)
    judge(found, "cycle", HEAP_BYTES_A_CYCLE, RESIDENT_BYTES_EARLY)


def test_some_calls(program: Path, patched: Path) -> None:
    found = samples(program, patched, place="processes", cycles=1, calls=2000, features=True)
    judge(found, "call", HEAP_BYTES_A_CALL, RESIDENT_BYTES_EARLY)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("features", [False, True], ids=["plain", "features"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("library", ["patched", "stock"])
def test_1000_communicators(program: Path, library: str, place: str, features: bool) -> None:
    build = host_build(FUNCTIONS, stock=library == "stock")
    found = samples(program, build, place=place, cycles=1000, calls=10, features=features)
    judge(found, "cycle", HEAP_BYTES_A_CYCLE)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("library", ["patched", "stock"])
def test_100000_calls(program: Path, library: str, place: str) -> None:
    build = host_build(FUNCTIONS, stock=library == "stock")
    found = samples(program, build, place=place, cycles=1, calls=100_000, features=library == "patched")
    judge(found, "call", HEAP_BYTES_A_CALL)
