# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/hostcuda.md, taken from the page and run as they stand."""

import csv
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from launch import environment
from programs.conftest import HERE, Published

from lagom.build import cache

PAGE = (HERE.parents[1] / "docs" / "hostcuda.md").read_text()
PROGRAM = """
#include <cuda_runtime.h>
#include <nccl.h>
#include <cstdio>

int main() {
  int count = 0, version = 0;
  ncclComm_t comms[2];
  if (cudaGetDeviceCount(&count) || ncclGetVersion(&version) || ncclCommInitAll(comms, 2, nullptr)) return 1;
  cudaStream_t streams[2];
  float* data[2];
  ncclGroupStart();
  for (int i = 0; i < 2; ++i) {
    const float mine = i + 1;
    cudaSetDevice(i);
    cudaStreamCreate(&streams[i]);
    cudaMalloc(reinterpret_cast<void**>(&data[i]), sizeof mine);
    cudaMemcpy(data[i], &mine, sizeof mine, cudaMemcpyHostToDevice);
    ncclAllReduce(data[i], data[i], 1, ncclFloat, ncclSum, comms[i], streams[i]);
  }
  if (ncclGroupEnd()) return 1;
  for (int i = 0; i < 2; ++i) {
    float result = 0;
    cudaSetDevice(i);
    cudaStreamSynchronize(streams[i]);
    cudaMemcpy(&result, data[i], sizeof result, cudaMemcpyDeviceToHost);
    std::printf("%d devices, NCCL %d, rank %d: %g\\n", count, version, i, result);
    ncclCommDestroy(comms[i]);
  }
}
"""
EXPECTED = ["8 devices, NCCL 22907, rank 0: 3", "8 devices, NCCL 22907, rank 1: 3"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, published: Published) -> Path:
    """With program, as the page's own lines make it."""
    made = tmp_path_factory.mktemp("documented")
    (made / "program.cc").write_text(PROGRAM)
    lines = re.search(r"^    (B=.*)\n    (g\+\+ .* -o program)$", PAGE, re.MULTILINE)
    assert lines
    say(made, f"{lines[2]}")
    return made


def say(folder: Path, line: str) -> str:
    """What a shell makes of a line of the page; B is the page's, but for where this cache is."""
    settings = {"B": str(cache.current("host")), "PATH": environment()["PATH"]}
    done = subprocess.run(["bash", "-c", line], cwd=folder, env=environment(settings), capture_output=True, text=True)
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


def of_table(what: str) -> str:
    row = re.search(rf"^\| {re.escape(what)} \| `([^`]+)`", PAGE, re.MULTILINE)
    assert row, what
    return row[1]


def test_run(folder: Path) -> None:
    assert say(folder, of_table("run it").split(",")[0]).splitlines() == EXPECTED


@pytest.mark.skipif(shutil.which("lagom") is None, reason="no lagom on PATH")
def test_counters(folder: Path) -> None:
    line = of_table("with a plan or counters").replace("--plan plan.csv ", "")
    assert say(folder, line).splitlines() == EXPECTED
    (file,) = folder.glob("ran.csv*")
    with file.open() as text:
        rows = list(csv.DictReader(text))
    assert sorted((row["collective"], row["rank"], row["count"]) for row in rows) == [
        ("allreduce", "0", "1"),
        ("allreduce", "1", "1"),
    ]


@pytest.mark.parametrize(
    "what",
    [
        "a program that was compiled elsewhere, or opens `libnccl.so.2` by name",
        "a program that comes with a NCCL of its own",
    ],
)
def test_moved(folder: Path, what: str) -> None:
    say(folder, "g++ -std=c++17 -I$B -I$B/cuda-include program.cc -L$B -lnccl -lcudart -o moved")
    assert say(folder, of_table(what).replace("./program", "./moved")).splitlines() == EXPECTED
