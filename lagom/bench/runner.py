# SPDX-License-Identifier: Apache-2.0
"""Running a benchmark on all ranks; rank 0 prints."""

import itertools
import os
import socket
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

import lagom.nccl as nccl
from lagom.nccl import Communicator, DType, Event, Knobs, ReductionOp, Rule, Stream

from . import json_report, text
from .collectives import COLLECTIVES, Call, Collective, Counts
from .options import DTYPE_NAMES, OP_NAMES, Options
from .patterns import Pattern
from .results import NOT_RUN, DeviceLine, Header, Row, Side, Spread, Summary

if TYPE_CHECKING:
    from mpi4py import MPI

_FIRST_FP8_REDUCTIONS = (9, 0)  # compute capability from which NCCL reduces 8-bit floats
_UNWRITTEN = 0xA5


class TimeOutError(RuntimeError):
    """A collective did not finish in the time that -T allows."""


def run(options: Options, mpi_comm: "MPI.Comm") -> Summary:
    """Run the benchmark; call it on every rank of ``mpi_comm`` with equal options. Rank 0 prints the table."""
    _check_output_file(options, mpi_comm)
    with nccl.init(mpi_comm) as comm:
        library = nccl.library()
        if options.show_knobs and not library.patched:
            raise nccl.LibraryError(f"--knobs needs the patched NCCL, and {library.path} is not (`lagom build`)")
        return _Bench(options, mpi_comm, comm).run()


def _check_output_file(options: Options, mpi_comm: "MPI.Comm") -> None:
    """Find out before the work, and on every rank, whether rank 0 will be able to write the report."""
    problem: str | None = None
    if options.output_file is not None and mpi_comm.Get_rank() == 0:
        try:
            with open(options.output_file, "a", encoding="utf-8"):
                pass
        except OSError as error:
            problem = f"-J {options.output_file}: cannot be written: {error.strerror}"
    problem = mpi_comm.bcast(problem)
    if problem is not None:
        raise ValueError(problem)


