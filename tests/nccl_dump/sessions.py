# SPDX-License-Identifier: Apache-2.0
"""Random jobs: how many ranks, where, under which environment. What they call is drawn by programs/draw.h."""

import random
from dataclasses import dataclass, field

# Each is a setting of NCCL's own that changes what is scheduled, and how. Most jobs have none or one.
SETTINGS: tuple[dict[str, str], ...] = (
    {"NCCL_ALGO": "ring"},
    {"NCCL_ALGO": "allreduce:tree"},
    {"NCCL_PROTO": "LL"},
    {"NCCL_PROTO": "Simple"},
    {"NCCL_PROTO": "LL128"},
    {"NCCL_ALGO": "allreduce:tree", "NCCL_PROTO": "Simple"},
    {"NCCL_NTHREADS": "128"},
    {"NCCL_LL128_NTHREADS": "320"},
    {"NCCL_BUFFSIZE": "262144"},
    {"NCCL_MIN_CTAS": "12"},
    {"NCCL_MAX_CTAS": "3"},
    {"NCCL_ALLGATHERV_ENABLE": "0"},
    {"NCCL_WORK_FIFO_BYTES": "16384"},
    {"NCCL_P2P_DISABLE": "1"},
    {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"},
    {"NCCL_P2P_LL_THRESHOLD": "0"},
    {"NCCL_CHUNK_SIZE": "65536"},
    {"NCCL_RUNTIME_CONNECT": "0"},
    {"NCCL_LAUNCH_ORDER_IMPLICIT": "1"},
    {"NCCL_NCHANNELS_PER_NET_PEER": "4"},
    {"NCCL_CUMEM_ENABLE": "0"},
)
MACHINES = ("a40x8", "a100x8")


@dataclass(frozen=True)
class Session:
    """One job. ``hosts`` gives each process the host that it believes to be on; empty: all on one."""

    seed: int
    calls: int
    processes: int
    devices: int = 1  # ranks of each process
    hosts: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    most_bytes: int = 1 << 20

    def __str__(self) -> str:
        where = f"hosts {','.join(self.hosts)}" if self.hosts else "one host"
        said = " ".join(f"{name}={value}" for name, value in sorted(self.settings.items()))
        return (
            f"seed {self.seed}: {self.calls} calls on {self.processes} processes x {self.devices} devices, {where}, "
            f"up to {self.most_bytes} bytes, {said}"
        )

    def arguments(self) -> list[str]:
        """For programs/calls.cc."""
        words = ["--seed", str(self.seed), "--calls", str(self.calls), "--most-bytes", str(self.most_bytes)]
        words += ["--processes", str(self.processes), "--devices", str(self.devices)]
        return words + (["--hosts", ",".join(self.hosts)] if self.hosts else [])


def _layout(rng: random.Random, ranks: int) -> tuple[int, int, tuple[str, ...]]:
    """Processes, devices of each, hosts."""
    choices: list[tuple[int, int, tuple[str, ...]]] = [(ranks, 1, ())] * 3
    choices.append((ranks, 1, tuple(f"host{rank}" for rank in range(ranks))))
    if ranks % 2 == 0:
        choices.append((ranks // 2, 2, ()))
    if ranks >= 3:
        choices.append((ranks, 1, tuple(f"host{rank * 2 // ranks}" for rank in range(ranks))))
    if ranks == 4:
        choices.append((2, 2, ("host0", "host1")))
    return rng.choice(choices)


def draw(rng: random.Random, calls: int, eight: bool) -> Session:
    """``eight``: now and then 8 ranks, which take long."""
    ranks = rng.choice([2, 2, 2, 3, 4, 4, *([8] if eight else [])])
    processes, devices, hosts = _layout(rng, ranks)
    settings = {"HOSTCUDA_MACHINE": rng.choice(MACHINES)}
    if hosts:
        settings |= rng.choice(({}, {"NCCL_PAT_ENABLE": "0"}))
    for _ in range(rng.choice((0, 1, 1, 2))):
        settings |= rng.choice(SETTINGS)
    most = 1 << 16 if ranks == 8 else rng.choice((1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22))
    return Session(rng.randrange(1 << 40), calls, processes, devices, hosts, settings, most)
