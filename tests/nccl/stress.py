# SPDX-License-Identifier: Apache-2.0
"""Random use of NCCL, every result checked:

    mpirun -n 2 python stress.py [--seed N] [--from K] [--rounds N | --seconds S] [--devices D] [--layout pairs]

Each process drives D devices, a thread each; all of them are ranks. A round draws from seed and number of the round,
the same on every rank: a communicator (all ranks, or parts of them by split, with its own channels or shared resources,
destroyed afterwards), some streams, and calls on them: all collectives, sends along permutations, scaled sums with host
and device scalars, results that another stream uses after an event, memory that the device fills, registered or not, in
groups or not. Ranks dawdle at random. A round is checked and wiped before the next, so --from K begins with round K.

The transport is a matter of the environment (NCCL_P2P_DISABLE, NCCL_SHM_DISABLE, ...). A watchdog ends a run that gets
no further, with seed, round and call. Exit code 1 for wrong data, 3 for a hang.
"""

import argparse
import contextlib
import faulthandler
import os
import random
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from mpi4py import MPI

import lagom.nccl as nccl
from lagom.bench.options import OP_NAMES
from lagom.bench.patterns import Pattern
from lagom.nccl import Communicator, Config, ReductionOp, Stream

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from matrix import DTYPES, LAYOUTS
from matrix_cases import Arena, Case
from stress_calls import Step, draw

_ROOM_BYTES = 96 << 20
_MOST_CALLS = 10
_TURN_ROUNDS = 8


class Rank:
    """One rank: its communicator over all, and its memory."""

    def __init__(self, comm: Communicator, chosen: argparse.Namespace, seed: int, siblings: threading.Barrier) -> None:
        self.world, self._siblings = comm, siblings
        self.rank = comm.rank
        self._chosen, self._seed = chosen, seed
        self._arenas = (Arena(_ROOM_BYTES, by_nccl=True), Arena(_ROOM_BYTES, by_nccl=True))
        self.calls = 0
        self.failures: list[str] = []
        self.doing, self.since = "starting", time.monotonic()

    def now(self, doing: str) -> None:
        self.doing, self.since = doing, time.monotonic()

    def round(self, number: int) -> None:
        rng = random.Random(f"{self._seed} {number}")
        own = random.Random(f"{self._seed} {number} {self.rank}")
        self.now(f"round {number}, before its calls")
        nccl.set_device(self.world.device)
        with contextlib.ExitStack() as stack:
            comm = stack.enter_context(self._part(rng))
            registered = rng.random() < 0.3
            for arena in self._arenas:
                arena.clear()
                if registered:
                    # Both, because NCCL needs both sides of a send registered, or none.
                    stack.enter_context(comm.register(arena.memory))
            streams = [Stream() for _ in range(rng.randint(1, 3))]
            scalars = Scalars(comm, stack)
            # What follows differs between parts of the ranks only in the ranks' numbers.
            steps = [
                draw(rng, comm, self._arenas, streams, self._chosen.dtype, self._chosen.op, scalars.op)
                for _ in range(rng.randint(1, _MOST_CALLS))
            ]
            self._launch(steps, rng, own, number)
            for stream in streams:
                stream.synchronize()
            comm.check()
            for step in steps:
                problem = step.problem()
                if problem is not None:
                    self._fail(f"round {number}, {step}: {problem}")
            self.calls += len(steps)

    def _launch(self, steps: list[Step], rng: random.Random, own: random.Random, number: int) -> None:
        at = 0
        while at < len(steps):
            together = rng.choice((1, 1, 1, 2, 3, 5))
            chosen = steps[at : at + together]
            grouped = together > 1 and not any(step.alone for step in chosen)
            with nccl.group() if grouped else contextlib.nullcontext():
                for step in chosen:
                    self.now(f"round {number}, {step}")
                    step.launch()
            if own.random() < 0.2:
                time.sleep(own.random() * 5e-3)
            at += together
        self.now(f"round {number}, waiting for its {len(steps)} calls")

    @contextlib.contextmanager
    def _part(self, rng: random.Random) -> Iterator[Communicator]:
        """The communicator of a round: all ranks, or this rank's part of them."""
        kind, parts, turned = rng.random(), rng.randint(1, 3), rng.random() < 0.5
        config = None
        if kind > 0.75:
            config = Config(max_ctas=rng.randint(1, 4), split_share=rng.randint(0, 1))
        if kind < 0.5:
            yield self.world
            return
        child = self.world.split(self.rank % parts, -self.rank if turned else self.rank, config)
        assert child is not None
        with child:
            yield child
        # The last rank of a process that destroys frees the memory of all of them, and freeing waits for their devices:
        # none may begin what waits for that last rank.
        self._siblings.wait()

    def _fail(self, what: str) -> None:
        self.failures.append(f"rank {self.rank}, {what}")
        print(f"stress: seed {self._seed}, rank {self.rank}, {what}", file=sys.stderr, flush=True)


