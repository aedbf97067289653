# SPDX-License-Identifier: Apache-2.0
"""The ways between GPUs of one host: which one NCCL takes under a setting, and that data arrive by it. One of the
settings is drawn at random, all of them are part of the full sampling; LAGOM_TEST_SEED draws the same one again."""

import os
import random
import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from launch import NEEDS_MPIRUN, mpirun, run

PROGRAM = str(Path(__file__).with_name("ways.py"))
DEBUG = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,P2P,SHM,NET", "NCCL_SOCKET_IFNAME": "lo"}


class Way(NamedTuple):
    """A setting, and how NCCL then names the connections of four ranks."""

    machine: str
    environment: dict[str, str]
    expected: set[str]


NO_P2P = {"NCCL_P2P_DISABLE": "1"}
RANKS = {
    "cumem": Way("a100x8", {}, {"P2P/CUMEM/read"}),
    "cumem write": Way("a100x8", {"NCCL_P2P_READ_ENABLE": "0"}, {"P2P/CUMEM"}),
    "legacy ipc": Way("a100x8", {"NCCL_CUMEM_ENABLE": "0"}, {"P2P/IPC/read"}),
    # Where NCCL would read it fails by itself ("we should not use read + memcpy").
    "p2p by copies": Way("a40x8", {"NCCL_P2P_USE_CUDA_MEMCPY": "1"}, {"P2P/CUMEM/CE"}),
    "pairs by nvlink": Way("a40x8", {"NCCL_P2P_LEVEL": "NVL"}, {"P2P/CUMEM", "SHM/direct/direct"}),
    "all by pcie": Way("a40x8", {"NCCL_P2P_LEVEL": "SYS"}, {"P2P/CUMEM"}),
    "no p2p level": Way("a100x8", {"NCCL_P2P_LEVEL": "LOC"}, {"SHM/direct/direct"}),
    "shared memory": Way("a100x8", NO_P2P, {"SHM/direct/direct"}),
    "legacy shared memory": Way("a100x8", {**NO_P2P, "NCCL_CUMEM_HOST_ENABLE": "0"}, {"SHM/direct/direct"}),
    "shared memory, no cumem": Way("a100x8", {**NO_P2P, "NCCL_CUMEM_ENABLE": "0"}, {"SHM/direct/direct"}),
    "shared memory by copies": Way(
        "a100x8", {**NO_P2P, "NCCL_SHM_USE_CUDA_MEMCPY": "1", "NCCL_SHM_MEMCPY_MODE": "3"}, {"SHM/CE/CE"}
    ),
    "network": Way("a100x8", {**NO_P2P, "NCCL_SHM_DISABLE": "1"}, {"NET/Socket/0", "NET/Socket/0/Shared"}),
}
ONE_PROCESS = {
    "direct pointers": Way("a100x8", {}, {"P2P/direct pointer"}),
    "no direct pointers": Way("a100x8", {"NCCL_P2P_DIRECT_DISABLE": "1"}, {"P2P/CUMEM/read"}),
    "direct pointers, no cumem": Way("a100x8", {"NCCL_CUMEM_ENABLE": "0"}, {"P2P/direct pointer"}),
    "shared memory": Way("a100x8", NO_P2P, {"SHM/direct/direct"}),
}


def check(way: Way, words: list[str], ranks: int = 4) -> None:
    more = {**DEBUG, "HOSTCUDA_MACHINE": way.machine, **way.environment}
    command = [sys.executable, PROGRAM, *words]
    done = mpirun(ranks, command, more, 240) if words == ["ranks"] else run(command, more, 240)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    # NCCL's log comes in blocks, which may end in the middle of a line.
    assert done.stdout.count("checked 9 calls") == (ranks if words == ["ranks"] else 1)
    assert set(re.findall(r" via (\S+(?: pointer)?)", done.stdout)) == way.expected


def drawn(names: list[str]) -> str:
    return names[int(os.environ.get("LAGOM_TEST_SEED", random.randrange(1 << 30))) % len(names)]


@NEEDS_MPIRUN
@pytest.mark.usefixtures("hostcuda")
def test_one_way_between_processes(capsys: pytest.CaptureFixture[str]) -> None:
    name = drawn(list(RANKS))
    with capsys.disabled():
        print(f"\nbetween processes: {name}")
    check(RANKS[name], ["ranks"])


@pytest.mark.usefixtures("hostcuda")
def test_one_way_inside_a_process(capsys: pytest.CaptureFixture[str]) -> None:
    name, kind = drawn(list(ONE_PROCESS)), drawn(["threads", "group"])
    with capsys.disabled():
        print(f"\ninside a process, {kind}: {name}")
    check(ONE_PROCESS[name], [kind, "4"])


@NEEDS_MPIRUN
@pytest.mark.full
@pytest.mark.usefixtures("hostcuda")
@pytest.mark.parametrize("name", RANKS)
def test_every_way_between_processes(name: str) -> None:
    check(RANKS[name], ["ranks"])


@pytest.mark.full
@pytest.mark.usefixtures("hostcuda")
@pytest.mark.parametrize("kind", ["threads", "group"])
@pytest.mark.parametrize("name", ONE_PROCESS)
def test_every_way_inside_a_process(kind: str, name: str) -> None:
    check(ONE_PROCESS[name], [kind, "4"])
