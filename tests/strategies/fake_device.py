# SPDX-License-Identifier: Apache-2.0
"""A device without NCCL: a few lines of arithmetic with the trade-off that searches live on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lagom.device import CommunicationUse, DeviceError, Measurement, Outcome, Refused
from lagom.nccl import Knobs
from lagom.workload import Workload

DEFAULT = Knobs("ring", "simple", 8, 544, 2 << 20)


@dataclass
class FakeDevice:
    """Communication speeds up with channels and chunk until the link is full; both slow computation down.

    :param link_gbps: the most that communication can reach.
    :param channel_gbps: what one channel reaches with a very large chunk.
    :param sm_cost: share of computation lost by a channel.
    :param traffic_cost: share of computation lost for each MiB in flight beyond 4 MiB.
    """

    ranks: int = 4
    compute_us: float = 6000.0
    link_gbps: float = 24.0
    channel_gbps: float = 12.0
    sm_cost: float = 1 / 84
    traffic_cost: float = 0.01
    max_channels: int = 64
    min_chunk_bytes: int = 0
    default: Knobs = DEFAULT
    runs: list[dict[int, Knobs]] = field(default_factory=list)

    def run(self, workload: Workload, knobs: Mapping[int, Knobs]) -> Outcome:
        """Arithmetic instead of execution."""
        chosen = [knobs.get(index, self.default) for index in range(len(workload.communications))]
        for wanted in chosen:
            if (wanted.channels or 0) > self.max_channels:
                return Refused(f"channels is {wanted.channels}, allowed is 1 to {self.max_channels}")
            if (wanted.chunk_bytes or 0) < self.min_chunk_bytes:
                return Refused(f"chunk is {wanted.chunk_bytes}, allowed is at least {self.min_chunk_bytes}")
        self.runs.append(dict(knobs))
        x_us, lost_us = [], 0.0
        for communication, wanted in zip(workload.communications, chosen, strict=True):
            if wanted.channels is None or wanted.chunk_bytes is None:
                raise DeviceError("the fake device needs channels and chunk")
            per_channel = self.channel_gbps * wanted.chunk_bytes / (wanted.chunk_bytes + (256 << 10))
            gbps = min(self.link_gbps, wanted.channels * per_channel)
            x = communication.total_bytes(self.ranks) * (self.ranks - 1) / self.ranks / gbps / 1e3
            in_flight_mib = wanted.channels * wanted.chunk_bytes / (1 << 20)
            share = wanted.channels * self.sm_cost + max(0.0, in_flight_mib - 4) * self.traffic_cost
            lost_us += min(x, self.compute_us) * share
            x_us.append(x)
        y_us = self.compute_us + lost_us
        use = tuple(
            CommunicationUse(k, sms=k.channels or 0, sm_us=(k.channels or 0) * x, wait_share=0.0)
            for k, x in zip(chosen, x_us, strict=True)
        )
        return Measurement(tuple(x_us), y_us, max(y_us, sum(x_us)), max(0.0, sum(x_us) - y_us), use)
