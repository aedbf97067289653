# SPDX-License-Identifier: Apache-2.0
"""What `lagom run` refuses to start, in one line each."""

from pathlib import Path

import pytest
from launch import LAGOM, own_lines, run

CASES = {
    "a folder": (["--", "{folder}"], "{folder} is no file that may be executed"),
    "a file without permission": (["--", "{folder}/text"], "{folder}/text is no file that may be executed"),
    "nothing": (["--", "{folder}/none"], "no such program: {folder}/none"),
    "half a program": (["--", "{folder}/elf"], "{folder}/elf cannot be executed: Exec format error"),
    "counters into a folder": (
        ["--counters", "{folder}", "--", "true"],
        "--counters {folder}: is a folder; a file is needed",
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_refused(tmp_path: Path, what: str) -> None:
    (tmp_path / "text").write_text("echo\n")
    (tmp_path / "elf").write_bytes(b"\x7fELF")
    (tmp_path / "elf").chmod(0o755)
    words, line = CASES[what]
    done = run([*LAGOM, "run", *(word.format(folder=tmp_path) for word in words)])
    assert done.returncode == 6 and own_lines(done) == ["lagom run: " + line.format(folder=tmp_path)], done.stderr
