# SPDX-License-Identifier: Apache-2.0
"""scripts/ on a machine that is not x86-64: one line each, before anything is fetched or installed."""

import os
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture
def on_arm(tmp_path: Path) -> dict[str, str]:
    """An environment in which uname says aarch64."""
    fake = tmp_path / "uname"
    fake.write_text('#!/bin/sh\n[ "$1" = -m ] && echo aarch64 || exec /usr/bin/uname "$@"\n')
    fake.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}


def test_quickstart(on_arm: dict[str, str]) -> None:
    done = subprocess.run([CHECKOUT / "scripts" / "quickstart"], env=on_arm, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("quickstart: this machine is aarch64") and line.endswith("runs on x86-64 only")


def test_venv(on_arm: dict[str, str]) -> None:
    """It goes on, because Lagom on GPUs works there; here to a Python that is not there."""
    settings = {**on_arm, "PYTHON": "/nowhere/python"}
    done = subprocess.run([CHECKOUT / "scripts" / "venv"], env=settings, capture_output=True, text=True, timeout=60)
    first, second = done.stderr.splitlines()
    assert first.startswith("venv: this machine is aarch64: NCCL for CPUs")
    assert second.startswith("venv: no /nowhere/python")
