# SPDX-License-Identifier: Apache-2.0
"""The full sampling goes on where it stopped, and starts anew when project or tests have changed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TESTS = """
import os, pytest

@pytest.mark.full
def test_passes():
    open(os.environ["COUNT"], "a").write("x")

@pytest.mark.full
def test_fails():
    open(os.environ["COUNT"], "a").write("y")
    assert False

def test_always():
    pass
"""


def full(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LAGOM_CACHE": str(folder / "cache"), "COUNT": str(folder / "count")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--full", str(folder / "tests")]
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )


def test_goes_on_where_it_stopped(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n  full: x\naddopts = -ra --import-mode=importlib\npythonpath = tests\n"
    )
    for name in ("conftest.py", "full_journal.py"):
        shutil.copy(HERE / name, tmp_path / "tests" / name)
    written = tmp_path / "tests" / "test_some.py"
    written.write_text(TESTS)
    first = full(tmp_path)
    assert "1 failed, 2 passed" in first.stdout, first.stdout + first.stderr
    again = full(tmp_path)
    assert "1 failed, 1 passed, 1 skipped" in again.stdout and "passed before in this state" in again.stdout
    assert (tmp_path / "count").read_text() == "xyy"
    written.write_text(TESTS + "\n# changed\n")
    assert "1 failed, 2 passed" in full(tmp_path).stdout
    assert (tmp_path / "count").read_text() == "xyyxy"
