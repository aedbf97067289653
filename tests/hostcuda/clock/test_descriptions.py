# SPDX-License-Identifier: Apache-2.0
"""GPU descriptions: every figure has a source, and a wrong file is refused by file, section and key."""

import re
from pathlib import Path

import pytest
from hostcuda.clock.modelled import HOSTCUDA, ClockError, Make

GPUS = sorted((HOSTCUDA / "gpus").glob("*.ini"))
A40 = HOSTCUDA / "gpus" / "a40.ini"
ORIGINS = ("source: ", "chosen", "fitted to ", "scaled from ", "derived: ", "as cta_load_gbps")


@pytest.mark.parametrize("path", GPUS, ids=lambda p: p.stem)
def test_every_figure_has_its_source(path: Path) -> None:
    for line in path.read_text().splitlines():
        if "=" not in line or line.startswith(";"):
            continue
        comment = line.partition(";")[2].strip()
        assert comment.startswith(ORIGINS), line


@pytest.mark.parametrize("path", GPUS, ids=lambda p: p.stem)
def test_descriptions_are_read(make: Make, path: Path) -> None:
    make(path)


def changed(tmp_path: Path, pattern: str, replacement: str) -> Path:
    text, count = re.subn(pattern, replacement, A40.read_text(), flags=re.MULTILINE)
    assert count == 1
    path = tmp_path / "gpu.ini"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("pattern", "replacement", "reason"),
    [
        (r"^gbps = .*\n", "", r"gpu\.ini: key 'gbps' is missing from section \[memory\]"),
        (r"^gbps = [\d.]+", "gbps = fast", r"gpu\.ini:\d+: gbps = 'fast' is not a number"),
        (r"^gbps = [\d.]+", "gbps = -5", r"\[memory\] gbps = -5 is outside of 1\.\.100000"),
        (r"^gbps = ", "gbsp = ", r"'gbps' is missing|\[memory\] gbsp is not a figure"),
        (r"^\[memory\]", "[memory]\nspeed = 4", r"\[memory\] speed is not a figure of a GPU"),
        (r"^sms = \d+", "sms = 0", r"\[gpu\] sms = 0 is outside of 1\.\.4096"),
        (r"^sms = \d+", "sms = 8.5", r"gpu\.ini:\d+: sms = '8\.5' is not a whole number"),
        (r"^shared_bytes_per_cta = \d+", "shared_bytes_per_cta = 102400", r"exceed shared_bytes_per_sm"),
        (r"^sm_gbps = [\d.]+", "sm_gbps = 2", r"\[memory\] sm_gbps times the SMs is less than gbps"),
        (r"^buffer_share = [\d.]+", "buffer_share = 1.5", r"\[l2\] buffer_share = 1\.5 is outside of 0\.\.1"),
    ],
)
def test_wrong_descriptions_are_refused(
    make: Make, tmp_path: Path, pattern: str, replacement: str, reason: str
) -> None:
    path = changed(tmp_path, pattern, replacement)
    with pytest.raises(ClockError, match=reason) as refused:
        make(path)
    assert str(path) in str(refused.value)


def test_file_that_is_not_there(make: Make, tmp_path: Path) -> None:
    with pytest.raises(ClockError, match="cannot be read"):
        make(tmp_path / "none.ini")
