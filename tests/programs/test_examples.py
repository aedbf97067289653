# SPDX-License-Identifier: Apache-2.0
"""NCCL's docs/examples 01 to 05, as they are, with g++. 06 is device code of its own, which needs nvcc and a GPU.

The communicators of 01 are judged by what each rank says of itself. 02 to 05 move data: every element of every buffer
is compared with NumPy through ``watch.cc``, since 02 looks at the first element of each GPU only, 03 likewise, and 04
and 05 on rank 0 only.
"""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from launch import NEEDS_MPIRUN, mpirun, run
from programs.conftest import HERE, Compile, Published, gib_free

MPI = ["-DMPI_SUPPORT"]
Program = Callable[..., Path]


@pytest.fixture(scope="session")
def example(compiled: Compile, published: Published, nccl_source: Path) -> Program:
    """example("04_user_buffer_registration/01_allreduce") is the program; mpi=True with MPI instead of threads."""
    top = nccl_source / "docs" / "examples"

    def build(name: str, mpi: bool = False) -> Path:
        text = (top / name / "main.cc").read_text()
        shared = [top / "common" / "src" / "utils.cc"] if '#include "utils.h"' in text else []
        options = ["-std=c++17", "-O2", f"-I{top / 'common' / 'include'}", *published.compile_options(), "-pthread"]
        label = name.replace("/", "-") + ("-mpi" if mpi else "")
        libraries = published.link_options()
        sources = [top / name / "main.cc", *shared]
        return compiled(label, sources, [*options, *(MPI if mpi else []), *libraries], "mpicxx" if mpi else "g++")

    return build


@pytest.fixture(scope="session")
def watch(compiled: Compile, published: Published) -> Path:
    options = ["-std=c++17", "-O2", "-fPIC", "-shared", *published.compile_options(), "-ldl"]
    return compiled("watch.so", [HERE / "watch.cc"], options)


def contents(piece: Callable[[np.ndarray], np.ndarray], count: int) -> int:
    """The number that watch.cc makes of ``count`` floats; ``piece`` gives those at the places it is asked for."""
    total = 0
    for first in range(0, count, 1 << 23):
        places = np.arange(first, min(first + (1 << 23), count), dtype=np.uint64)
        words = piece(places).astype(np.float32).view(np.uint32).astype(np.uint64)
        total += int((words * (places + np.uint64(1))).sum(dtype=np.uint64))
    return total % 2**64


def everywhere(value: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda places: np.full(places.shape, value)


def first_only(value: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda places: np.where(places == 0, value, 0.0)


def seen(file: Path) -> list[tuple[str, int, int, int, int, int]]:
    """(what, rank, ranks, count, peer, contents) of every buffer, in order."""
    found = re.findall(
        r"^(\S+) rank (\d+) of (\d+) dtype 7 count (\d+) peer (-?\d+) contents (\d+)$", file.read_text(), re.MULTILINE
    )
    return sorted((what, *map(int, numbers)) for what, *numbers in found)  # type: ignore[misc]


def some_gpus(count: int) -> dict[str, str]:
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(count)))}


@pytest.mark.parametrize("count", [3, pytest.param(8, marks=pytest.mark.full)])
def test_01_devices_of_one_process(example: Program, count: int) -> None:
    done = run([str(example("01_communicators/01_multiple_devices_single_process"))], some_gpus(count))
    assert done.returncode == 0, done.stdout + done.stderr
    told = re.findall(r"Communicator (\d+): Rank (\d+)/(\d+) on CUDA device (\d+)$", done.stdout, re.MULTILINE)
    assert [tuple(map(int, numbers)) for numbers in told] == [(i, i, count, i) for i in range(count)]
    assert len(re.findall(r"GPU \d+: NVIDIA A40 ", done.stdout)) == count
    assert done.stdout.count("Compute Capability: 8.6") == count


@pytest.mark.parametrize("count", [3, pytest.param(8, marks=pytest.mark.full)])
def test_01_a_device_a_thread(example: Program, count: int) -> None:
    done = run([str(example("01_communicators/02_one_device_per_pthread"))], some_gpus(count))
    assert done.returncode == 0, done.stdout + done.stderr
    told = re.findall(r"Thread (\d+): Communicator thread_id (\d+) of (\d+)$", done.stdout, re.MULTILINE)
    assert sorted(tuple(map(int, numbers)) for numbers in told) == [(i, i, count) for i in range(count)]


@NEEDS_MPIRUN
def test_01_a_device_a_process(example: Program) -> None:
    done = mpirun(3, [str(example("01_communicators/03_one_device_per_process_mpi", mpi=True))])
    assert done.returncode == 0, done.stdout + done.stderr
    told = re.findall(r"MPI rank (\d+) → NCCL rank (\d+)/(\d+) on GPU device (\d+)", done.stdout, re.MULTILINE)
    assert sorted(tuple(map(int, numbers)) for numbers in told) == [(i, i, 3, i) for i in range(3)]


