# SPDX-License-Identifier: Apache-2.0
"""The comparison of test_untuned.py finds a scheduler that differs from stock's in one thing."""

import os
import random
import re
from pathlib import Path

import pytest
from builds import host_build
from nccl_dump.compare import differences
from nccl_dump.jobs import DUMP, MUTANTS, Jobs, Outcome, built_functions, compile_program, reductions
from nccl_dump.sessions import Session

FUNCTIONS = built_functions()
# Each fault of mutants.patch, and a field that shows it; a prefix where it moves many.
SHOWN_BY = {
    "aggregate": "launch.",
    "batch": "launch.batches.length",
    "bcast-block": "launch.blockX",
    "bcast-chunk": "launch.works.chunkSize",
    "bcast-proxy": "proxy.nsteps",
    "block": "launch.blockX",
    "broadcast": "launch.",
    "buffer": "launch.works.sendbuff",
    "channels": "launch.works.channelHi",
    "chunk": "proxy.chunkSize",
    "count": "launch.works.countLo",
    "direct": "launch.works.direct",
    "exact": "launch.works.count",
    "kernel": "launch.batches.funcId",
    "mask": "launch.channelMask",
    "one-node": "launch.works.oneNode",
    "order": "launch.works.",
    "p2p-base": "launch.works.channelBase",
    "p2p-chunk": "launch.works.recvChunkSize_u32fp8",
    "p2p-peers": "proxy.nPeers",
    "p2p-protocol": "launch.works.sendProtoLL",
    "proxy-order": "proxy.opCount",
    "proxy-steps": "proxy.nsteps",
    "root": "launch.works.root",
    "scalar": "launch.works.redOpArg",
    "shared-memory": "launch.sharedMemBytes",
    "storage": "launch.workStorageType",
    "traffic": "launch.works.",
    "warps": "launch.works.nWarps",
}
# Two hosts, so that there are proxies; nothing is run, so that no fault can hang or crash.
SESSION = Session(7, 250, 3, hosts=("a", "a", "b"), settings={"HOSTCUDA_MACHINE": "a100x8"}, most_bytes=16 << 20)


@pytest.fixture(scope="module")
def mutants() -> Path:
    return host_build(FUNCTIONS, extra=(DUMP, MUTANTS))


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory, mutants: Path) -> Jobs:
    folder = tmp_path_factory.mktemp("mutants")
    (folder / "functions").write_text("\n".join(reductions(mutants)) + "\n")
    return Jobs(compile_program("calls", folder, mutants), folder, folder / "functions")


@pytest.fixture(scope="module")
def stock(jobs: Jobs) -> Outcome:
    build = host_build(FUNCTIONS, stock=True, extra=(DUMP,))
    return jobs.run(SESSION, build, name="stock", dump=True, dry=True)


def fields(jobs: Jobs, mutants: Path, stock: Outcome, fault: str) -> set[str]:
    """What a fault changes ("": none)."""
    faulty = jobs.run(SESSION, mutants, {"NCCL_DUMP_MUTANT": fault}, name="mutant", dump=True, dry=True)
    pairs = zip(stock.dumps, faulty.dumps, strict=True)
    return {difference.field for one, other in pairs for difference in differences(one, other)}


def is_caught(jobs: Jobs, mutants: Path, stock: Outcome, fault: str) -> None:
    found = fields(jobs, mutants, stock, fault)
    assert any(field.startswith(SHOWN_BY[fault]) for field in found), f"{fault} changes {sorted(found)}"


def test_every_fault_of_the_patch_is_listed() -> None:
    named = re.findall(r'^\+.*ncclDumpMutant\("([\w-]+)"\)', (MUTANTS / "mutants.patch").read_text(), re.MULTILINE)
    assert sorted(set(named)) == sorted(SHOWN_BY)


def test_some_faults_are_caught(jobs: Jobs, mutants: Path, stock: Outcome) -> None:
    assert fields(jobs, mutants, stock, "") == set()
    seed = int(os.environ.get("LAGOM_TEST_SEED", random.randrange(1 << 30)))
    print(f"seed {seed}; LAGOM_TEST_SEED={seed} draws the same faults")
    for fault in random.Random(seed).sample(sorted(SHOWN_BY), 3):
        is_caught(jobs, mutants, stock, fault)


@pytest.mark.full
@pytest.mark.parametrize("fault", sorted(SHOWN_BY))
def test_each_fault_is_caught(jobs: Jobs, mutants: Path, stock: Outcome, fault: str) -> None:
    is_caught(jobs, mutants, stock, fault)