class _Bench:
    """One run: its buffers, stream and measurements."""

    def __init__(self, options: Options, mpi_comm: "MPI.Comm", comm: Communicator) -> None:
        self.options = options
        self.mpi = mpi_comm
        self.comm = comm
        self.collective: Collective = COLLECTIVES[options.collective]
        self.stream: Stream | None = None if options.stream_null else Stream()
        # Room for the larger of both buffers at the largest size.
        self.scaled: dict[DType, ReductionOp] = {}
        self.send = nccl.empty(options.max_bytes, "uint8")
        self.recv = nccl.empty(options.max_bytes, "uint8")

    def run(self) -> Summary:
        """All sizes, types, operations and roots."""
        start_time = _now()
        self._set_rules()
        if self.options.show_knobs:
            self.comm.counters.enable()
        facts = self._facts()
        self._print(text.header(self.options, facts))
        rows: list[Row] = []
        cycles = itertools.count() if self.options.run_cycles == 0 else range(self.options.run_cycles)
        for _ in cycles:
            for dtype_name, op, root in self._combinations():
                self._warm_up(dtype_name, op, root)
                for nbytes in self.options.sizes():
                    rows.append(self._row(nbytes, dtype_name, op, root))
                    self._print(text.row(self.options, rows[-1]))
        summary = _summary(rows)
        self._print(text.footer(self.options, summary))
        if self.options.output_file is not None and self.comm.rank == 0:
            json_report.write(self.options.output_file, self.options, facts, rows, summary, start_time, _now())
        return summary

    def _set_rules(self) -> None:
        if self.options.plan is not None:
            from lagom.plan import read_plan

            self.comm.set_rules(read_plan(self.options.plan).rules)
        elif self.options.knobs != Knobs():
            self.comm.set_rules([Rule(self.options.collective, knobs=self.options.knobs)])

    def _facts(self) -> Header:
        info = nccl.device_info(self.comm.device)
        bus = info.pci_bus_id.rpartition(".")[0] or info.pci_bus_id
        mine = DeviceLine(
            self.comm.rank, os.getpid(), socket.gethostname().split(".")[0], self.comm.device, bus, info.name
        )
        library = nccl.library()
        return Header(library.describe(), library.version, self.mpi.allgather(mine))

    def _combinations(self) -> Iterator[tuple[str, str, int]]:
        """Types, operations and roots to run: nccl-tests' names, "none" and -1 where there is none."""
        capability = nccl.device_info(self.comm.device).compute_capability
        names = list(DTYPE_NAMES) if self.options.dtype == "all" else [self.options.dtype]
        if self.options.dtype == "all" and self.collective.reduces and capability < _FIRST_FP8_REDUCTIONS:
            names = [name for name in names if not name.startswith("f8")]
        ops = ["none"]
        if self.collective.reduces:
            ops = list(OP_NAMES) if self.options.op == "all" else [self.options.op]
        roots = [-1]
        if self.collective.rooted:
            roots = list(range(self.comm.size)) if self.options.root is None else [self.options.root]
        return itertools.product(names, ops, roots)

    def _warm_up(self, dtype_name: str, op: str, root: int) -> None:
        """The largest and the smallest size, so that connections and buffers are there before anything is timed."""
        for nbytes in {self.options.max_bytes, self.options.min_bytes}:
            call, _ = self._call(nbytes, dtype_name, op, root, in_place=False)
            for _ in range(self.options.warmup_iterations):
                self.collective.launch(self.comm, call)
            self._wait()
        if self.options.show_knobs:
            self.comm.counters.read()

    def _call(self, nbytes: int, dtype_name: str, op: str, root: int, *, in_place: bool) -> tuple[Call, Counts]:
        element = nccl.dtype(DTYPE_NAMES[dtype_name])
        counts = self.collective.counts(nbytes, element.itemsize, self.comm.size)
        send, recv = self.collective.buffers(
            self.send.view(element), self.recv.view(element), counts, self.comm.rank, in_place
        )
        return Call(send, recv, self._reduction(element, op), max(root, 0), self.stream), counts

    def _row(self, nbytes: int, dtype_name: str, op: str, root: int) -> Row:
        sides = []
        for in_place in (False, True):
            if in_place and not self.collective.in_place:
                sides.append(NOT_RUN)
                continue
            call, counts = self._call(nbytes, dtype_name, op, root, in_place=in_place)
            size = max(counts.send, counts.recv) * call.send.dtype.itemsize
            sides.append(self._side(call, counts, size, op))
        return Row(size, counts.shown, dtype_name, op, root, sides[0], sides[1], _now())

    def _reduction(self, dtype: DType, op: str) -> str | ReductionOp:
        """What to pass as operation; a reduction with this rank's scalar is made once a type."""
        if op != "mulsum":
            return op
        if dtype not in self.scaled:
            scalar = Pattern(dtype, op, self.comm.size).scalar(self.comm.rank)
            self.scaled[dtype] = self.comm.pre_mul_sum(scalar, dtype)
        return self.scaled[dtype]

    def _side(self, call: Call, counts: Counts, size: int, op: str) -> Side:
        mine_us, single_us = self._measure(call)
        time_us = self._average(mine_us)
        alg_gbps = size / 1e3 / time_us if time_us > 0 else 0.0
        knobs = self._knobs_used() if self.options.show_knobs else None
        wrong = self._check(call, counts, op) if self.options.check_iterations else None
        return Side(
            time_us,
            alg_gbps,
            alg_gbps * self.collective.bus_factor(self.comm.size),
            wrong,
            self._spread(single_us) if self.options.per_iteration else None,
            knobs,
        )

    def _measure(self, call: Call) -> tuple[float, list[float]]:
        """Mean time of one operation on this rank in microseconds, and the single iterations' where asked for."""
        options = self.options
        marks = [Event() for _ in range(options.iterations + 1 if options.per_iteration else 2)]
        # An operation that is not timed brings the ranks' device clocks together, as the barrier does with their hosts.
        self.collective.launch(self.comm, call)
        self._wait()
        if options.show_knobs:
            self.comm.counters.read()
        self.mpi.Barrier()
        cpu_before_us = self._cpu_us()
        marks[0].record(call.stream)
        for iteration in range(options.iterations):
            if options.aggregated_iterations > 1:
                with nccl.group():
                    for _ in range(options.aggregated_iterations):
                        self.collective.launch(self.comm, call)
            else:
                self.collective.launch(self.comm, call)
            if options.blocking:
                self._wait()
            if options.per_iteration:
                marks[iteration + 1].record(call.stream)
        cpu_us = self._cpu_us() - cpu_before_us
        if not options.per_iteration:
            marks[-1].record(call.stream)
        self._wait()
        operations = options.iterations * options.aggregated_iterations
        device_us = marks[-1].elapsed_us(marks[0])
        single_us = [
            later.elapsed_us(earlier) / options.aggregated_iterations for earlier, later in itertools.pairwise(marks)
        ]
        return (cpu_us if options.report_cpu_time else device_us) / operations, single_us

    def _cpu_us(self) -> float:
        """Host time: the modelled one where there is a model, so that -C is repeatable too."""
        if nccl.library().hostcuda:
            return nccl.host_time_ns() / 1e3
        return time.perf_counter() * 1e6

    def _average(self, mine_us: float) -> float:
        every_us: list[float] = self.mpi.allgather(mine_us)
        chosen = (every_us[0], sum(every_us) / len(every_us), min(every_us), max(every_us))
        return chosen[self.options.average]

    def _spread(self, single_us: list[float]) -> Spread:
        slowest = np.max(np.array(self.mpi.allgather(single_us)), axis=0)
        mean = float(slowest.mean())
        p99 = float(np.sort(slowest)[max(0, int(np.ceil(0.99 * slowest.size)) - 1)])
        cv = 100 * float(slowest.std()) / mean if mean else 0.0
        return Spread(float(slowest.min()), float(slowest.max()), p99, cv)

    def _knobs_used(self) -> str:
        """The knobs of the operations since the last look, as this run's ranks all saw them."""
        records = self.comm.counters.read()
        mine = sorted({f"{record.used}{'' if record.exact else ' (not what was asked)'}" for record in records})
        everybody: list[list[str]] = self.mpi.allgather(mine)
        distinct = sorted({used for rank in everybody for used in rank})
        return " or ".join(distinct) if distinct else "none (nothing ran on the device)"

    def _check(self, call: Call, counts: Counts, op: str) -> int:
        """Wrong elements on all ranks, over the asked number of checked calls."""
        dtype: DType = call.send.dtype
        pattern = Pattern(dtype, op if self.collective.reduces else None, self.comm.size)
        sent = self.collective.sent(pattern, self.comm.rank, counts, call.root)
        expected = self.collective.expected(pattern, self.comm.rank, counts, call.root)
        wrong = 0
        for _ in range(self.options.check_iterations):
            call.recv.fill_bytes(_UNWRITTEN, self.stream)
            if sent is not None:
                call.send.from_host(sent, self.stream)
            self.collective.launch(self.comm, call)
            self._wait()
            if expected is not None:
                wrong += pattern.wrong(call.recv.to_host(self.stream), expected)
        if self.options.show_knobs:
            self.comm.counters.read()
        total: int = self.mpi.allreduce(wrong)
        return total

    def _wait(self) -> None:
        """Wait for the stream: as long as it takes, or as -T allows."""
        if self.options.timeout_s and self.stream is not None:
            deadline = time.monotonic() + self.options.timeout_s
            while not self.stream.done():
                if time.monotonic() > deadline:
                    raise TimeOutError(f"a collective did not finish within {self.options.timeout_s} s (-T)")
                self.comm.check()
                time.sleep(1e-3)
        elif self.stream is not None:
            self.stream.synchronize()
        else:
            nccl.synchronize()
        self.comm.check()

    def _print(self, words: str) -> None:
        if self.comm.rank == 0:
            print(words, flush=True)


def _summary(rows: list[Row]) -> Summary:
    sides = [side for row in rows for side in (row.out_of_place, row.in_place) if side is not NOT_RUN]
    average = sum(side.bus_gbps for side in sides) / len(sides) if sides else 0.0
    least = os.environ.get("NCCL_TESTS_MIN_BW")
    return Summary(sum(side.wrong or 0 for side in sides), average, None if least is None else average >= float(least))


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
