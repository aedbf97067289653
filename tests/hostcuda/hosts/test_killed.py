# SPDX-License-Identifier: Apache-2.0
"""A rank that is killed while device code is inside a collective, with the patched library and beside it stock.

Over NET the others hear of it from ncclCommGetAsyncError; on P2P and SHM they wait. ncclCommAbort from another thread
than the one that waits returns in time, and nothing stays behind, neither processes nor files in /dev/shm.
"""

import random
import re
import signal
from pathlib import Path

import pytest
from hostcuda.hosts.conftest import Start

TRANSPORTS = {
    "P2P": {},
    "SHM": {"NCCL_P2P_DISABLE": "1"},
    "SHM in files": {"NCCL_P2P_DISABLE": "1", "NCCL_CUMEM_HOST_ENABLE": "0"},
    "NET": {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_SOCKET_IFNAME": "lo"},
}
NET_BY_HOST = "NET by NCCL_HOSTID"
PROTOCOLS = ("LL", "Simple")
WHEN = ("before_the_others", "among_the_others")
REMOTE_ERROR = 6


def seen(start: Start, transport: str, protocol: str, when: str, ranks: int, victim: int, library: Path) -> list[str]:
    """One killed rank; what each survivor said, in the same words whatever the library."""
    by_host = transport == NET_BY_HOST
    net = transport.startswith("NET")
    job = start(
        "killed",
        when,
        [{"NCCL_HOSTID": f"host-{rank}", "DEVICE": "0"} if by_host else {} for rank in range(ranks)],
        env={
            **TRANSPORTS["NET" if net else transport],
            "NCCL_ALGO": "ring",
            "NCCL_PROTO": protocol,
            "VICTIM": str(victim),
            "EXPECT": "error" if net else "silence",
        },
        library=library,
    )
    survivors = [rank for rank in range(ranks) if rank != victim]
    job.await_posts("inside", [victim] if when == "before_the_others" else range(ranks), 60)
    job.processes[victim].send_signal(signal.SIGKILL)
    assert job.wait(10, [victim]) == [-signal.SIGKILL]
    job.post("dead")
    statuses = job.wait(120, survivors)
    assert not any(statuses), f"ended with {statuses}\n{job.everything()}"
    assert job.left_in_shared_memory() == []
    lines = [re.sub(r"rank \d+: ", "", line) for line in job.lines()]
    return sorted(set(lines))


def expected(transport: str) -> str:
    """What ncclCommGetAsyncError says to survivors, and what they do on P2P and SHM."""
    return f"async error {REMOTE_ERROR}" if transport.startswith("NET") else "async error 0, waits"


def check(said: list[str], transport: str) -> None:
    assert "abort gives 0" in said, said
    assert "done" in said, said
    told = [line for line in said if line.startswith("async error")]
    assert told == [expected(transport)], said


Row = tuple[str, list[str], list[str]]


def table(rows: list[Row]) -> str:
    """What survivors saw, one line a killed rank: under which circumstances, the patched library, stock."""
    cells = [
        ("killed", "patched", "stock"),
        *((what, "; ".join(ours), "; ".join(theirs)) for what, ours, theirs in rows),
    ]
    widths = [max(len(row[column]) for row in cells) + 2 for column in range(3)]
    return "\n".join("".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)


@pytest.mark.parametrize("transport", [*TRANSPORTS, NET_BY_HOST])
def test_sample(start: Start, seed: int, build: Path, transport: str) -> None:
    choice = random.Random(f"{seed} {transport}")
    protocol, when, victim = choice.choice(PROTOCOLS), choice.choice(WHEN), choice.randrange(3)
    print(f"LAGOM_TEST_SEED={seed}: {protocol}, {when}, rank {victim} of 3")
    check(seen(start, transport, protocol, when, 3, victim, build), transport)


def test_beside_stock(start: Start, seed: int, build: Path, stock: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One transport a run; all of them in the full sampling."""
    choice = random.Random(f"{seed} stock")
    transport = choice.choice(list(TRANSPORTS))
    protocol, when, victim = choice.choice(PROTOCOLS), choice.choice(WHEN), choice.randrange(2)
    what = f"{transport}, {protocol}, {when}, rank {victim} of 2"
    print(f"LAGOM_TEST_SEED={seed}: {what}")
    ours, theirs = (seen(start, transport, protocol, when, 2, victim, library) for library in (build, stock))
    with capsys.disabled():
        print("\n" + table([(what, ours, theirs)]))
    assert ours == theirs


@pytest.mark.full
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_every_transport_beside_stock(
    start: Start, build: Path, stock: Path, ranks: int, capsys: pytest.CaptureFixture[str]
) -> None:
    rows: list[Row] = []
    for transport in [*TRANSPORTS, NET_BY_HOST]:
        for protocol in PROTOCOLS:
            for when in WHEN:
                for victim in {0, ranks - 1}:
                    ours, theirs = (
                        seen(start, transport, protocol, when, ranks, victim, library) for library in (build, stock)
                    )
                    check(ours, transport)
                    check(theirs, transport)
                    rows.append((f"{transport}, {protocol}, {when}, rank {victim} of {ranks}", ours, theirs))
    with capsys.disabled():
        print("\n" + table(rows))
