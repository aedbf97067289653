# SPDX-License-Identifier: Apache-2.0
"""Changing rules on all ranks or on none.

    mpirun -n 3 python setting.py disagree [--ways N] [--seed N]   every rank hears of every difference, old rules stay
    mpirun -n 4 python setting.py traffic [--changes N] [--seed N] each call runs with the rules of its own epoch
    mpirun -n 3 python setting.py away                             the last rank never comes (LAGOM_TIMEOUT_S=2)
    mpirun -n 3 python setting.py late                             the last rank comes when the others have given up
    mpirun -n 2 python setting.py nonblocking                      the same on communicators that do not block
    python setting.py devices                                      one thread sets the rules of two devices in a group

Prints "right" and ends with 0, or says what was wrong and ends with 1.
"""

import argparse
import dataclasses
import random
import sys
import time
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

import lagom.nccl as nccl
from lagom.nccl import Communicator, Config, Knobs, NcclError, Rule

_OLD = [Rule("all_reduce", knobs=Knobs("ring", "ll", 2))]
_INVALID_USAGE, _REMOTE = 5, 6


def check(fine: bool, what: str) -> None:
    if not fine:
        raise SystemExit(f"rank {MPI.COMM_WORLD.Get_rank()}: {what}")


def sum_is_right(comm: Communicator) -> bool:
    data = nccl.zeros(1000).from_host(np.full(1000, comm.rank + 1))
    comm.all_reduce(data)
    nccl.synchronize()
    return bool((data.numpy() == comm.size * (comm.size + 1) // 2).all())


def drawn_rule(rng: random.Random) -> Rule:
    pair = rng.choice((("ring", "ll"), ("ring", "simple"), ("tree", "ll"), (None, None)))
    knobs = Knobs(*pair, rng.choice((None, 1, 2, 4)), rng.choice((None, 128, 256)), rng.choice((None, 15360)))
    low = rng.choice((-1, 0, 1000))
    return Rule("all_reduce", low, rng.choice((-1, 1 << 20)), rng.choice((-1, 1)), rng.choice((-1, 3)), knobs)


def other(rng: random.Random, rules: list[Rule]) -> tuple[list[Rule], str]:
    """Rules that differ from ``rules`` in one place, and what a refusal must name."""
    if not rules or rng.random() < 0.15:
        return [*rules, drawn_rule(rng)], "the number of rules"
    at = rng.randrange(len(rules))
    rule = rules[at]
    column, changed = rng.choice(
        (
            ("collective", dataclasses.replace(rule, collective="reduce", knobs=Knobs(channels=1))),
            ("min_bytes", dataclasses.replace(rule, min_bytes=77)),
            ("max_bytes", dataclasses.replace(rule, max_bytes=1 << 21)),
            ("nNodes", dataclasses.replace(rule, n_nodes=2)),
            ("nRanks", dataclasses.replace(rule, n_ranks=5)),
            ("channels", dataclasses.replace(rule, knobs=dataclasses.replace(rule.knobs, channels=7))),
            ("threads", dataclasses.replace(rule, knobs=dataclasses.replace(rule.knobs, threads=192))),
            ("chunk_bytes", dataclasses.replace(rule, knobs=dataclasses.replace(rule.knobs, chunk_bytes=7680))),
        )
    )
    return [*rules[:at], changed, *rules[at + 1 :]], f"{column} of rule {at}"


def disagree(world: MPI.Intracomm, chosen: argparse.Namespace) -> None:
    rng = random.Random(chosen.seed)
    with nccl.init(world) as comm:
        comm.set_rules(_OLD)
        for way in range(chosen.ways):
            rules = [drawn_rule(rng) for _ in range(rng.randrange(0, 6))]
            changed, names = other(rng, rules)
            odd = rng.randrange(comm.size)
            called = rng.random() < 0.2 and comm.size > 1
            mine = changed if comm.rank == odd and not called else rules
            if called:
                # One rank has called an empty collective more than the others.
                names = "the number of collectives called before"
                if comm.rank == odd:
                    comm.all_reduce(nccl.empty(0))
            try:
                comm.set_rules(mine)
            except NcclError as error:
                # Where rank 0 is the odd one, rank 1 is the first that differs from it.
                rank = f"of rank {odd or 1} "
                check(error.code == _INVALID_USAGE, f"way {way}: {error}")
                check(names in error.text and rank in error.text, f"way {way}: not {names} {rank}: {error.text}")
                check("old rules stay" in error.text, error.text)
            else:
                check(False, f"way {way}: rank {odd} differs in {names}, and nothing was said")
            check(comm.rules == _OLD, f"way {way}: {comm.rules}")
            if called and comm.rank != odd:
                comm.all_reduce(nccl.empty(0))
            check(sum_is_right(comm), f"way {way}: wrong data")
        comm.set_rules([])


def traffic(world: MPI.Intracomm, chosen: argparse.Namespace) -> None:
    rng = random.Random(chosen.seed)
    with nccl.init(world) as comm:
        comm.counters.enable()
        stream = nccl.Stream()
        data = nccl.zeros(3000)
        for turn in range(chosen.changes):
            expected = []
            # No synchronization between a change and the calls before and after it.
            for _ in range(5):
                knobs = Knobs("ring", rng.choice(("ll", "simple")), rng.randrange(1, 5), rng.choice((64, 128, 256)))
                comm.set_rules([Rule("all_reduce", knobs=knobs)])
                for _ in range(rng.randrange(1, 4)):
                    comm.all_reduce(data, stream=stream)
                    expected.append(knobs)
            stream.synchronize()
            records = comm.counters.read()
            check([record.asked for record in records] == expected, f"turn {turn}: asked for other knobs")
            check(all(record.exact for record in records), f"turn {turn}: ran with other knobs")


def gives_up(comm: Communicator, call: Callable[[], None]) -> None:
    """The call fails with ncclRemoteError within the limit, and so does every one after it; abort returns."""
    begun = time.monotonic()
    for again in (call, lambda: comm.all_reduce(nccl.zeros(1))):
        try:
            again()
        except NcclError as error:
            check(error.code == _REMOTE, str(error))
        else:
            check(False, "nothing was said")
    check(time.monotonic() - begun < 60, "too late")
    comm.abort()


def away(world: MPI.Intracomm, chosen: argparse.Namespace) -> None:
    comm = nccl.init(world)
    data = nccl.zeros(100_000).from_host(np.full(100_000, 1))
    stream = nccl.Stream()
    comm.all_reduce(data, stream=stream)
    if comm.rank == comm.size - 1:
        if chosen.what == "away":
            stream.synchronize()
            world.Barrier()
            comm.abort()
            return
        world.Barrier()
    if comm.rank == comm.size - 1:
        gives_up(comm, lambda: comm.set_rules(_OLD))
        return
    try:
        comm.set_rules(_OLD)
    except NcclError as error:
        check(error.code == _REMOTE and "not all ranks came" in error.text, str(error))
    stream.synchronize()
    check(bool((data.numpy() == comm.size).all()), "a call from before has wrong data")
    world.Barrier()
    gives_up(comm, lambda: comm.set_rules(_OLD))


def nonblocking(world: MPI.Intracomm, chosen: argparse.Namespace) -> None:
    comm = nccl.init(world, config=Config(blocking=False))
    comm.wait_ready()
    comm.set_rules(_OLD)
    comm.wait_ready()
    check(comm.rules == _OLD, "rules are not set")
    comm.set_rules([] if comm.rank else [drawn_rule(random.Random(1))])
    try:
        comm.wait_ready()
    except NcclError as error:
        check(error.code == _INVALID_USAGE, str(error))
    else:
        check(False, "the refusal was not told")
    comm.wait_ready()  # once
    check(comm.rules == _OLD, "old rules are gone")
    child = comm.split(0, comm.rank)
    assert child is not None
    comm.wait_ready()
    child.wait_ready()
    child.finalize()
    child.wait_ready()
    child.destroy()
    comm.finalize()
    comm.wait_ready()
    comm.destroy()


def devices(world: MPI.Intracomm, chosen: argparse.Namespace) -> None:
    comms = nccl.init_all(2)
    with nccl.group():
        for comm in comms:
            comm.set_rules(_OLD)
    check(all(comm.rules == _OLD for comm in comms), "rules are not set")
    try:
        with nccl.group():
            comms[0].set_rules([])
            comms[1].set_rules([Rule("reduce", knobs=Knobs(channels=1))])
    except NcclError as error:
        check(error.code == _INVALID_USAGE, str(error))
    else:
        check(False, "two devices differ, and nothing was said")
    check(all(comm.rules == _OLD for comm in comms), "old rules are gone")
    data = []
    for comm in comms:
        nccl.set_device(comm.device)
        data.append(nccl.zeros(10).from_host(np.full(10, 1)))
    with nccl.group():
        for comm, buffer in zip(comms, data, strict=True):
            comm.all_reduce(buffer)
    for comm, buffer in zip(comms, data, strict=True):
        nccl.set_device(comm.device)
        nccl.synchronize()
        check(bool((buffer.numpy() == 2).all()), "wrong data after a refused change")
    for comm in comms:
        comm.destroy()


def main() -> int:
    doing = {
        "disagree": disagree,
        "traffic": traffic,
        "away": away,
        "late": away,
        "nonblocking": nonblocking,
        "devices": devices,
    }
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("what", choices=list(doing))
    parser.add_argument("--ways", type=int, default=200)
    parser.add_argument("--changes", type=int, default=200, help="rounds of five changes")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    doing[chosen.what](MPI.COMM_WORLD, chosen)
    MPI.COMM_WORLD.Barrier()
    print("right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
