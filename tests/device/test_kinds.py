# SPDX-License-Identifier: Apache-2.0
"""Which device a session gets, and one clear line where it can have none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lagom.nccl as nccl
from lagom.build import cache
from lagom.device import kinds

ASK = "from lagom.device import kinds; kinds.require({kind!r})"


def last_line(kind: str | None, **environment: str) -> str:
    """What a fresh process says last when it asks for a kind of device."""
    kept = {k: v for k, v in os.environ.items() if k not in ("LAGOM_NCCL", "LAGOM_CACHE", "LD_PRELOAD")}
    command = [sys.executable, "-P", "-c", ASK.format(kind=kind)]
    done = subprocess.run(command, env={**kept, **environment}, capture_output=True, text=True, timeout=60)
    return done.stderr.strip().splitlines()[-1] if done.returncode else "fine"


def test_gpus_need_a_build_for_gpus(tmp_path: Path) -> None:
    assert "no build of NCCL for GPUs; make one with `lagom build --flavour cuda" in last_line(
        "cuda", LAGOM_CACHE=str(tmp_path)
    )


def test_hostcuda_is_no_gpu(hostcuda: nccl.Library) -> None:
    assert kinds.require("hostcuda") == kinds.require() == hostcuda
    assert "asked for cuda, but the CUDA runtime at" in last_line("cuda", LAGOM_NCCL=hostcuda.path)


def test_a_build_for_gpus_without_a_gpu() -> None:
    built = cache.current("cuda")
    if not built.exists():
        pytest.skip("no CUDA build in the cache: lagom build --flavour cuda")
    if Path("/dev/nvidia0").exists():
        pytest.skip("this machine has a GPU")
    for kind in ("cuda", None):
        line = last_line(kind, LAGOM_NCCL=str(built))
        assert "no GPU can be used on this machine: cudaGetDeviceCount failed" in line
    assert "asked for hostcuda, but the CUDA runtime at" in last_line("hostcuda", LAGOM_NCCL=str(built))
