# SPDX-License-Identifier: Apache-2.0
"""nccl-tests' table is read as it is printed, and differences are what they are called."""

from __future__ import annotations

import pytest

from lagom.harness.tables import Row, differences, mean_ratio, read, text

PRINTED = """\
# nccl-tests version 2.19.6 nccl-headers=22907 nccl-library=22907
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    10.50    0.10    0.10       0     9.25    0.11    0.11       0
some other line 1 2 3 4 5 6 7 8 9 10 11 12
    33554432       8388608  bfloat16    none       0   712345   47.10   47.10     N/A   701.1   47.86   47.86     N/A
        2048           512     float     sum      -1    20.0    0.10    0.10       3    20.0    0.11    0.11  1  10:00
# Out of bounds values : 4 FAILED
"""


def test_rows() -> None:
    assert read(PRINTED) == [
        Row(("1024", "256", "float", "sum", "-1"), 10.5, 9.25, 0),
        Row(("33554432", "8388608", "bfloat16", "none", "0"), 712345.0, 701.1, None),
        Row(("2048", "512", "float", "sum", "-1"), 20.0, 20.0, 4),
    ]
    assert read("") == []


def row(size: int, us: float, wrong: int | None = 0) -> Row:
    return Row((str(size), str(size // 4), "float", "sum", "-1"), us, 2 * us, wrong)


def test_medians_and_ratios() -> None:
    found = differences(
        {
            "stock": [[row(8, 10), row(16, 20)], [row(8, 12), row(16, 20)], [row(8, 1000), row(16, 20)]],
            "patched": [[row(8, 6), row(32, 1)], [row(8, 6, 2), row(32, 1)], [row(8, 7), row(32, 1)]],
        }
    )
    (only,) = found
    assert (only.stock_us, only.patched_us, only.ratios, only.wrong) == ((12, 24), (6, 12), (0.5, 0.5), 2)
    assert mean_ratio(found) == pytest.approx(0.5)
    assert text(found).splitlines()[1].split() == [
        *("8", "float", "sum", "-1", "12.00", "6.00", "0.500"),
        *("24.00", "12.00", "0.500", "2"),
    ]
    assert "0.5000 over 1 sizes" in text(found)


def test_no_time_is_no_ratio() -> None:
    found = differences({"stock": [[row(8, 0)]], "patched": [[row(8, 1)]]})
    assert found[0].ratios == (None, None) and mean_ratio(found) is None
    assert text(found).splitlines()[1].split()[6] == "-"
