# SPDX-License-Identifier: Apache-2.0
"""The real, patched NCCL driven over MPI, one rank a process, on whatever CUDA the backend stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import lagom.nccl as nccl
from lagom.device import counted
from lagom.device.backend import Backend
from lagom.device.group import GroupRunner, LocalRun
from lagom.device.protocol import CommunicationUse, DeviceError, KnobMap, Measurement, Outcome, Refused
from lagom.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mpi4py import MPI

T = TypeVar("T")

# ncclResult_t of a call with knobs that cannot run: nothing was launched and the communicator stays usable.
_INVALID_ARGUMENT, _INVALID_USAGE = 4, 5


class MpiDevice:
    """Runs workloads on all ranks of `mpi_comm` at once; every method is called on every rank with the same arguments.

    :param comm: made over the same MPI communicator.
    :param repeats: executions a measurement, of which the one with the median makespan counts.
    """

    def __init__(self, comm: nccl.Communicator, mpi_comm: MPI.Intracomm, backend: Backend, repeats: int = 1) -> None:
        self._comm = comm
        self._mpi = mpi_comm
        self._backend = backend
        self._repeats = repeats
        self._runner: tuple[str, GroupRunner] | None = None
        self._checked: set[tuple[str, tuple[tuple[int, nccl.Knobs], ...]]] = set()
        comm.counters.enable()

    @property
    def ranks(self) -> int:
        """Ranks of the communicator."""
        return self._comm.size

    def run(self, workload: Workload, knobs: KnobMap) -> Outcome:
        """Execute the group once on all ranks; see :class:`lagom.device.Device`."""
        runner = self._runner_for(workload)
        try:
            rules = rules_for(workload, self.ranks, knobs)
        except ValueError as error:
            return Refused(str(error))
        refusal = self._all_refuse(lambda: self._comm.set_rules(rules))
        if refusal is not None:
            return Refused(refusal)
        measured: list[Measurement] = []
        for _ in range(self._repeats):
            outcome = self._once(workload, runner, knobs)
            if isinstance(outcome, Refused):
                return outcome
            measured.append(outcome)
        return sorted(measured, key=lambda measurement: measurement.z_us)[self._repeats // 2]

    def _once(self, workload: Workload, runner: GroupRunner, knobs: KnobMap) -> Outcome:
        runner.prepare()
        refusal = self._all_refuse(runner.enqueue)
        if refusal is not None:
            runner.drain()
            self._comm.counters.read()
            return Refused(refusal)
        local = self._on_all(runner.finish)
        uses = self._on_all(lambda: self._counted(workload, runner, knobs))
        setting = (workload.digest(), tuple(sorted(knobs.items())))
        if setting not in self._checked:
            self._on_all(runner.check_data)
            self._checked.add(setting)
        return join(self._mpi.allgather((local, uses)))

    def _runner_for(self, workload: Workload) -> GroupRunner:
        digest = workload.digest()
        if self._runner is None or self._runner[0] != digest:
            self._runner = None  # frees the buffers of the last workload first
            self._runner = (digest, self._on_all(lambda: GroupRunner(self._comm, workload, self._backend)))
        return self._runner[1]

    def _counted(self, workload: Workload, runner: GroupRunner, knobs: KnobMap) -> list[CommunicationUse]:
        records = counted.records_of_run(workload, self.ranks, runner.barrier, self._comm.counters.read())
        counted.check_knobs(workload, knobs, records)
        return [counted.use(record) for record in records]

    def _all_refuse(self, call: Callable[[], None]) -> str | None:
        """Make a call that NCCL may refuse; the reason where every rank was refused, None where none was.

        A refusal on some ranks only would leave the others waiting in a collective for ever, so it ends the
        communicator.
        """
        refusal: str | None = None
        try:
            call()
        except nccl.NcclError as error:
            if error.code not in (_INVALID_ARGUMENT, _INVALID_USAGE):
                raise
            refusal = str(error)
        refusals = self._mpi.allgather(refusal)
        if all(r is None for r in refusals):
            return None
        if all(r is not None for r in refusals):
            return str(refusals[0])
        rank = next(rank for rank, r in enumerate(refusals) if r is not None)
        self._comm.abort()
        raise DeviceError(f"rank {rank} was refused while others were not: {refusals[rank]}")

    def _on_all(self, call: Callable[[], T]) -> T:
        """Make a call on every rank; where it fails on one, raise on all, so that none goes on and waits."""
        failure: tuple[str, str] | None = None
        value: T | None = None
        try:
            value = call()
        except (DeviceError, ValueError, nccl.LibraryError, nccl.NcclError, nccl.CudaError) as error:
            failure = (str(error), error.origin if isinstance(error, DeviceError) else type(error).__name__)
        failures = self._mpi.allgather(failure)
        for rank, told in enumerate(failures):
            if told is not None:
                self._comm.abort()
                raise DeviceError(f"rank {rank}: {told[0]}", told[1])
        return value  # type: ignore[return-value]  # no failure anywhere, so the call has returned a T


def rules_for(workload: Workload, ranks: int, knobs: KnobMap) -> list[nccl.Rule]:
    """The rules that give each communication its knobs, one a class of calls that rules cannot tell apart.

    :raises ValueError: where knobs are impossible, name a communication that is not there, or differ inside a class.
    """
    if unknown := sorted(set(knobs) - set(range(len(workload.communications)))):
        raise ValueError(f"knobs for communication {unknown[0]}, but there are {len(workload.communications)}")
    rules = []
    for members in workload.call_classes(ranks):
        asked = {knobs.get(index, nccl.Knobs()) for index in members}
        communication = workload.communications[members[0]]
        total_bytes = communication.total_bytes(ranks)
        if len(asked) > 1:
            names = ", ".join(workload.communications[index].name for index in members)
            raise ValueError(
                f"{names} are the same collective of the same {total_bytes} bytes, so they cannot have different knobs"
            )
        wanted = asked.pop()
        if wanted != nccl.Knobs():
            rules.append(nccl.Rule(communication.collective, total_bytes, total_bytes, n_ranks=ranks, knobs=wanted))
    return rules


def join(by_rank: Sequence[tuple[LocalRun, Sequence[CommunicationUse]]]) -> Measurement:
    """One measurement from all ranks' runs: maxima, and the timeline of the rank that ended last."""
    runs = [run for run, _ in by_rank]
    last = max(range(len(runs)), key=lambda rank: (runs[rank].z_ns, -rank))
    return Measurement(
        x_us=tuple(max(times) / 1e3 for times in zip(*(run.x_ns for run in runs), strict=True)),
        y_us=max(run.y_ns for run in runs) / 1e3,
        z_us=runs[last].z_ns / 1e3,
        exposed_us=max(run.exposed_ns for run in runs) / 1e3,
        use=counted.most_over_ranks([uses for _, uses in by_rank]),
        spans=runs[last].spans,
    )
