# SPDX-License-Identifier: Apache-2.0
"""Several hosts on one machine by NCCL_HOSTID: every collective over sockets, alone and beside P2P and SHM."""

import itertools
import random
import re
from dataclasses import dataclass

import pytest
from hostcuda.hosts.conftest import Start
from hostcuda.hosts.job import transports

COUNTS = "1,3,1000,65537"


@dataclass(frozen=True)
class Layout:
    """Ranks a host, what joins the ranks of a host, and what NCCL is told to use."""

    ranks: int
    per_host: int
    inside: str  # P2P or SHM
    algorithm: str
    protocol: str

    def __str__(self) -> str:
        return f"{self.ranks}ranks-{self.per_host}a-host-{self.inside}-{self.algorithm}-{self.protocol}"

    def ranks_environments(self) -> list[dict[str, str]]:
        # Hosts number their devices from 0, as machines do.
        return [
            {"NCCL_HOSTID": f"host-{rank // self.per_host}", "DEVICE": str(rank % self.per_host)}
            for rank in range(self.ranks)
        ]

    def environment(self) -> dict[str, str]:
        # Only all-reduce has a tree.
        return {
            "NCCL_ALGO": f"ring;allreduce:{self.algorithm}",
            "NCCL_PROTO": self.protocol,
            "NCCL_SOCKET_IFNAME": "lo",
            **({"NCCL_P2P_DISABLE": "1"} if self.inside == "SHM" else {}),
        }

    def transports(self) -> set[str]:
        return {"NET/Socket"} if self.per_host == 1 else {"NET/Socket", self.inside}


ALL = [
    Layout(ranks, per_host, inside, algorithm, protocol)
    for ranks, per_host, inside, algorithm, protocol in itertools.product(
        range(2, 9), (1, 2, 3, 4), ("P2P", "SHM"), ("ring", "tree"), ("LL", "LL128", "Simple")
    )
    if ranks > per_host and not (per_host == 1 and inside == "SHM")
]


def run(start: Start, layout: Layout, counts: str = COUNTS) -> None:
    job = start("collectives", "every", layout.ranks_environments(), env={**layout.environment(), "COUNTS": counts})
    said = job.succeed(300)
    assert len(re.findall(r"^rank \d+: \d+ calls right$", said, re.MULTILINE)) == layout.ranks, said
    assert transports(job) == layout.transports()
    assert job.left_in_shared_memory() == []


def sample(seed: int) -> list[Layout]:
    """One layout with each protocol: one rank a host, two a host over P2P, more over SHM; few ranks."""
    choice = random.Random(seed)
    protocols = choice.sample(("LL", "LL128", "Simple"), 3)
    wanted = [(1, "P2P"), (2, "P2P"), (2, "SHM")]
    return [
        choice.choice(
            [x for x in ALL if (x.per_host, x.inside, x.protocol) == (per_host, inside, protocol) and x.ranks <= 4]
        )
        for (per_host, inside), protocol in zip(wanted, protocols, strict=True)
    ]


@pytest.mark.parametrize("which", range(3))
def test_sample(start: Start, seed: int, which: int) -> None:
    layout = sample(seed)[which]
    print(f"LAGOM_TEST_SEED={seed}: {layout}")
    run(start, layout, "1,1000,65537")


@pytest.mark.full
@pytest.mark.parametrize("layout", ALL, ids=str)
def test_every_layout(start: Start, layout: Layout) -> None:
    run(start, layout)


def test_hosts_of_one_process_and_several_devices(start: Start) -> None:
    hosts, devices = 2, 2
    job = start(
        "collectives",
        "threads",
        [{"NCCL_HOSTID": f"host-{host}"} for host in range(hosts)],
        env={"DEVICES": str(devices), "COUNTS": "3,65537", "NCCL_ALGO": "ring", "NCCL_SOCKET_IFNAME": "lo"},
    )
    assert job.succeed().count("calls right") == hosts * devices
    assert transports(job) == {"P2P", "NET/Socket"}


def test_modelled_times_do_not_depend_on_the_machine(start: Start) -> None:
    """What crosses a socket is not modelled (see docs/clock.md), but times are the same every time."""
    layout = Layout(3, 2, "P2P", "ring", "Simple")

    def times() -> list[str]:
        job = start("collectives", "times", layout.ranks_environments(), env=layout.environment())
        return sorted(line for line in job.succeed().splitlines() if ": us " in line)

    first = times()
    assert len(first) == layout.ranks
    assert first == times()
