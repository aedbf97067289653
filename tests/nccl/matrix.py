# SPDX-License-Identifier: Apache-2.0
"""Every collective against NumPy: algorithm x protocol x type x operation x size, on the ranks and hosts of this job.

A program and not a test, so that thousands of cases share one start:

    mpirun -n 4 python matrix.py [--layout pairs] [--forced environment] [--sample N --seed S] [--collective NAME] ...

Each case checks every received element, that memory before and behind the buffers and the sent data are untouched,
that the comparison can fail (one element is changed), and, with the patched library, that the device saw what was
forced on the hosts that were meant. What NCCL refuses, all ranks must refuse alike, at the call, for every size but 0.
Rank 0 prints how many cells (path, type, operation) of each path ran and were refused, with NCCL's words, the number of
cases and each failure; exit code 1 if there is one.
"""

import argparse
import itertools
import os
import random
import re
import sys
from collections import Counter, defaultdict

from mpi4py import MPI

import lagom.nccl as nccl
from lagom.bench.collectives import COLLECTIVES
from lagom.bench.options import OP_NAMES
from lagom.bench.patterns import Pattern
from lagom.nccl import Communicator, Config, Knobs, ReductionOp, Rule, Stream

if __package__ in (None, ""):
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from matrix_cases import FIRST_SIZE, SIZES, Arena, Case, Job, Path, batches

