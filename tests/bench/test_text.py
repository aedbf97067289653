# SPDX-License-Identifier: Apache-2.0
"""The table and the JSON file against real output of nccl-tests 2.19.6, where that is at hand."""

import json
import re
from pathlib import Path

import pytest

from lagom.bench import json_report, text
from lagom.bench.options import Options
from lagom.bench.results import DeviceLine, Header, Row, Side, Spread, Summary

FORMATS = Path(__file__).resolve().parents[3] / "shared" / "data" / "formats"
needs_formats = pytest.mark.skipif(not FORMATS.is_dir(), reason=f"no recorded nccl-tests output in {FORMATS}")

DEVICES = [
    DeviceLine(0, 4242, "node0", 0, "0000:10:00", "NVIDIA A100-SXM4-80GB"),
    DeviceLine(1, 4242, "node0", 1, "0000:20:00", "NVIDIA A100-SXM4-80GB"),
]
FACTS = Header("a library", 22907, DEVICES)


def side(words: list[str], *, spread: bool) -> Side:
    wrong = None if words[3] == "N/A" else int(words[3])
    shown = Spread(*(float(word) for word in words[4:8])) if spread else None
    return Side(float(words[0]), float(words[1]), float(words[2]), wrong, shown, None)


def parsed(line: str, *, spread: bool, stamp: bool) -> Row:
    words = line.split()
    half = 8 if spread else 4
    first, second = words[5 : 5 + half], words[5 + half : 5 + 2 * half]
    return Row(
        int(words[0]),
        int(words[1]),
        words[2],
        words[3],
        int(words[4]),
        side(first, spread=spread),
        side(second, spread=spread),
        " ".join(words[-2:]) if stamp else "",
    )


def rebuilt(options: Options, recorded: str, *, spread: bool, stamp: bool) -> list[str]:
    rows = [line for line in recorded.splitlines() if line and not line.startswith("#")]
    average = float(re.search(r"Avg bus bandwidth    : (\S+)", recorded)[1])  # type: ignore[index]
    parts = [text.header(options, FACTS)]
    parts += [text.row(options, parsed(line, spread=spread, stamp=stamp)) for line in rows]
    parts.append(text.footer(options, Summary(0, average, None)))
    return "\n".join(parts).splitlines()


@needs_formats
@pytest.mark.parametrize(
    ("file", "options", "extended"),
    [
        (
            "nccl-tests-2.19.6-all_reduce.txt",
            Options("all_reduce", 8, 1 << 20, step_factor=8, iterations=5),
            False,
        ),
        (
            "nccl-tests-2.19.6-all_gather-I-S.txt",
            Options(
                "all_gather",
                65536,
                262144,
                step_factor=2,
                iterations=3,
                check_iterations=0,
                per_iteration=True,
                report_timestamps=True,
            ),
            True,
        ),
    ],
)
def test_line_by_line(file: str, options: Options, extended: bool) -> None:
    recorded = (FORMATS / file).read_text()
    ours = rebuilt(options, recorded, spread=extended, stamp=extended)
    own = [line for line in ours if line.startswith("# Printed in nccl-tests' format")]
    assert len(own) == 1
    ours = [line.replace("nGpus 1", "nGpus 2") for line in ours if line not in own]
    assert ours == recorded.rstrip("\n").splitlines()


def keys(data: object) -> object:
    if isinstance(data, dict):
        return {name: keys(value) for name, value in data.items()}
    if isinstance(data, list):
        return [keys(data[0])] if data else []
    return type(data).__name__


@needs_formats
def test_json_key_by_key() -> None:
    recorded = json.loads((FORMATS / "nccl-tests-2.19.6-all_reduce.json").read_text())
    options = Options("all_reduce", 8, 1 << 20, step_factor=8, iterations=5)
    one = Side(72.91881, 0.0001099, 0.0001099, 0, None, None)
    row = Row(8, 2, "float", "sum", -1, one, one, "")
    ours = json_report.build(options, FACTS, [row], Summary(0, 0.0247346, None), "then", "now")
    ours["env"] = ["NCCL_DEBUG=WARN"]
    assert keys(ours) == keys(recorded)
    assert list(ours) == list(recorded) and list(ours["config"]) == list(recorded["config"])
    first, theirs = ours["results"][0], recorded["results"][0]
    assert first["out_of_place"] == theirs["out_of_place"]
    assert {**first, "in_place": 0} == {**theirs, "in_place": 0}


@pytest.mark.parametrize(
    ("value", "width", "shown"),
    [
        (0.0, 7, "   0.00"),
        (72.918, 7, "  72.92"),
        (9999.99, 7, "9999.99"),
        (12345.6, 7, "12345.6"),
        (1234567.8, 7, "1234568"),
        (123.456, 6, "123.46"),
        (1234.5, 6, "1234.5"),
    ],
)
def test_numbers_keep_their_columns(value: float, width: int, shown: str) -> None:
    assert text.number(value, width) == shown
