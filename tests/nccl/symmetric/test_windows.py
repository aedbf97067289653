# SPDX-License-Identifier: Apache-2.0
"""What NCCL does with windows: symmetric kernels, collectives by copy engines, one-sided calls. A sample normally,
every case with --full; LAGOM_TEST_SEED draws the cases of an earlier run again."""

import os
import random
import re
import sys
from pathlib import Path

import pytest
from builds import host_build
from launch import NEEDS_MPIRUN, mpirun

pytestmark = NEEDS_MPIRUN
HERE = Path(__file__).parent
NEEDED = "Symmetric AllGather|Symmetric (AllReduce|ReduceScatter) Sum (f32|f16|bf16)"
ALL_NVLINK = {"HOSTCUDA_MACHINE": "a100x8"}
# Those without a switch that reduces and multicasts; each is forced in turn.
KERNELS = (
    "AllReduce_AGxLL_R",
    "AllReduce_RSxLD_AGxST",
    "AllGather_LL",
    "AllGather_ST",
    "ReduceScatter_LL",
    "ReduceScatter_LD",
)
COLLECTIVE = {"AllReduce": "all_reduce", "AllGather": "all_gather", "ReduceScatter": "reduce_scatter"}


@pytest.fixture(scope="session")
def seed() -> int:
    return int(os.environ.get("LAGOM_TEST_SEED", random.randrange(1 << 30)))


def run(
    capsys: pytest.CaptureFixture[str], ranks: int, words: list[str], more: dict[str, str], timeout_s: float = 300
) -> str:
    """What a program of this folder says; fails unless it had cases and none of them failed."""
    environment = {"LAGOM_NCCL": str(host_build(NEEDED)), **ALL_NVLINK, **more}
    done = mpirun(ranks, [sys.executable, str(HERE / words[0]), *words[1:]], environment, timeout_s)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    counted = re.search(r"^([1-9]\d*) .*; 0 failures$", done.stdout, re.MULTILINE)
    assert counted, done.stdout
    with capsys.disabled():
        print(f"\n{counted[0]}")
    return done.stdout


@pytest.mark.parametrize("ranks", [2, 4])
def test_own_choice(capsys: pytest.CaptureFixture[str], seed: int, ranks: int) -> None:
    said = run(capsys, ranks, ["collectives.py", "--sample", "40", "--seed", str(seed)], {})
    # With this many cases NCCL takes kernels for small and for large data.
    assert "LL" in said
    assert re.search("AGxST|AllGather_ST|ReduceScatter_LD", said)


def test_a_forced_kernel(capsys: pytest.CaptureFixture[str], seed: int) -> None:
    kernel = KERNELS[seed % len(KERNELS)]
    words = ["collectives.py", "--sample", "30", "--seed", str(seed), "--collective", COLLECTIVE[kernel.split("_")[0]]]
    assert f"ncclSymkDevKernel_{kernel}" in run(capsys, 3, words, {"NCCL_SYM_KERNEL": kernel})


@pytest.mark.full
@pytest.mark.timeout(4000)
@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("kernel", [*KERNELS, None])
def test_every_case(capsys: pytest.CaptureFixture[str], ranks: int, kernel: str | None) -> None:
    more = {"NCCL_SYM_KERNEL": kernel} if kernel else {}
    words = ["--collective", COLLECTIVE[kernel.split("_")[0]]] if kernel else []
    said = run(capsys, ranks, ["collectives.py", *words], more, timeout_s=3900)
    assert kernel is None or f"ncclSymkDevKernel_{kernel}" in said


@pytest.mark.full
@pytest.mark.timeout(4000)
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_eight_bit_floats(capsys: pytest.CaptureFixture[str], ranks: int) -> None:
    """From compute capability 9.0 on."""
    library = host_build("Symmetric (AllReduce|ReduceScatter) Sum (f8e4m3|f8e5m2)", arch=900)
    types = ["--collective", "all_reduce", "reduce_scatter", "--dtype", "float8_e4m3fn", "float8_e5m2"]
    more = {"LAGOM_NCCL": str(library), "HOSTCUDA_MACHINE": "h100x8"}
    run(capsys, ranks, ["collectives.py", *types, "--registered", "both"], more, timeout_s=3900)


def test_windows_where_not_all_is_nvlink(capsys: pytest.CaptureFixture[str], seed: int) -> None:
    """Four A40s: pairs with NVLink. NCCL then takes ordinary kernels, windows or not."""
    words = [
        "collectives.py",
        "--sample",
        "3",
        "--seed",
        str(seed),
        "--collective",
        "all_gather",
        "--registered",
        "none",
    ]
    said = run(capsys, 4, words, {"HOSTCUDA_MACHINE": "a40x8"})
    assert "ncclSymkDevKernel" not in said


@pytest.mark.parametrize("ranks", [2, 4])
def test_copy_engines(capsys: pytest.CaptureFixture[str], seed: int, ranks: int) -> None:
    run(capsys, ranks, ["copies.py", "--sample", "30", "--seed", str(seed)], {})


@pytest.mark.full
@pytest.mark.timeout(4000)
@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
def test_copy_engines_every_case(capsys: pytest.CaptureFixture[str], ranks: int) -> None:
    run(capsys, ranks, ["copies.py"], {}, timeout_s=3900)


@pytest.mark.parametrize("ranks", [3])
def test_one_sided(capsys: pytest.CaptureFixture[str], ranks: int) -> None:
    run(capsys, ranks, ["one_sided.py"], {})


@pytest.mark.full
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_one_sided_on_more(capsys: pytest.CaptureFixture[str], ranks: int) -> None:
    run(capsys, ranks, ["one_sided.py"], {})


@pytest.mark.parametrize("kind", ["kernels", "copies"])
def test_a_rule_takes_the_ordinary_kernel(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    run(capsys, 2, ["rules.py", kind], {})
