# SPDX-License-Identifier: Apache-2.0
"""What a run measured, as all reports see it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceLine:
    """A rank and its device, as the header lists them."""

    rank: int
    pid: int
    host: str
    device: int
    bus: str
    name: str


@dataclass(frozen=True)
class Header:
    """Facts about the run that do not change from size to size."""

    library: str
    nccl_version: int
    devices: list[DeviceLine]


@dataclass(frozen=True)
class Spread:
    """Times of single iterations in microseconds; each iteration's time is its slowest rank's."""

    min_us: float
    max_us: float
    p99_us: float
    cv_percent: float


@dataclass(frozen=True)
class Side:
    """One half of a row. ``wrong`` is None where results were not checked; bandwidths are in GB/s (1e9 bytes)."""

    time_us: float
    alg_gbps: float
    bus_gbps: float
    wrong: int | None
    spread: Spread | None
    knobs: str | None


NOT_RUN = Side(0.0, 0.0, 0.0, None, None, None)
"""The in-place half of a collective that has none."""


@dataclass(frozen=True)
class Row:
    """One size: bytes, element count, nccl-tests' names of type and operation, root (-1: none), and both halves."""

    nbytes: int
    count: int
    dtype: str
    op: str
    root: int
    out_of_place: Side
    in_place: Side
    finished: str


@dataclass(frozen=True)
class Summary:
    """The end of a run."""

    wrong: int
    average_bus_gbps: float
    bandwidth_ok: bool | None
    """None where no minimum was set."""