class Scalars:
    """The scaled sums of one round, with host and device scalars in turn."""

    def __init__(self, comm: Communicator, stack: contextlib.ExitStack) -> None:
        self._comm, self._stack = comm, stack
        self._made: dict[str, ReductionOp] = {}

    def op(self, dtype: str, case: Case) -> ReductionOp:
        if dtype not in self._made:
            scalar = Pattern(nccl.dtype(dtype), "mulsum", self._comm.size).scalar(self._comm.rank)
            given = nccl.empty(1, dtype).from_host([scalar]) if case.salt % 2 else scalar
            self._made[dtype] = self._stack.enter_context(self._comm.pre_mul_sum(given, dtype))
        return self._made[dtype]


def watch(ranks: list[Rank], seed: int, limit_s: float, done: threading.Event) -> None:
    """End the process, and with it the job, when a rank gets no further."""
    while not done.wait(1.0):
        for rank in ranks:
            if time.monotonic() - rank.since > limit_s:
                text = f"stress: HANG for {limit_s:g} s: seed {seed}, rank {rank.rank}, {rank.doing}"
                print(text, file=sys.stderr, flush=True)
                faulthandler.dump_traceback()
                os._exit(3)


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--seed", type=int, help="default: random, printed")
    parser.add_argument("--from", type=int, default=0, dest="first", metavar="K", help="first round (0)")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, help="go on for so long instead")
    parser.add_argument("--devices", type=int, default=1, help="devices of each process, a thread each (1)")
    parser.add_argument("--layout", choices=list(LAYOUTS), default="one")
    parser.add_argument("--dtype", nargs="+", choices=DTYPES, default=DTYPES)
    parser.add_argument("--op", nargs="+", choices=OP_NAMES, default=OP_NAMES)
    parser.add_argument("--hang", type=float, default=300, help="seconds without progress that are a hang (300)")
    chosen = parser.parse_args()
    world = MPI.COMM_WORLD
    os.environ["NCCL_HOSTID"] = f"host{world.Get_rank() // LAYOUTS[chosen.layout](world.Get_size())}"
    os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    seed = world.bcast(random.randrange(1 << 30) if chosen.seed is None else chosen.seed)
    identity = world.bcast(nccl.unique_id() if world.Get_rank() == 0 else None)
    devices = [world.Get_rank() * chosen.devices + index for index in range(chosen.devices)]
    ranks: list[Rank] = []
    done = threading.Event()
    siblings = threading.Barrier(chosen.devices)
    begun = time.monotonic()

    def start(device: int) -> Rank:
        # The fewer channels, the more calls in the same time; a part of the rounds has more.
        config = Config(max_ctas=2)
        size = world.Get_size() * chosen.devices
        comm = nccl.init(unique_id=identity, rank=device, size=size, device=device, config=config)
        return Rank(comm, chosen, seed, siblings)

    def turn(rank: Rank, first: int, last: int) -> None:
        for number in range(first, last):
            try:
                rank.round(number)
            except Exception:
                # The other ranks would wait for this one for ever.
                print(f"stress: seed {seed}, rank {rank.rank}, {rank.doing}", file=sys.stderr)
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)

    with ThreadPoolExecutor(chosen.devices) as pool:
        ranks += pool.map(start, devices)
        watcher = threading.Thread(target=watch, args=(ranks, seed, chosen.hang, done), daemon=True)
        watcher.start()
        number, more = chosen.first, True
        while more:
            last = number + (_TURN_ROUNDS if chosen.seconds else chosen.rounds)
            for future in [pool.submit(turn, rank, number, last) for rank in ranks]:
                future.result()
            number = last
            more = world.bcast(bool(chosen.seconds) and time.monotonic() - begun < chosen.seconds)
        for future in [pool.submit(rank.world.destroy) for rank in ranks]:
            future.result()
    done.set()
    heard = world.allgather([(rank.calls, rank.failures) for rank in ranks])
    calls = sum(calls for process in heard for calls, _ in process)
    failures = [failure for process in heard for _, theirs in process for failure in theirs]
    if world.Get_rank() == 0:
        for failure in failures[:20]:
            print("FAILED", failure)
        print(
            f"seed {seed}: rounds {chosen.first} to {number - 1}, {calls} calls on {len(ranks) * len(heard)} ranks in "
            f"{len(heard)} processes, layout {chosen.layout}; {len(failures)} failures"
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