@pytest.mark.full
def test_02_ring(example: Program, watch: Path, tmp_path: Path) -> None:
    """1 GiB from each GPU to the next."""
    if gib_free() < 10:
        pytest.skip(f"this example fills 8 GiB of memory with 2 GPUs, and {gib_free():.1f} GiB are free")
    more = {"LD_PRELOAD": str(watch), "WATCH_FILE": str(tmp_path / "seen"), **some_gpus(2)}
    done = run([str(example("02_point_to_point/01_ring_pattern"))], more, timeout_s=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"GPU (\d) received data from GPU (\d): (\w+)", done.stdout) == [
        ("0", "1", "CORRECT"),
        ("1", "0", "CORRECT"),
    ]
    count = 1 << 28
    sent = [contents(lambda places, of=rank: of * 1000.0 + places % 1000, count) for rank in range(2)]  # type: ignore[misc]
    assert seen(tmp_path / "seen") == [
        ("receive", 0, 2, count, 1, sent[1]),
        ("receive", 1, 2, count, 0, sent[0]),
        ("send", 0, 2, count, 1, sent[0]),
        ("send", 1, 2, count, 0, sent[1]),
    ]


def test_03_allreduce(example: Program, watch: Path, tmp_path: Path) -> None:
    more = {"LD_PRELOAD": str(watch), "WATCH_FILE": str(tmp_path / "seen"), **some_gpus(2)}
    done = run([str(example("03_collectives/01_allreduce"))], more)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"Device (\d) correctly received sum: (\d+)", done.stdout) == [("0", "1"), ("1", "1")]
    count = 32 << 20
    result = contents(first_only(1.0), count)
    assert seen(tmp_path / "seen") == [
        ("allreduce-in", 0, 2, count, -1, contents(first_only(0.0), count)),
        ("allreduce-in", 1, 2, count, -1, contents(first_only(1.0), count)),
        ("allreduce-out", 0, 2, count, -1, result),
        ("allreduce-out", 1, 2, count, -1, result),
    ]


def check_sum_of_ranks(file: Path, ranks: int) -> None:
    """04 and 05 add the ranks' numbers up, in 1 Mi elements."""
    count = 1 << 20
    result = contents(everywhere(ranks * (ranks - 1) / 2), count)
    assert seen(file) == [
        *(("allreduce-in", rank, ranks, count, -1, contents(everywhere(rank), count)) for rank in range(ranks)),
        *(("allreduce-out", rank, ranks, count, -1, result) for rank in range(ranks)),
    ]


ALLREDUCES = {
    "04_user_buffer_registration/01_allreduce": "buffers deregistered",
    "05_symmetric_memory/01_allreduce": "symmetric memory windows deregistered",
}


def verified(output: str, expected: float) -> bool:
    """Whether the example found its sum right. Other ranks' lines may stand between its two."""
    found = f"Verification - Expected: {expected}, Got: {expected}\n" in output
    return found and "Results verified correctly" in output


@pytest.mark.parametrize("name", ALLREDUCES)
def test_04_and_05_with_threads(example: Program, watch: Path, tmp_path: Path, name: str) -> None:
    more = {"LD_PRELOAD": str(watch), "WATCH_FILE": str(tmp_path / "seen"), "NTHREADS": "3"}
    done = run([str(example(name))], more)
    if missing := re.search(r"kernel ncclSymk\w+ is not in this build", done.stderr):
        pytest.skip(f"{missing[0]}: NCCL takes symmetric kernels for this one")
    assert done.returncode == 0, done.stdout + done.stderr
    assert verified(done.stdout, 3.0)
    assert len(re.findall(rf"Rank \d {ALLREDUCES[name]}", done.stdout)) == 3
    check_sum_of_ranks(tmp_path / "seen", 3)


@NEEDS_MPIRUN
@pytest.mark.parametrize("name", ALLREDUCES)
def test_04_and_05_with_mpi(example: Program, watch: Path, tmp_path: Path, name: str) -> None:
    program = str(example(name, mpi=True))
    words = ["env", f"LD_PRELOAD={watch}", f"WATCH_FILE={tmp_path / 'seen'}", program]
    done = mpirun(2, words)
    if missing := re.search(r"kernel ncclSymk\w+ is not in this build", done.stderr):
        pytest.skip(f"{missing[0]}: NCCL takes symmetric kernels for this one")
    assert done.returncode == 0, done.stdout + done.stderr
    assert verified(done.stdout, 1.0)
    check_sum_of_ranks(tmp_path / "seen", 2)


def test_04_more_threads_than_devices(example: Program) -> None:
    """The example's own check, from the count that hostcuda gives."""
    done = run([str(example("04_user_buffer_registration/01_allreduce"))], {"NTHREADS": "9"})
    assert done.returncode == 1
    assert "Requested 9 threads but only 8 GPUs available" in done.stdout


@NEEDS_MPIRUN
def test_01_more_ranks_than_devices(example: Program) -> None:
    program = str(example("01_communicators/03_one_device_per_process_mpi", mpi=True))
    done = mpirun(2, [program], some_gpus(1))
    assert done.returncode != 0
    assert "Process 1 needs GPU 1 but only 1 devices available" in done.stderr
