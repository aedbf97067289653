# SPDX-License-Identifier: Apache-2.0
"""Counters of a communicator: what ran, as the device saw it."""

from dataclasses import dataclass

from . import _native, dtypes
from .knobs import Knobs, collective_name


@dataclass(frozen=True)
class ChannelRecord:
    """One channel of one operation, written by the CTA that ran it. Times in ns on the device's clock.

    ``chunk_bytes`` is the chunk decoded from the descriptor (0 for a part without data), ``max_element_count`` the
    largest element count passed to a primitive, ``threads`` counts the threads that entered.
    """

    channel: int
    sm_id: int
    threads: int
    chunk_bytes: int
    nbytes: int
    max_element_count: int
    start_ns: int
    stop_ns: int
    wait_ns: int
    move_ns: int


@dataclass(frozen=True)
class OpRecord:
    """One operation of one rank.

    ``asked`` are the knobs of the rule that matched (all None where none did), ``used`` what the device saw; a knob
    that differs between channels is None in ``used``. ``exact``: used equals asked in every knob that was asked.
    ``rule`` is -1 and ``plan_line`` 0 where there is none. ``nbytes`` is what rules are matched with.
    """

    collective: str
    op_index: int
    comm_hash: int
    rank: int
    ranks: int
    nodes: int
    dtype: str
    op: str | None
    root: int
    count: int
    nbytes: int
    asked: Knobs
    used: Knobs
    rule: int
    plan_line: int
    plan_id: int
    replay: int
    exact: bool
    element_bytes: int
    channels: tuple[ChannelRecord, ...]

    @property
    def start_ns(self) -> int:
        """When the first channel started."""
        return min((c.start_ns for c in self.channels), default=0)

    @property
    def stop_ns(self) -> int:
        """When the last channel stopped."""
        return max((c.stop_ns for c in self.channels), default=0)

    @property
    def duration_us(self) -> float:
        return (self.stop_ns - self.start_ns) / 1e3

    @property
    def sm_us(self) -> float:
        """SM-microseconds: the time that all channels together occupied SMs."""
        return sum(c.stop_ns - c.start_ns for c in self.channels) / 1e3

    @property
    def distinct_sms(self) -> int:
        return len({c.sm_id for c in self.channels})

    @property
    def wait_share(self) -> float:
        """Share of the channels' time spent waiting for peers, 0 to 1."""
        total_ns = sum(c.stop_ns - c.start_ns for c in self.channels)
        return sum(c.wait_ns for c in self.channels) / total_ns if total_ns else 0.0

    @property
    def bus_bandwidth_gbps(self) -> float:
        """nccl-tests' bus bandwidth in GB/s (1e9 bytes), from the device's own times."""
        factor = {
            "all_reduce": 2 * (self.ranks - 1) / self.ranks,
            "all_gather": (self.ranks - 1) / self.ranks,
            "reduce_scatter": (self.ranks - 1) / self.ranks,
        }.get(self.collective, 1.0)
        duration_ns = self.stop_ns - self.start_ns
        return factor * self.nbytes / duration_ns if duration_ns else 0.0


@dataclass(frozen=True)
class CountersStatus:
    """Whether counting is on, and how many operations were issued, read, lost (overwritten unread) and are pending."""

    enabled: bool
    issued: int
    read: int
    lost: int
    pending: int


class Counters:
    """Counters of one communicator. LibraryError where the library is not patched."""

    def __init__(self, handle: _native.CommHandle) -> None:
        self._handle = handle

    def enable(self, on: bool = True) -> None:
        """Count operations launched from now on, or stop counting."""
        _native.counters_enable(self._handle, on)

    def status(self) -> CountersStatus:
        return CountersStatus(*_native.counters_status(self._handle))

    def read(self) -> list[OpRecord]:
        """Records of finished operations that were not read before, in launch order. Never waits: synchronize first."""
        return [_record(fields) for fields in _native.counters_read(self._handle)]


def _record(fields: dict[str, object]) -> OpRecord:
    numbers: dict[str, int] = {key: value for key, value in fields.items() if isinstance(value, int)}
    asked, used, channels = fields["asked"], fields["used"], fields["channels"]
    assert isinstance(asked, tuple) and isinstance(used, tuple) and isinstance(channels, list)
    return OpRecord(
        collective=collective_name(numbers["collective"]),
        op_index=numbers["op_index"],
        comm_hash=numbers["comm_hash"],
        rank=numbers["rank"],
        ranks=numbers["ranks"],
        nodes=numbers["nodes"],
        dtype=dtypes.by_code(numbers["dtype"]).name,
        op=dtypes.op_name(numbers["op"]),
        root=numbers["root"],
        count=numbers["count"],
        nbytes=numbers["nbytes"],
        asked=Knobs.from_tuple(asked),
        used=Knobs.from_tuple(used),
        rule=numbers["rule"],
        plan_line=numbers["plan_line"],
        plan_id=numbers["plan_id"],
        replay=numbers["replay"],
        exact=bool(numbers["exact"]),
        element_bytes=numbers["element_bytes"],
        channels=tuple(ChannelRecord(*channel) for channel in channels),
    )
