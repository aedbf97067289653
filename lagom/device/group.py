# SPDX-License-Identifier: Apache-2.0
"""Executes an overlap group on one rank: buffers, streams, order, times and the check of the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import lagom.nccl as nccl
from lagom.device import patterns
from lagom.device.backend import Backend
from lagom.device.protocol import DeviceError, Span
from lagom.workload import Communication, Computation, Workload
from lagom.workload.model import ROOTED

#: Before the group, a kernel keeps the device busy while the host enqueues, so that launches do not show in the times.
#: Its length grows with the group: bytes of memory traffic for each operation, about 90 us on a GPU with 696 GB/s.
LEAD_IN_BYTES_PER_OPERATION = 64 << 20

#: An average in floating point is rounded on the way: NCCL scales each rank's values first.
AVERAGE_TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-6, "float64": 1e-15}


@dataclass(frozen=True)
class LocalRun:
    """One execution on this rank. Times in nanoseconds on the device's clock.

    :param x_ns: of each communication, in order. :param y_ns: computations added up. :param z_ns: makespan.
    :param exposed_ns: time for which computation stood still because of communication.
    """

    x_ns: tuple[int, ...]
    y_ns: int
    z_ns: int
    exposed_ns: int
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class _Buffers:
    send: nccl.DeviceBuffer
    recv: nccl.DeviceBuffer


class GroupRunner:
    """Runs one workload again and again on a communicator.

    A run is: :meth:`prepare`, :meth:`enqueue`, :meth:`finish`, in which only `finish` waits. Between `enqueue` and
    `finish` the ranks can tell each other whether a call was refused.
    """

    def __init__(self, comm: nccl.Communicator, workload: Workload, backend: Backend) -> None:
        workload.check_ranks(comm.size)
        self._backend = backend
        self._comm = comm
        self._workload = workload
        self._streams = {name: nccl.Stream() for name in workload.streams}
        self._comm_streams = {o.stream for o in workload.communications}
        self._first_comm_stream = workload.communications[0].stream
        self._buffers = [self._allocate(c) for c in workload.communications]
        self.barrier = self._make_barrier()
        self._needed = {name for operation in workload.operations for name in operation.after}
        lead_in = LEAD_IN_BYTES_PER_OPERATION * len(workload.operations)
        # One light CTA an SM: enough to use the memory bandwidth.
        self._lead_in = nccl.Kernel("lead-in", bytes_read=float(lead_in), ctas=1024, threads_per_cta=256)
        backend.prepare([self._lead_in, *(kernel_of(computation) for computation in workload.computations)])
        self._timer = backend.timer(self._streams)
        self._keep: list[nccl.Event] = []

    # -- buffers --

    def _allocate(self, communication: Communication) -> _Buffers:
        whole = communication.padded_count(self._comm.size)
        shard = communication.shard_count(self._comm.size)
        collective = communication.collective
        send = nccl.empty(shard if collective == "all_gather" else whole, communication.dtype)
        recv = nccl.empty(shard if collective == "reduce_scatter" else whole, communication.dtype)
        self._backend.write(send, patterns.send_tile(communication, self._comm.rank))
        return _Buffers(send, recv)

    def _make_barrier(self) -> Communication:
        """A small collective that aligns the ranks before each group, of a size that no communication has.

        It is of a kind that the group has as well, because a build may hold only the device functions that the workload
        needs; one without a root if there is one, because a root does not wait for everybody.
        """
        communications = self._workload.communications
        like = next((c for c in communications if c.collective not in ROOTED), communications[0])
        ranks = self._comm.size
        taken = {(c.collective, c.total_bytes(ranks)) for c in self._workload.communications}
        count = ranks
        while True:
            barrier = Communication(
                "the collective that starts the group", like.collective, like.dtype, count, op=like.op, root=like.root
            )
            if (barrier.collective, barrier.total_bytes(ranks)) not in taken:
                self._barrier_buffers = self._allocate(barrier)
                return barrier
            count += ranks

    # -- one run --

    def prepare(self) -> None:
        """Wipe the results of the last run, so that data left over cannot pass for right."""
        for buffers in self._buffers:
            self._backend.wipe(buffers.recv)

    def enqueue(self) -> None:
        """Put the whole group into its streams; returns without waiting.

        :raises lagom.nccl.NcclError: where NCCL refuses a call; what was enqueued before stays and must be finished.
        """
        timer = self._timer = self._backend.timer(self._streams)
        name, first = self._first_comm_stream, self._streams[self._first_comm_stream]
        timer.enqueue("lead-in", name, True, lambda: self._backend.launch(self._lead_in, first))
        barrier = self.barrier
        timer.enqueue(barrier.name, name, False, lambda: self._call(barrier, self._barrier_buffers, first))
        started = nccl.Event()
        started.record(first)
        self._keep = [started]
        for name, stream in self._streams.items():
            if name != self._first_comm_stream:
                stream.wait(started)
        ended: dict[str, nccl.Event] = {}
        communication = 0
        for operation in self._workload.operations:
            stream = self._streams[operation.stream]
            for name in operation.after:
                stream.wait(ended[name])
            if isinstance(operation, Computation):
                call = partial(self._backend.launch, kernel_of(operation), stream)
            else:
                call = partial(self._call, operation, self._buffers[communication], stream)
                communication += 1
            timer.enqueue(operation.name, operation.stream, isinstance(operation, Computation), call)
            if operation.name in self._needed:
                event = ended[operation.name] = nccl.Event()
                event.record(stream)
                self._keep.append(event)

    def _call(self, communication: Communication, buffers: _Buffers, stream: nccl.Stream) -> None:
        send, recv, comm = buffers.send, buffers.recv, self._comm
        op = communication.op or "sum"
        match communication.collective:
            case "all_gather":
                comm.all_gather(send, recv, stream=stream)
            case "reduce_scatter":
                comm.reduce_scatter(send, recv, op=op, stream=stream)
            case "all_reduce":
                comm.all_reduce(send, recv, op=op, stream=stream)
            case "broadcast":
                comm.broadcast(send, recv, root=communication.root, stream=stream)
            case "reduce":
                comm.reduce(send, recv, op=op, root=communication.root, stream=stream)

    def drain(self) -> None:
        """Wait for whatever is in the streams."""
        for stream in self._streams.values():
            stream.synchronize()
        self._keep = []

    def finish(self) -> LocalRun:
        """Wait for the group and read its times.

        :raises DeviceError: where the device did not run exactly the operations that were enqueued.
        """
        self.drain()
        self._comm.check()
        _, barrier, *times = self._timer.read()
        origin_ns = barrier[1]
        ran = {
            operation.name: (start_ns - origin_ns, end_ns - origin_ns)
            for operation, (start_ns, end_ns) in zip(self._workload.operations, times, strict=True)
        }
        return summary(self._workload, ran)

    # -- the data --

    def check_data(self) -> None:
        """Compare every result of the last run with what it must be.

        :raises DeviceError: with communication, rank and element.
        """
        for communication, buffers in zip(self._workload.communications, self._buffers, strict=True):
            wrong = self._first_wrong(communication, buffers)
            if wrong is not None:
                raise DeviceError(
                    f"wrong data: '{communication.name}' ({communication.collective}) gave a wrong element {wrong} "
                    f"on rank {self._comm.rank}"
                )

    def _first_wrong(self, communication: Communication, buffers: _Buffers) -> int | None:
        ranks, rank = self._comm.size, self._comm.rank
        found = self._backend.read(buffers.recv)
        shard = communication.shard_count(ranks)
        if communication.collective == "all_gather":
            for sender in range(ranks):
                part = found[sender * shard : (sender + 1) * shard]
                wrong = patterns.first_difference(part, patterns.send_tile(communication, sender))
                if wrong is not None:
                    return sender * shard + wrong
            return None
        if communication.collective == "broadcast":
            return patterns.first_difference(found, patterns.send_tile(communication, communication.root))
        if communication.collective == "reduce" and rank != communication.root:
            return None
        offset = rank * shard if communication.collective == "reduce_scatter" else 0
        tolerance = AVERAGE_TOLERANCE.get(communication.dtype, 0.0) if communication.op == "avg" else 0.0
        return patterns.first_difference(found, patterns.reduced_tile(communication, ranks), offset, tolerance)


def summary(workload: Workload, ran: Mapping[str, tuple[int, int]]) -> LocalRun:
    """What follows from the operations' times.

    Computation stands still where it waits, beyond the end of what its stream did before, for a communication that it
    comes after; and from the end of the last computation to that of the last communication.

    :param ran: start and end of each operation in nanoseconds from the start of the group.
    """
    communications = {c.name for c in workload.communications}
    free_ns: dict[str, int] = {}
    exposed_ns = 0
    for computation in workload.computations:
        start_ns, end_ns = ran[computation.name]
        waited_for = [ran[name][1] for name in computation.after if name in communications]
        idle_from_ns = free_ns.get(computation.stream, 0)
        exposed_ns += max(0, min(start_ns, max(waited_for, default=0)) - idle_from_ns)
        free_ns[computation.stream] = end_ns
    last_ns = max(ran[c.name][1] for c in workload.communications)
    exposed_ns += max(0, last_ns - max(free_ns.values(), default=0))
    spans = tuple(
        Span(o.name, "communicate" if o.name in communications else "compute", o.stream, start / 1e3, end / 1e3)
        for o, (start, end) in ((o, ran[o.name]) for o in workload.operations)
    )
    return LocalRun(
        x_ns=tuple(ran[c.name][1] - ran[c.name][0] for c in workload.communications),
        y_ns=sum(ran[c.name][1] - ran[c.name][0] for c in workload.computations),
        z_ns=max(end for _, end in ran.values()),
        exposed_ns=exposed_ns,
        spans=spans,
    )


def kernel_of(computation: Computation) -> nccl.Kernel:
    """A computation as the device is told of it."""
    spec = computation.kernel
    return nccl.Kernel(
        computation.name,
        flops=spec.flops,
        bytes_read=spec.bytes_read,
        bytes_written=spec.bytes_written,
        ctas=spec.ctas,
        threads_per_cta=spec.threads_per_cta,
        registers_per_thread=spec.registers_per_thread,
        shared_bytes_per_cta=spec.shared_bytes_per_cta,
    )
