# SPDX-License-Identifier: Apache-2.0
"""What every device offers a strategy, and what it hands back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from lagom.nccl import Knobs
from lagom.workload import Workload


class DeviceError(RuntimeError):
    """A run that gave no trustworthy measurement: wrong data, knobs that did not take effect, a rank that failed.

    :param origin: the name of the exception that a rank failed with, "CudaError" or "NcclError"; "" for anything else.
    """

    def __init__(self, text: str, origin: str = "") -> None:
        super().__init__(text)
        self.origin = origin


@dataclass(frozen=True)
class Span:
    """One operation as it ran on one rank; times in microseconds from the start of the group."""

    name: str
    kind: str  # "compute" or "communicate"
    stream: str
    start_us: float
    end_us: float


@dataclass(frozen=True)
class CommunicationUse:
    """What a communication ran with, as the device saw it.

    :param knobs: every knob set. :param sms: distinct SMs its CTAs ran on, most over ranks.
    :param sm_us: SM-microseconds: time of its CTAs added up, most over ranks.
    :param wait_share: part of that time spent waiting for peers, 0 to 1, most over ranks.
    """

    knobs: Knobs
    sms: int
    sm_us: float
    wait_share: float


@dataclass(frozen=True)
class Measurement:
    """One execution of the group. All times in microseconds, each the maximum over ranks.

    :param x_us: time of each communication, in order of the workload's communications.
    :param y_us: total compute time: the durations of all computations of a rank added up.
    :param z_us: makespan, from the start of the group to the end of its last operation.
    :param exposed_us: time for which computation stood still because of communication.
    :param spans: timeline of the rank that ended last.
    """

    x_us: tuple[float, ...]
    y_us: float
    z_us: float
    exposed_us: float
    use: tuple[CommunicationUse, ...]
    spans: tuple[Span, ...] = ()

    def __post_init__(self) -> None:
        times = {"makespan": self.z_us, "compute time": self.y_us, "exposed time": self.exposed_us}
        for what, value in (*times.items(), *(("communication time", x) for x in self.x_us)):
            if not math.isfinite(value) or value < 0:
                raise DeviceError(f"measured a {what} of {value} us")
        if len(self.x_us) != len(self.use):
            raise DeviceError(f"{len(self.x_us)} communication times for {len(self.use)} communications")

    @property
    def communication_us(self) -> float:
        """All communications' times added up."""
        return math.fsum(self.x_us)

    @property
    def sm_us(self) -> float:
        """SM-microseconds that all communications held."""
        return math.fsum(use.sm_us for use in self.use)


@dataclass(frozen=True)
class Refused:
    """The library refused these knobs by name, on every rank, before it launched anything."""

    reason: str


Outcome: TypeAlias = Measurement | Refused

#: Knobs by index into the workload's communications; communications without an entry are left to NCCL.
KnobMap: TypeAlias = Mapping[int, Knobs]


class Device(Protocol):
    """Runs a workload under knobs. A strategy never knows which device it drives."""

    @property
    def ranks(self) -> int:
        """Ranks that take part; sizes of sharded collectives and what a plan can tell apart depend on it."""
        ...

    def run(self, workload: Workload, knobs: KnobMap) -> Outcome:
        """Execute the group once.

        :returns: the measurement, or :class:`Refused` where the library cannot run the knobs.
        :raises DeviceError: where there is no trustworthy measurement.
        """
        ...
