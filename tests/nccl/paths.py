# SPDX-License-Identifier: Apache-2.0
"""Collectives against NumPy on one path that is chosen at init by NCCL_ALGO: NVLink SHARP, NVLS tree, PAT; with
registered buffers or without; also a single rank.

A program and not a test, so that many cases share one start:

    NCCL_ALGO=NVLS mpirun -n 3 python paths.py nvls [--sample N --seed S] [--registered] [--ranks-per-host N]

Each case checks every received element, and that what was sent and what lies beside the buffers is untouched. Pairs of
operation and type that the path cannot do must be NCCL's own error, and the communicator must go on. Rank 0 prints the
number of cases and each failure; exit code 1 if there is one.
"""

import argparse
import itertools
import os
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from mpi4py import MPI

import lagom.nccl as nccl
from lagom.bench.collectives import COLLECTIVES, Call
from lagom.bench.patterns import Pattern
from lagom.nccl import Communicator, DeviceBuffer, Knobs, NcclError, ReductionOp, Rule, Stream

DTYPES = (
    "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64",
    "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip
OPS = ("sum", "prod", "max", "min", "avg", "mulsum")
SIZES = (0, 1, 3, 1000, 65537)
FOUR_MIB = 4 << 20
GUARD_BYTES, GUARD, UNWRITTEN = 512, 0x5C, 0xA5
# What NVLS can reduce (NCCL 2.29.7, ncclNvlsSupported); everything else on these paths is an error.
WHOLE = {"int32", "uint32", "int64", "uint64"}
HALF = {"float16", "bfloat16"}
NVLS = {
    **dict.fromkeys(("max", "min"), WHOLE | HALF),
    "sum": WHOLE | HALF | {"float32", "float64"},
}
COLLECTIVES_OF = {
    "nvls": ("all_reduce", "all_gather", "reduce_scatter"),
    "nvls_tree": ("all_reduce",),
    "pat": ("all_gather", "reduce_scatter"),
    "ring": ("all_reduce", "all_gather", "broadcast"),
    "one_rank": ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"),
}


class Case(NamedTuple):
    collective: str
    dtype: str
    op: str | None
    size: int  # elements of a share; FOUR_MIB: that many bytes
    in_place: bool

    def __str__(self) -> str:
        place = "in place" if self.in_place else "out of place"
        return f"{self.collective} {self.dtype} {self.op or '-'} {self.size} elements {place}"


def possible(path: str, dtype: str, op: str | None) -> bool:
    if path == "pat":
        return op not in ("avg", "mulsum")  # "doesn't support scaling yet" (NCCL 2.29.7, updateCollCostTable)
    return op is None or not path.startswith("nvls") or dtype in NVLS.get(op, ())


def cases(path: str, whole: bool) -> Iterator[Case]:
    sizes = (*SIZES, FOUR_MIB) if whole else SIZES
    for collective in COLLECTIVES_OF[path]:
        ops: tuple[str | None, ...] = OPS if COLLECTIVES[collective].reduces else (None,)
        for dtype, op, size, in_place in itertools.product(DTYPES, ops, sizes, (False, True)):
            # On one rank NCCL multiplies 8-bit floats in builds for 9.0 and later only.
            if path == "one_rank" and dtype.startswith("float8") and op in ("avg", "mulsum"):
                continue
            yield Case(collective, dtype, op, size, in_place)


class Room:
    """Memory for one side of a call, with guards around what a call uses."""

    def __init__(self, comm: Communicator, nbytes: int, register: str) -> None:
        make = nccl.mem_alloc if register == "nccl" else nccl.empty
        self._all = make(nbytes + 2 * GUARD_BYTES, "uint8")
        self.registration = comm.register(self._all) if register else None

    def take(self, dtype: str, count: int, stream: Stream) -> DeviceBuffer:
        nbytes = count * nccl.dtype(dtype).itemsize
        self._end = GUARD_BYTES + nbytes
        self._all[:GUARD_BYTES].fill_bytes(GUARD, stream)
        self._all[GUARD_BYTES : self._end].fill_bytes(UNWRITTEN, stream)
        self._all[self._end : self._end + GUARD_BYTES].fill_bytes(GUARD, stream)
        return self._all[GUARD_BYTES : self._end].view(dtype)

    def touched(self, stream: Stream) -> bool:
        guards = (self._all[:GUARD_BYTES], self._all[self._end : self._end + GUARD_BYTES])
        return any(bool(np.any(guard.to_host(stream) != GUARD)) for guard in guards)


class Runner:
    def __init__(self, comm: Communicator, path: str, register: str) -> None:
        self.comm, self.path = comm, path
        self.stream = Stream()
        self.rooms = [Room(comm, FOUR_MIB * comm.size + 64, register) for _ in range(2)]
        self.scalars = random.Random(comm.size)
        self.counted = nccl.library().patched and path != "one_rank"
        if self.counted:
            comm.counters.enable()

    def operation(self, case: Case, pattern: Pattern) -> str | ReductionOp:
        """For "mulsum" this rank's own, with a scalar of the host or of the device."""
        if case.op != "mulsum":
            return case.op or "sum"
        scalar = np.array([pattern.scalar(self.comm.rank)]).astype(nccl.dtype(case.dtype).numpy)
        if self.scalars.random() < 0.5:
            return self.comm.pre_mul_sum(scalar[0].item(), case.dtype)
        return self.comm.pre_mul_sum(nccl.empty(1, case.dtype).from_host(scalar, self.stream), case.dtype)

    def run(self, case: Case) -> str | None:
        """None, or what is wrong on this rank."""
        comm, stream, collective = self.comm, self.stream, COLLECTIVES[case.collective]
        element = nccl.dtype(case.dtype)
        pattern = Pattern(element, case.op, comm.size)
        share = FOUR_MIB // element.itemsize if case.size == FOUR_MIB else case.size
        counts = collective.counts_of_share(share, comm.size)
        root = comm.size - 1
        largest = max(counts.send, counts.recv)
        send, recv = collective.buffers(
            self.rooms[0].take(case.dtype, counts.send, stream),
            self.rooms[1].take(case.dtype, largest if case.in_place else counts.recv, stream),
            counts,
            comm.rank,
            case.in_place,
        )
        sent = collective.sent(pattern, comm.rank, counts, root)
        if sent is not None:
            send.from_host(sent, stream)
        operation = self.operation(case, pattern)
        try:
            collective.launch(comm, Call(send, recv, operation, root, stream))
        except NcclError as error:
            if possible(self.path, case.dtype, case.op):
                return str(error)
            return None if "no algorithm/protocol available" in str(error) else f"another error: {error}"
        finally:
            if isinstance(operation, ReductionOp):
                operation.destroy()
        if not possible(self.path, case.dtype, case.op) and share > 0:
            return "it ran, though the path cannot do it"
        stream.synchronize()
        comm.check()
        if case.size == 0 and not possible(self.path, case.dtype, case.op):
            return None
        expected = collective.expected(pattern, comm.rank, counts, root)
        if expected is not None and (fault := pattern.fault(recv.to_host(stream), expected)):
            return fault
        if sent is not None and not case.in_place and send.to_host(stream).tobytes() != sent.tobytes():
            return "the sent data changed"
        if any(room.touched(stream) for room in self.rooms):
            return "memory beside the buffers was written to"
        return self.what_ran(case)

    def what_ran(self, case: Case) -> str | None:
        """None, or how the device's own view of the call differs."""
        for record in self.comm.counters.read() if self.counted else ():
            if (record.collective, record.used.algorithm) != (case.collective, self.path) or not record.exact:
                return f"the device saw {record.collective} {record.used}, exact {record.exact}"
        return None

    def takes_knobs(self) -> str | None:
        """None where a rule is refused by name, also one that leaves the algorithm to NCCL, and calls work again."""
        for knobs in (Knobs(channels=1), Knobs(self.path)):
            self.comm.set_rules([Rule(collective, knobs=knobs) for collective in COLLECTIVES_OF[self.path]])
            for collective in COLLECTIVES_OF[self.path]:
                said = self.run(
                    Case(collective, "float32", "sum" if COLLECTIVES[collective].reduces else None, 3, False)
                )
                if f"algorithm={self.path}" not in str(said) or "takes no knobs" not in str(said):
                    return f"{collective} with {knobs}: {said}"
        self.comm.set_rules([])
        return self.run(Case(COLLECTIVES_OF[self.path][0], "float32", "sum", 1000, False))


def mapped() -> list[str]:
    """The parts of device memory files that this process maps, by their place in the address space."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line.split()[0] for line in lines if re.search(r"memfd:hostcuda", line)]


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("path", choices=list(COLLECTIVES_OF))
    parser.add_argument("--sample", type=int, help="that many cases, drawn at random (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", nargs="+", choices=DTYPES, default=DTYPES)
    parser.add_argument("--op", nargs="+", choices=OPS, default=OPS)
    parser.add_argument("--possible-only", action="store_true")
    parser.add_argument("--ranks-per-host", type=int)
    parser.add_argument("--register", choices=("nccl", "cuda"), default="", help="whose allocation to register")
    parser.add_argument("--tuned", action="store_true", help="ring only: under a rule that sets knobs")
    chosen = parser.parse_args()
    world = MPI.COMM_WORLD
    if chosen.ranks_per_host:
        os.environ["NCCL_HOSTID"] = f"host{world.Get_rank() // chosen.ranks_per_host}"
    drawn = [
        case
        for case in cases(chosen.path, whole=chosen.sample is None)
        if case.dtype in chosen.dtype and (case.op is None or case.op in chosen.op)
    ]
    every = len(drawn)
    if chosen.possible_only:
        drawn = [case for case in drawn if possible(chosen.path, case.dtype, case.op)]
    if chosen.sample is not None:
        drawn = sorted(random.Random(chosen.seed).sample(drawn, min(chosen.sample, len(drawn))), key=str)
    failures: list[str] = []
    with nccl.init(world) as comm:
        runner = Runner(comm, chosen.path, chosen.register)
        if chosen.tuned:
            knobs = Knobs("ring", "simple", channels=2)
            comm.set_rules([Rule(collective, knobs=knobs) for collective in COLLECTIVES_OF["ring"]])
        for case in drawn:
            for rank, problem in enumerate(world.allgather(runner.run(case))):
                if problem is not None:
                    failures.append(f"rank {rank}, {case}: {problem}")
        if runner.counted and chosen.path != "ring":
            failures += [f"rules: {failure}" for failure in world.allgather(runner.takes_knobs()) if failure]
        if chosen.register:
            failures += [failure for failure in world.allgather(deregister(runner, world)) if failure]
    if world.Get_rank() == 0:
        for failure in failures:
            print("FAILED", failure)
        ran = sum(1 for case in drawn if case.size and possible(chosen.path, case.dtype, case.op))
        print(f"{len(drawn)} of {every} cases, seed {chosen.seed}: {ran} ran, {len(failures)} failures")
    return 1 if failures else 0


def deregister(runner: Runner, world: MPI.Intracomm) -> str:
    """Nothing that registration mapped may stay: a second round of the same must find and leave the same mappings.

    The buffers are registered again in the end, so that the communicator's end has to cope with that.
    """
    seen = []
    for _ in range(2):
        for room in runner.rooms:
            if room.registration is not None:
                room.registration.close()
        world.Barrier()
        seen.append(mapped())
        world.Barrier()
        for room in runner.rooms:
            room.registration = runner.comm.register(room._all)
        problem = runner.run(Case("all_gather", "float32", None, 65537, False))
        if problem:
            return problem
        world.Barrier()
    return "" if seen[0] == seen[1] else f"rank {runner.comm.rank}: mappings after deregistering grow: {seen}"


if __name__ == "__main__":
    sys.exit(main())
