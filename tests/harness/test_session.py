# SPDX-License-Identifier: Apache-2.0
"""What a session does with programs that work, fail, hang or take another library; no MPI and no NCCL needed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from lagom.harness.launchers import Launcher
from lagom.harness.libraries import Library, library
from lagom.harness.session import Job, perform

ROW = "    {size} 256 float sum -1 {us} 1.0 1.0 {wrong} {us} 1.0 1.0 0"
# Prints a table that depends on what is preloaded, and counts how often it was started.
PROGRAM = """
import os, sys
print("# in use", "from", os.environ["LD_PRELOAD"])
side = "stock" if "stock" in os.environ["LD_PRELOAD"] else "patched"
assert "LAGOM_PLAN" not in os.environ
for size in (8, 16):
    print(f"{size} 2 float sum -1 {size * (1 if side == 'stock' else 2)} 1.0 1.0 0 4.0 1.0 1.0 0")
"""


@pytest.fixture
def sides(tmp_path: Path) -> list[Library]:
    # Nothing that the loader could load: it says so and starts the program all the same.
    return [Library(side, tmp_path / f"{side}.so") for side in ("stock", "patched")]


def session(folder: Path, sides: list[Library], job: Job, repeats: int = 2, limit_s: float = 60) -> tuple[int, str]:
    status = perform([job], sides, Launcher((), 1), folder, repeats, limit_s, lambda _: None)
    return status, (folder / "harness.txt").read_text()


def python(text: str, **fields: bool) -> Job:
    return Job("job", (sys.executable, "-c", text), **fields)


def test_both_sides_in_turns(tmp_path: Path, sides: list[Library], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAGOM_PLAN", "/of/somebody/else.csv")
    status, text = session(tmp_path, sides, python(PROGRAM, says_library=True), repeats=3)
    assert status == 0, text
    data = json.loads((tmp_path / "harness.json").read_text())
    order = [(one["side"], one["repeat"]) for one in data["runs"]]
    assert order == [("stock", 0), ("patched", 0), ("patched", 1), ("stock", 1), ("stock", 2), ("patched", 2)]
    assert [one["ratios"] for one in data["differences"]["job"]] == [[2.0, 1.0], [2.0, 1.0]]
    assert "mean ratio patched/stock: 1.4142 over 2 sizes" in text
    assert sorted(path.name for path in tmp_path.glob("*.log")) == sorted(
        f"job-{side}-{repeat}.log" for side in ("stock", "patched") for repeat in (1, 2, 3)
    )
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("program", "status", "words"),
    [
        ("import sys; print('# a', file=sys.stderr); sys.exit('the reason')", 1, "exit status 1: the reason"),
        ("print('8 2 float sum -1 1 1 1 5 1 1 1 0')", 7, "wrong data"),
        ("print('nothing of interest')", 1, "it printed no table in nccl-tests' format"),
        ("raise SystemExit(7)", 7, "wrong data"),
    ],
)
def test_failures_are_told(tmp_path: Path, sides: list[Library], program: str, status: int, words: str) -> None:
    found, text = session(tmp_path, sides, python(program))
    assert found == status and text.count(words) == 4 and "nothing to compare" in text


def test_a_library_that_was_not_taken(tmp_path: Path, sides: list[Library]) -> None:
    found, text = session(
        tmp_path, sides, python(PROGRAM.replace('LD_PRELOAD"])\nside', 'PWD"])\nside'), says_library=True)
    )
    assert found == 1 and f"it did not run with {sides[0].path}" in text


def test_what_hangs_is_ended_with_its_children(tmp_path: Path, sides: list[Library]) -> None:
    hang = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid, flush=True); import time; time.sleep(600)"
    found, text = session(tmp_path, sides[:1], python(hang), repeats=1, limit_s=3)
    assert found == 1 and "did not end within 3 s" in text
    child = next(int(line) for line in (tmp_path / "job-stock-1.log").read_text().splitlines() if line.isdigit())
    # Gone, or dead and waiting for somebody to look.
    stat = Path(f"/proc/{child}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"


def test_tests_have_no_table(tmp_path: Path, sides: list[Library]) -> None:
    found, text = session(tmp_path, sides, python("print('3 passed')", compares=False), repeats=5)
    assert found == 0 and text.count("passed (job-") == 2


def test_libraries_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in (("stock", b""), ("other", b"ncclCommSetKnobRules\0")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "libnccl.so.2").write_bytes(b"\x7fELF pncclGetVersion\0" + content)
    assert library("stock", tmp_path / "stock", "host").path == tmp_path / "stock" / "libnccl.so.2"
    assert library("patched", tmp_path / "other" / "libnccl.so.2", "host").side == "patched"
    with pytest.raises(ValueError, match=r"--stock .*other/libnccl\.so\.2: this NCCL is patched"):
        library("stock", tmp_path / "other", "host")
    with pytest.raises(ValueError, match=r"--patched .*: this NCCL is not patched"):
        library("patched", tmp_path / "stock", "host")
    for bad in (b"", b"text"):
        (tmp_path / "bad").write_bytes(bad)
        with pytest.raises(ValueError, match=r"--stock .*bad: not a NCCL library"):
            library("stock", tmp_path / "bad", "host")
    with pytest.raises(ValueError, match=r"--stock .*/nowhere: No such file"):
        library("stock", tmp_path / "nowhere", "host")
    monkeypatch.setenv("LAGOM_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ValueError, match=r"no stock build in .*: make one with `lagom build --flavour cuda --stock`"):
        library("stock", None, "cuda")
    with pytest.raises(
        ValueError, match=r"no patched build in .*: make one with `lagom build`, or give --patched PATH"
    ):
        library("patched", None, "host")


def test_hostcuda_comes_along(tmp_path: Path) -> None:
    side = Library("stock", tmp_path / "libnccl.so.2")
    assert side.environment() == {"LD_PRELOAD": str(side.path)}
    (tmp_path / "libcudart.so.13").touch()
    assert side.environment() == {
        "LD_PRELOAD": f"{side.path}:{tmp_path / 'libcudart.so.13'}",
        "LD_LIBRARY_PATH": str(tmp_path),
    }