ALGORITHMS = ("ring", "tree", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
PROTOCOLS = {"ll": "LL", "ll128": "LL128", "simple": "Simple"}
WITH_KNOBS = nccl.COLLECTIVES
DTYPES = tuple(dtype.name for dtype in nccl.DTYPES)
# Ranks to a host.
LAYOUTS = {"one": lambda ranks: ranks, "pairs": lambda ranks: 2, "apart": lambda ranks: 1}
_ROOM_BYTES = 48 << 20
Heard = tuple[list[str | None], list[str | None], str | None]
"""Of one rank: what is wrong with each case, how it was refused, and what the device saw otherwise."""


def cells(chosen: argparse.Namespace) -> list[Case]:
    """The first case of each path, type and operation."""
    found = []
    for name in chosen.collective:
        paths = [Path(name, None, None)]
        if name in WITH_KNOBS:
            paths = [Path(name, *pair) for pair in itertools.product(chosen.algorithm, chosen.protocol)]
        elif chosen.forced == "environment":
            continue
        ops: tuple[str | None, ...] = tuple(chosen.op) if COLLECTIVES[name].reduces else (None,)
        found += [Case(path, dtype, op, FIRST_SIZE) for path in paths for dtype in chosen.dtype for op in ops]
    return found


class Forced:
    """A communicator whose collectives take one path: by a rule, or by NCCL_ALGO and NCCL_PROTO."""

    def __init__(self, world: MPI.Intracomm, chosen: argparse.Namespace) -> None:
        self._world = world
        self._by_knobs = chosen.forced == "knobs"
        self._config = Config(max_ctas=chosen.ctas) if chosen.ctas else None
        self._counted = nccl.library().patched
        self._pair: tuple[str | None, str | None] = (None, None)
        self._comm: Communicator | None = None
        self._ops: dict[str, ReductionOp] = {}

    def take(self, path: Path) -> Communicator:
        if self._by_knobs:
            comm = self._comm or self._make()
            comm.set_rules([] if path.algorithm is None else [Rule(path.collective, knobs=Knobs(*path[1:]))])
            return comm
        if self._comm is None or self._pair != path[1:]:
            self.end()
            self._pair = path[1:]
            os.environ["NCCL_ALGO"] = (path.algorithm or "").replace("_", "")
            os.environ["NCCL_PROTO"] = PROTOCOLS[path.protocol or "simple"]
            return self._make()
        return self._comm

    def _make(self) -> Communicator:
        self._comm = nccl.init(self._world, config=self._config)
        if self._counted:
            self._comm.counters.enable()
        return self._comm

    def op(self, case: Case) -> str | ReductionOp:
        if case.op != "mulsum":
            return case.op or "sum"
        if case.dtype not in self._ops and self._comm is not None:
            scalar = Pattern(nccl.dtype(case.dtype), "mulsum", self._comm.size).scalar(self._comm.rank)
            self._ops[case.dtype] = self._comm.pre_mul_sum(scalar, case.dtype)
        return self._ops[case.dtype]

    def what_ran(self, jobs: list[Job], nodes: int) -> str | None:
        """None, or how the device's view differs from what was asked."""
        if not self._counted or self._comm is None:
            return None
        records = self._comm.counters.read()
        asked = [job.case for job in jobs if job.case.count and job.case.path.algorithm and job.refused is None]
        records = [record for record in records if record.collective in WITH_KNOBS]
        if len(records) != len(asked):
            return f"the device counted {len(records)} operations of {len(asked)}"
        for record, case in zip(records, asked, strict=True):
            used = (record.collective, record.used.algorithm, record.used.protocol)
            if used != tuple(case.path) or not record.exact or record.nodes != nodes:
                return (
                    f"{case}: the device saw {' '.join(map(str, used))} on {record.nodes} hosts, exact {record.exact}"
                )
        return None

    def end(self) -> None:
        self._ops.clear()
        if self._comm is not None:
            self._comm.destroy()
            self._comm = None


class Matrix:
    """One run: what has been found so far."""

    def __init__(self, world: MPI.Intracomm, chosen: argparse.Namespace) -> None:
        self.world = world
        self.forced = Forced(world, chosen)
        self.nodes = -(-world.Get_size() // LAYOUTS[chosen.layout](world.Get_size()))
        self.ran = 0
        self.failures: list[str] = []
        self.accepted: Counter[Path] = Counter()
        self.refused: defaultdict[Path, Counter[str]] = defaultdict(Counter)
        self._arenas: tuple[Arena, Arena] | None = None
        self._stream: Stream | None = None

    def batch(self, comm: Communicator, cases: list[Case]) -> set[Case]:
        """Run cases of one path; returns those that NCCL refused."""
        if self._arenas is None or self._stream is None:
            room = max(_ROOM_BYTES, max(case.nbytes(comm.size) for case in cases))
            self._arenas, self._stream = (Arena(room), Arena(room)), Stream()
        for arena in self._arenas:
            arena.clear()
        jobs = [Job(comm, case, self._arenas) for case in cases]
        for arena in self._arenas:
            arena.upload(self._stream)
        for job in jobs:
            job.launch(comm, self.forced.op(job.case), self._stream)
        self._stream.synchronize()
        comm.check()
        for arena in self._arenas:
            arena.download(self._stream)
        problems = [None if job.refused is not None else job.problem(comm.rank) for job in jobs]
        mine = (problems, [job.refused for job in jobs], self.forced.what_ran(jobs, self.nodes))
        return self._compare(cases, self.world.allgather(mine))

    def _compare(self, cases: list[Case], heard: list[Heard]) -> set[Case]:
        refused = set()
        for index, case in enumerate(cases):
            texts = [texts[index] for _, texts, _ in heard]
            if len({text is None for text in texts}) > 1:
                self.failures.append(f"{case}: refused on some ranks only: {texts}")
            if texts[0] is not None:
                refused.add(case)
                self.refused[case.path][texts[0]] += 1
            for rank, (problems, _, _) in enumerate(heard):
                if problems[index] is not None:
                    self.failures.append(f"rank {rank}, {case}: {problems[index]}")
        for rank, (_, _, saw) in enumerate(heard):
            if saw is not None:
                self.failures.append(f"rank {rank}, {saw}")
        self.ran += len(cases) - len(refused)
        return refused

    def path(self, path: Path, first: list[Case], sizes: tuple[int | str, ...]) -> None:
        """All cells of one path: the first case of each, then other sizes of those that NCCL does not refuse."""
        try:
            comm = self.forced.take(path)
        except ValueError as error:
            # A path that no machine has is no rule; the check is the same on all ranks.
            self.refused[path][str(error)] += len(first)
            return
        refused: set[Case] = set()
        for batch in batches(first, comm.size, _ROOM_BYTES):
            refused |= self.batch(comm, batch)
        able = [case for case in first if case not in refused]
        self.accepted[path] += len(able)
        rest = [case._replace(size=size) for case in able for size in sizes if size != FIRST_SIZE]
        rest.sort(key=lambda case: case.nbytes(comm.size))
        for batch in batches(rest, comm.size, _ROOM_BYTES):
            for case in self.batch(comm, batch):
                self.failures.append(f"{case}: refused, though {FIRST_SIZE} elements were not")

    def report(self) -> None:
        for path in sorted({*self.accepted, *self.refused}, key=str):
            texts = self.refused[path]
            shown = "; ".join(re.sub(r"\s+", " ", text)[:160] for text, _ in texts.most_common(2))
            print(f"{path}: {self.accepted[path]} ran, {texts.total()} refused{': ' if shown else ''}{shown}")
        for failure in self.failures:
            print("FAILED", failure)


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--collective", nargs="+", choices=list(COLLECTIVES), default=list(COLLECTIVES))
    parser.add_argument("--algorithm", nargs="+", choices=ALGORITHMS, default=ALGORITHMS)
    parser.add_argument("--protocol", nargs="+", choices=PROTOCOLS, default=list(PROTOCOLS))
    parser.add_argument("--dtype", nargs="+", choices=DTYPES, default=DTYPES)
    parser.add_argument("--op", nargs="+", choices=OP_NAMES, default=OP_NAMES)
    parser.add_argument("--layout", choices=list(LAYOUTS), default="one")
    parser.add_argument("--forced", choices=("knobs", "environment"), default="knobs")
    parser.add_argument("--ctas", type=int, default=2, help="most channels of the communicator; 0: as NCCL likes (2)")
    parser.add_argument("--small", action="store_true", help=f"{FIRST_SIZE} elements only")
    parser.add_argument("--sample", type=int, help="that many cells with one more size each, at random (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    world = MPI.COMM_WORLD
    # Read when NCCL starts: which ranks are on one host, and the interface between hosts.
    os.environ["NCCL_HOSTID"] = f"host{world.Get_rank() // LAYOUTS[chosen.layout](world.Get_size())}"
    os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    every = cells(chosen)
    drawn = random.Random(chosen.seed)
    picked = every
    if chosen.sample is not None and chosen.sample < len(every):
        picked = [every[index] for index in sorted(drawn.sample(range(len(every)), chosen.sample))]
    # One pair after the other, because with the environment each needs a communicator.
    picked.sort(key=lambda case: (case.path.algorithm or "", case.path.protocol or ""))
    matrix = Matrix(world, chosen)
    for path, block in itertools.groupby(picked, key=lambda case: case.path):
        sizes = () if chosen.small else SIZES if chosen.sample is None else (drawn.choice(SIZES),)
        matrix.path(path, list(block), sizes)
    matrix.forced.end()
    if world.Get_rank() == 0:
        matrix.report()
        drawing = f", drawn with seed {chosen.seed}" if len(picked) < len(every) else ""
        print(
            f"{len(picked)} of {len(every)} cells, {matrix.ran} cases ran on {world.Get_size()} ranks, layout "
            f"{chosen.layout}{drawing}; {len(matrix.failures)} failures"
        )
    return 1 if matrix.failures else 0


if __name__ == "__main__":
    sys.exit(main())
