# SPDX-License-Identifier: Apache-2.0
"""Several hosts in network namespaces, each with an address of its own, joined by a bridge: no way but that network."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest
from hostcuda.hosts import ras_client
from hostcuda.hosts.conftest import Start
from hostcuda.hosts.job import transports

HOSTS = 3
NETWORK = "10.213.77"


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


@pytest.fixture(scope="module")
def namespaces() -> Iterator[list[str]]:
    """Names of namespaces whose eth0 has the address 10.213.77.(1 + place); skips where the machine allows none."""
    if shutil.which("ip") is None:
        pytest.skip("no ip command: scripts/venv test installs iproute2 as root on Debian")
    mark = f"lagom{os.getpid()}"
    bridge = f"{mark}-b"  # lives in a namespace as well, so that the machine's own network stays as it is
    names = [f"{mark}-{host}" for host in range(HOSTS)]
    try:
        ip("netns", "add", bridge)
    except OSError as error:
        pytest.skip(f"network namespaces cannot be made here: {error}")
    try:
        try:
            ip("-n", bridge, "link", "add", "br0", "type", "bridge")
            ip("-n", bridge, "link", "set", "br0", "up")
        except OSError as error:
            pytest.skip(f"no bridge between network namespaces here: {error}")
        for host, name in enumerate(names):
            ip("netns", "add", name)
            ip("-n", bridge, "link", "add", f"port{host}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("-n", bridge, "link", "set", f"port{host}", "master", "br0", "up")
            ip("-n", name, "address", "add", f"{NETWORK}.{1 + host}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", "eth0", "up")
        yield names
    finally:
        for name in [*names, bridge]:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def run(start: Start, names: Sequence[str], per_host: int, protocol: str) -> None:
    hosts = [name for name in names for _ in range(per_host)]
    job = start(
        "collectives",
        "every",
        [{"NCCL_HOSTID": name, "DEVICE": str(rank % per_host)} for rank, name in enumerate(hosts)],
        env={"NCCL_ALGO": "ring", "NCCL_PROTO": protocol, "COUNTS": "3,65537"},
        prefixes=[["ip", "netns", "exec", name] for name in hosts],
    )
    job.succeed(120)
    assert transports(job) == ({"NET/Socket"} if per_host == 1 else {"NET/Socket", "P2P"})
    # Each rank found its host's own address, and no other interface carries data.
    used = re.findall(r"NET/Socket : Using .*?eth0:([\d.]+)<", job.log())
    assert sorted(set(used)) == [f"{NETWORK}.{1 + host}" for host in range(len(names))]


def test_a_rank_a_host(start: Start, namespaces: list[str]) -> None:
    run(start, namespaces, 1, "Simple")


def test_two_ranks_a_host(start: Start, namespaces: list[str]) -> None:
    run(start, namespaces[:2], 2, "LL")


def test_ras_sees_the_hosts(start: Start, namespaces: list[str]) -> None:
    """RAS's own network crosses hosts too. Its default address is taken: every namespace has a localhost of its own."""
    prefixes = [["ip", "netns", "exec", name] for name in namespaces]
    job = start(
        "ras",
        "running",
        [{"NCCL_HOSTID": name, "DEVICE": "0"} for name in namespaces],
        env={"CALLS": "1"},
        prefixes=prefixes,
    )
    job.await_posts("ready", range(HOSTS), 60)
    client = [sys.executable, ras_client.__file__, "localhost", "28028", "set format json", "verbose status"]
    told = subprocess.run([*prefixes[0], *client], capture_output=True, text=True, check=True, timeout=60).stdout
    job.post("asked")
    job.succeed()
    world = max(json.loads(told)["communicators"], key=lambda comm: int(comm["size"]))
    assert sorted(rank["host"] for rank in world["ranks"]) == [f"{NETWORK}.{1 + host}" for host in range(HOSTS)]


@pytest.mark.full
@pytest.mark.parametrize("protocol", ["LL", "LL128", "Simple"])
@pytest.mark.parametrize("per_host", [1, 2])
def test_all(start: Start, namespaces: list[str], per_host: int, protocol: str) -> None:
    run(start, namespaces, per_host, protocol)
