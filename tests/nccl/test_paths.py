# SPDX-License-Identifier: Apache-2.0
"""NVLink SHARP, NVLS tree, PAT, registered buffers and single ranks against NumPy, see paths.py. A sample normally, all
cases with --full. NCCL's own log says which path was taken.
"""

import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from builds import hopper
from launch import NEEDS_MPIRUN, run

pytestmark = NEEDS_MPIRUN
PATHS = [sys.executable, "-P", str(Path(__file__).with_name("paths.py"))]
DTYPES = (
    "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64",
    "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip
# What scripts/test-functions has for the ring.
BUILT_TYPES = ("int32", "uint32", "float16", "bfloat16", "float32", "float64")
BUILT_OPS = ("sum", "max", "min", "avg", "mulsum")
# NCCL's NVLS tree wants a network interface a channel and at least two: a network namespace with a pair of them.
TWO_NICS = [
    "unshare", "--net", "sh", "-ec",
    "ip link set lo up; ip link add hc0 type veth peer name hc1\n"
    "for n in 0 1; do ip addr add 10.9.$n.1/24 dev hc$n; ip link set hc$n up; done\nexec \"$@\"",
    "sh",
]  # fmt: skip


@pytest.fixture(scope="module")
def two_nics() -> list[str]:
    probe = subprocess.run([*TWO_NICS, "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"no network namespace with interfaces of its own: {probe.stderr.strip()}")
    return TWO_NICS


@pytest.fixture
def seed() -> int:
    """LAGOM_TEST_SEED draws the cases of an earlier run again."""
    return int(os.environ.get("LAGOM_TEST_SEED", random.randrange(1 << 30)))


class Said:
    """What paths.py printed last, and NCCL's log of all ranks."""

    def __init__(self, line: str, log: str) -> None:
        self.ran = int(re.search(r"(\d+) ran", line)[1])  # type: ignore[index]
        self.log = log
        # One line a collective that is not empty. Rules, and registering anew, add some.
        self.algorithms = Counter(re.findall(r"-> Algo (\w+) proto", log))


def launch(
    capsys: pytest.CaptureFixture[str],
    folder: Path,
    ranks: int,
    words: list[str],
    environment: Mapping[str, str],
    timeout_s: float,
    within: list[str] | None = None,
) -> Said:
    more = {
        **environment,
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "TUNING,REG,NVLS",
        "NCCL_DEBUG_FILE": f"{folder}/%p",
    }
    done = run([*(within or []), "mpirun", "-n", str(ranks), *PATHS, *words], more, timeout_s)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    line = re.search(r"^\d+ of \d+ cases, seed \d+: \d+ ran, 0 failures$", done.stdout, re.MULTILINE)
    assert line, done.stdout
    with capsys.disabled():
        print(f"\n{' '.join(words)} on {ranks} ranks: {line[0]}")
    return Said(line[0], "\n".join(file.read_text() for file in folder.iterdir()))


def arguments(path: str, sample: int | None, seed: int) -> list[str]:
    return [path] if sample is None else [path, "--sample", str(sample), "--seed", str(seed)]


def check_nvls(capsys, folder: Path, ranks: int, sample: int | None, seed: int) -> None:
    environment = {**hopper(), "NCCL_ALGO": "NVLS"}
    said = launch(capsys, folder, ranks, arguments("nvls", sample, seed), environment, 3900 if sample is None else 200)
    assert said.algorithms.keys() == {"NVLS"} and said.algorithms["NVLS"] >= said.ran


def check_tree(capsys, folder: Path, ranks: int, sample: int | None, seed: int, nics: list[str]) -> None:
    environment = {
        **hopper(),
        "NCCL_ALGO": "NVLSTree",
        "NCCL_SOCKET_IFNAME": "hc",
    }
    words = [*arguments("nvls_tree", sample, seed), "--ranks-per-host", "2"]
    said = launch(capsys, folder, ranks, words, environment, 3900 if sample is None else 200, nics)
    assert said.algorithms.keys() == {"NVLS_TREE"} and said.algorithms["NVLS_TREE"] >= said.ran


def check_pat(capsys, folder: Path, ranks: int, sample: int | None, seed: int) -> None:
    environment = {**hopper(), "NCCL_ALGO": "PAT"}
    words = [*arguments("pat", sample, seed), "--ranks-per-host", "1"]
    said = launch(capsys, folder, ranks, words, environment, 3900 if sample is None else 200)
    assert said.algorithms.keys() == {"PAT"} and said.algorithms["PAT"] >= said.ran


@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_nvls(capsys: pytest.CaptureFixture[str], tmp_path: Path, ranks: int, seed: int) -> None:
    check_nvls(capsys, tmp_path, ranks, 60, seed)


def test_nvls_tree(capsys: pytest.CaptureFixture[str], tmp_path: Path, seed: int, two_nics: list[str]) -> None:
    check_tree(capsys, tmp_path, 4, 48, seed, two_nics)


@pytest.mark.parametrize("ranks", [2, 5])
def test_pat(capsys: pytest.CaptureFixture[str], tmp_path: Path, ranks: int, seed: int) -> None:
    check_pat(capsys, tmp_path, ranks, 60, seed)


def test_registered_nvls(capsys: pytest.CaptureFixture[str], tmp_path: Path, seed: int) -> None:
    """Buffers of ncclMemAlloc that were registered are bound to multicast objects and used in place."""
    environment = {**hopper(), "NCCL_ALGO": "NVLS"}
    words = [*arguments("nvls", 30, seed), "--register", "nccl", "--possible-only"]
    said = launch(capsys, tmp_path, 3, words, environment, 200)
    assert "successfully registered NVLS" in said.log and "failed to NVLS register" not in said.log
    used = len(re.findall(r"rank 0 (?:successfully registered|reuse registered) NVLS", said.log))
    assert used >= said.ran  # and two collectives after registering anew
    assert said.log.count("NVLS deregistered buffer") >= 3


def test_plain_memory_after_registered_memory() -> None:
    """NCCL's own count of steps was lost where the first NVLink SHARP collective needed no buffers (patch 0012)."""
    words = ["mpirun", "-n", "3", sys.executable, "-P", str(Path(__file__).with_name("nvls_first.py"))]
    done = run(words, {**hopper(), "NCCL_ALGO": "NVLS"}, 60)
    assert done.returncode == 0 and done.stdout.count("wrong: 0 0 0 0 0 0") == 3, done.stdout + done.stderr


def test_nvls_while_the_default_stream_is_busy() -> None:
    """NCCL's zeros came late, over the peers' data and counts of steps (patch 0014)."""
    words = ["mpirun", "-n", "2", sys.executable, "-P", str(Path(__file__).with_name("nvls_busy.py"))]
    done = run(words, {**hopper(), "NCCL_ALGO": "NVLS"}, 60)
    assert done.returncode == 0 and done.stdout.count("wrong: 0 elements") == 2, done.stdout + done.stderr


def test_nvls_with_memory_that_cannot_be_bound(capsys: pytest.CaptureFixture[str], tmp_path: Path, seed: int) -> None:
    """Registered memory of cudaMalloc: NCCL copies through its own buffers, as without registering."""
    environment = {**hopper(), "NCCL_ALGO": "NVLS"}
    words = [*arguments("nvls", 6, seed), "--register", "cuda", "--possible-only"]
    said = launch(capsys, tmp_path, 2, words, environment, 200)
    assert "failed to NVLS register" in said.log and "registered NVLS" not in said.log


@pytest.mark.usefixtures("hostcuda")
@pytest.mark.parametrize(("cumem", "owner"), [("0", "cuda"), ("1", "nccl")])
def test_registered_ring(capsys: pytest.CaptureFixture[str], tmp_path: Path, seed: int, cumem: str, owner: str) -> None:
    """The same over P2P: memory of cudaMalloc through IPC handles, memory of ncclMemAlloc through file descriptors."""
    environment = {
        "NCCL_ALGO": "RING",
        "NCCL_PROTO": "SIMPLE",
        "NCCL_CUMEM_ENABLE": cumem,
        "NCCL_LEGACY_CUDA_REGISTER": "1",
    }
    words = [*arguments("ring", 30, seed), "--register", owner, "--dtype", *BUILT_TYPES, "--op", *BUILT_OPS]
    said = launch(capsys, tmp_path, 2, words, environment, 200)
    assert "IPC register buffer" in said.log and "failed to IPC register" not in said.log
    assert "IPC deregistered buffer" in said.log


@pytest.mark.usefixtures("patched")
def test_a_rule_keeps_registered_buffers_out(capsys: pytest.CaptureFixture[str], tmp_path: Path, seed: int) -> None:
    """The chunk of those paths is not the one that was asked for, so a tuned call does not take them."""
    environment = {"NCCL_ALGO": "RING", "NCCL_PROTO": "SIMPLE", "NCCL_CUMEM_ENABLE": "1"}
    words = [*arguments("ring", 10, seed), "--register", "nccl", "--tuned", "--dtype", "float32", "--op", "sum"]
    said = launch(capsys, tmp_path, 2, words, environment, 200)
    assert "register comm" in said.log and "IPC register" not in said.log and "IPC reuse" not in said.log


@pytest.mark.usefixtures("hostcuda")
def test_one_rank(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """All of it: sums are copies, and products with a scalar of host or device run NCCL's kernel for single ranks."""
    words = ["one_rank", "--sample", "100000", "--dtype", *(name for name in DTYPES if "float8" not in name)]
    said = launch(capsys, tmp_path, 1, words, {}, 200)
    assert said.ran > 1000


def test_one_rank_with_8_bit_floats(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    environment = hopper()
    words = ["one_rank", "--sample", "100000", "--dtype", *(name for name in DTYPES if "float8" in name)]
    assert launch(capsys, tmp_path, 1, words, environment, 200).ran > 100


@pytest.mark.full
@pytest.mark.parametrize("ranks", range(2, 9))
@pytest.mark.timeout(4000)
def test_all_nvls(capsys: pytest.CaptureFixture[str], tmp_path: Path, ranks: int) -> None:
    check_nvls(capsys, tmp_path, ranks, None, 0)


@pytest.mark.full
@pytest.mark.parametrize("ranks", [4, 6, 8])
@pytest.mark.timeout(4000)
def test_all_nvls_tree(capsys: pytest.CaptureFixture[str], tmp_path: Path, ranks: int, two_nics: list[str]) -> None:
    """Two, three and four hosts of two ranks."""
    check_tree(capsys, tmp_path, ranks, None, 0, two_nics)


@pytest.mark.full
@pytest.mark.parametrize("ranks", range(2, 9))
@pytest.mark.timeout(4000)
def test_all_pat(capsys: pytest.CaptureFixture[str], tmp_path: Path, ranks: int) -> None:
    check_pat(capsys, tmp_path, ranks, None, 0)
