# SPDX-License-Identifier: Apache-2.0
"""Calls that nobody tuned: what the patched NCCL launches, and what comes out, beside the stock one."""

import os
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from builds import host_build
from nccl_dump.compare import Difference, contents, differences
from nccl_dump.jobs import DUMP, Jobs, Outcome, built_functions, compile_program, reductions
from nccl_dump.sessions import Session, draw

FUNCTIONS = built_functions()
PADDING = "launch.args.padding"  # stock does not use it; patched has the number of a counted launch there


class Builds(NamedTuple):
    stock: Path
    patched: Path
    stock_dumping: Path
    patched_dumping: Path


@pytest.fixture(scope="module")
def builds() -> Builds:
    return Builds(
        host_build(FUNCTIONS, stock=True),
        host_build(FUNCTIONS),
        host_build(FUNCTIONS, stock=True, extra=(DUMP,)),
        host_build(FUNCTIONS, extra=(DUMP,)),
    )


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory, builds: Builds) -> Jobs:
    folder = tmp_path_factory.mktemp("untuned")
    functions = folder / "functions"
    functions.write_text("\n".join(reductions(builds.stock_dumping)) + "\n")
    return Jobs(compile_program("calls", folder, builds.stock_dumping), folder, functions)


def seeded(more: int = 0) -> random.Random:
    seed = int(os.environ.get("LAGOM_TEST_SEED", random.randrange(1 << 30)))
    print(f"seed {seed}; LAGOM_TEST_SEED={seed} draws the same calls")
    return random.Random(seed * 1000 + more)


def same_launches(before: list[Path], after: list[Path], ignored: tuple[str, ...] = ()) -> None:
    found: list[Difference] = []
    for one, other in zip(before, after, strict=True):
        found += differences(one, other, ignored)
    assert not found, f"{len(found)} differences:\n" + "\n".join(map(str, found[:30]))


def same_data(name: str, before: Outcome, after: Outcome) -> None:
    wrong = [f"{one} / {other}" for one, other in zip(before.results, after.results, strict=True) if one != other]
    assert not wrong, f"{name}: {len(wrong)} calls have other data than on stock:\n" + "\n".join(wrong[:20])


def compare(session: Session, jobs: Jobs, builds: Builds, way: int) -> int:
    """One session on stock and patched, each with and without the patch that writes launches down.

    Returns how many launches there were: a session whose calls are one group of empty ones has none.
    """
    print(session)
    before = jobs.run(session, builds.stock_dumping, name="stock-dumping", dump=True)
    held = contents(before.dumps)
    print(", ".join(f"{name}: {number}" for name, number in sorted(held.items())))
    assert held["not uploaded"] == 0
    assert len(before.results) == session.calls * session.processes * session.devices

    after = jobs.run(session, builds.patched_dumping, name="patched-dumping", dump=True)
    same_launches(before.dumps, after.dumps)
    same_data("patched, dumping", before, after)
    same_data("stock without the patch", before, jobs.run(session, builds.stock, name="stock"))
    if way == 0:
        same_data("patched without the patch", before, jobs.run(session, builds.patched, name="patched"))
    elif way == 1:
        another = jobs.run(session, builds.patched_dumping, name="rules", dump=True, rules=True)
        same_launches(before.dumps, another.dumps)
        same_data("rules that tune nothing", before, another)
    else:
        plan = jobs.folder / "plan.csv"
        plan.write_text("allreduce,4611686018427387904,-1,ring,simple,1,-1,-1,-1,-1,128,1024\n")
        settings = {"LAGOM_COUNTERS": "1", "LAGOM_PLAN": str(plan)}
        another = jobs.run(session, builds.patched_dumping, settings, name="counted", dump=True)
        same_launches(before.dumps, another.dumps, ignored=(PADDING,))
        same_data("counters on, a plan that nothing matches", before, another)
        numbers = re.findall(r'"args.padding":(\d+)', "".join(path.read_text() for path in another.dumps))
        # Send/recv is not counted, and some sessions have nothing else.
        assert (set(numbers) - {"0"} != set()) == (held["coll"] + held["registered coll"] > 0)
    return held["launch"]


def test_a_sample(jobs: Jobs, builds: Builds) -> None:
    rng = seeded()
    assert sum(compare(draw(rng, calls, eight=False), jobs, builds, way) for way, calls in enumerate((40, 30, 30)))


@pytest.mark.full
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("block", range(25))
def test_5000_calls(jobs: Jobs, builds: Builds, block: int) -> None:
    rng = seeded(1 + block)
    assert sum(compare(draw(rng, 50, eight=True), jobs, builds, (block + part) % 3) for part in range(4))


@pytest.mark.full
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("block", range(5))
def test_large_calls_that_nobody_runs(jobs: Jobs, builds: Builds, block: int) -> None:
    """Descriptors alone, of many calls up to the size of the buffers."""
    rng = seeded(100 + block)
    for _ in range(4):
        session = replace(draw(rng, 500, eight=True), most_bytes=24 << 20)
        print(session)
        before = jobs.run(session, builds.stock_dumping, name="stock-dry", dump=True, dry=True)
        after = jobs.run(session, builds.patched_dumping, name="patched-dry", dump=True, dry=True)
        assert contents(before.dumps)["launch"] > 0
        same_launches(before.dumps, after.dumps)
