# SPDX-License-Identifier: Apache-2.0
"""The counters of the proof run against the plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from lagom.device import DeviceError
from lagom.nccl import Knobs
from lagom.tuning.preloaded import check_plan, counters_path, writable_folder
from lagom.workload import preset

WORKLOAD = preset("phi2-fsdp-a40")
PLANNED = Knobs("ring", "simple", 2, 544, 1 << 20)
HEADER = (
    "rank,collective,bytes,asked_algorithm,asked_protocol,asked_channels,asked_threads,asked_chunk_bytes,"
    "used_algorithm,used_protocol,used_channels,used_threads,used_chunk_bytes,exact,distinct_sms,sm_ns,wait_ns"
)
BARRIER = "0,allgather,8,-1,-1,-1,-1,-1,ring,ll,1,96,16,1,1,10,5"
GATHER = "0,allgather,157342720,ring,simple,2,544,1048576,ring,simple,2,544,1048576,1,2,8000,2000"


def write(folder: Path, *rows: str) -> Path:
    """A counters file."""
    path = counters_path(folder, 0)
    path.write_text("\n".join(("# lagom", HEADER, *rows)) + "\n")
    return path


def test_exactly_the_plan(tmp_path: Path) -> None:
    (use,) = check_plan(write(tmp_path, BARRIER, GATHER), WORKLOAD, 4, {0: PLANNED})
    assert (use.knobs, use.sms, use.sm_us, use.wait_share) == (PLANNED, 2, 8.0, 0.25)


def test_without_a_plan_whatever_ran_is_told(tmp_path: Path) -> None:
    (use,) = check_plan(write(tmp_path, BARRIER, GATHER), WORKLOAD, 4, {})
    assert use.knobs == PLANNED


@pytest.mark.parametrize(
    ("old", "new"),
    [("simple,2,544,1048576,1", "simple,3,544,1048576,1"), ("simple,2,544,1048576,1", "simple,2,544,524288,1")],
)
def test_other_knobs_than_planned(tmp_path: Path, old: str, new: str) -> None:
    with pytest.raises(DeviceError, match="but the plan says"):
        check_plan(write(tmp_path, BARRIER, GATHER.replace(old, new)), WORKLOAD, 4, {0: PLANNED})


def test_not_exact(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="not exactly the plan"):
        check_plan(write(tmp_path, GATHER.replace("1048576,1,", "1048576,0,")), WORKLOAD, 4, {0: PLANNED})


def test_a_communication_without_a_row(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="no row for 'gather-next-layer'"):
        check_plan(write(tmp_path, BARRIER), WORKLOAD, 4, {0: PLANNED})
    with pytest.raises(DeviceError, match="left no counters"):
        check_plan(tmp_path / "none.csv", WORKLOAD, 4, {0: PLANNED})


def test_folders(tmp_path: Path) -> None:
    assert writable_folder(tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"cannot write to .*: Not a directory"):
        writable_folder(tmp_path / "file" / "x")
