# SPDX-License-Identifier: Apache-2.0
"""One tuning session: measure NCCL's default, search, write the plan, prove it in an unchanged program."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import lagom
import lagom.nccl as nccl
from lagom.device import DeviceError, Measurement, kinds
from lagom.device.over_mpi import join, rules_for
from lagom.plan import Plan, write_plan
from lagom.strategies import STRATEGIES, Budget, Observer, Result
from lagom.tuning import agreement
from lagom.tuning.agreement import together
from lagom.tuning.preloaded import Program, check_plan, counters_path, run_preloaded, writable_folder
from lagom.workload import Workload, load

if TYPE_CHECKING:
    from mpi4py import MPI

#: Which modelled machine hostcuda builds; the workload's own unless the user chose one.
MACHINE_VARIABLE = "HOSTCUDA_MACHINE"

#: Times are cut to whole nanoseconds at both ends, so equal runs at different moments may differ by one.
ROUNDING_US = 0.001


@dataclass(frozen=True)
class Options:
    """:param workload: preset or YAML file. :param folder: where plan, report and counters go.
    :param device: one of :data:`lagom.device.kinds.KINDS`; None: whichever the library drives.
    """

    workload: str
    strategy: str
    measurements: int
    folder: Path
    device: str | None = None


@dataclass(frozen=True)
class Session:
    """What a session found, the same on every rank.

    :param machine: the modelled machine's name, or the GPU's.
    :param tuned: the preloaded run; with :attr:`kept` it ran NCCL's default.
    :param kept: whether NCCL's default is kept, because nothing better was found or the proof run was no better.
    :param why_kept: in words, empty where a plan was found.
    """

    workload: Workload
    ranks: int
    machine: str
    modelled: bool
    library: str
    build: str
    options: Options
    search: Result
    tuned: Measurement
    kept: bool
    why_kept: str
    plan: Path
    counters: tuple[Path, ...]

    @property
    def where(self) -> str:
        """What it ran on, in words."""
        return _where(self.machine, self.modelled)

    @property
    def default(self) -> Measurement:
        """NCCL's own choice."""
        return self.search.default


def tune(
    mpi_comm: MPI.Intracomm,
    options: Options,
    observe: Observer | None = None,
    announce: Callable[[str], None] | None = None,
) -> Session:
    """Run a session; call it on every rank with the same options.

    :param observe: told of every trial. :param announce: told what comes next, in words.
    :raises RankFailed: with the error of the first rank that failed, on every rank.
    :raises Disagreement: where ranks have other arguments, workloads or environments.
    """
    say = announce or (lambda _: None)
    workload = together(mpi_comm, lambda: _load(options, mpi_comm.Get_size()))
    agreement.compare(
        mpi_comm,
        {
            "lagom's version": lagom.__version__,
            **{f"argument '{name}'": str(value) for name, value in asdict(options).items()},
            "the workload's contents": workload.digest(),
            **{f"environment variable {name}": value for name, value in agreement.environment().items()},
        },
    )
    folder = together(mpi_comm, lambda: writable_folder(options.folder.absolute()), on=0)
    machine = os.environ.setdefault(MACHINE_VARIABLE, workload.machine)
    library = together(mpi_comm, lambda: kinds.require(options.device))
    modelled = kinds.kind_of(library) == kinds.HOSTCUDA
    if not modelled:
        machine = together(mpi_comm, lambda: nccl.device_info(0).name, on=0)
    where = _where(machine, modelled)
    say(f"{workload.description or workload.name}; {mpi_comm.Get_size()} ranks on {where}")
    say(library.describe())

    with together(mpi_comm, lambda: nccl.init(mpi_comm)) as comm:
        device_index = comm.device
        search = together(mpi_comm, lambda: _search(comm, mpi_comm, options, workload, observe))

    # The plan of an earlier session stays until this one's has been proved.
    candidate, path = folder / "candidate.csv", folder / "plan.csv"
    plan = _plan(workload, mpi_comm.Get_size(), search, search.best_knobs, where, library)
    together(mpi_comm, lambda: write_plan(candidate, plan), on=0)
    say(f"search ended: {search.ending}; running an unchanged program with {candidate} preloaded")
    tuned = _prove(mpi_comm, workload, Program(options.workload, device_index, candidate, folder), search.best_knobs)

    why_kept = ""
    if not search.improved:
        why_kept = "no better setting found"
    elif tuned.z_us > search.default.z_us + ROUNDING_US:
        why_kept = f"the plan's makespan was {tuned.z_us:.3f} us when run again, longer than the default's"
        plan = _plan(workload, mpi_comm.Get_size(), search, {}, where, library)
        together(mpi_comm, lambda: write_plan(candidate, plan), on=0)
    together(mpi_comm, lambda: candidate.replace(path), on=0)
    return Session(
        workload=workload,
        ranks=mpi_comm.Get_size(),
        machine=machine,
        modelled=modelled,
        library=library.describe(),
        build=library.build or "",
        options=options,
        search=search,
        tuned=tuned,
        kept=bool(why_kept),
        why_kept=why_kept,
        plan=path,
        counters=tuple(counters_path(folder, rank) for rank in range(mpi_comm.Get_size())),
    )


def _where(machine: str, modelled: bool) -> str:
    return f"modelled {machine}" if modelled else machine


def _load(options: Options, ranks: int) -> Workload:
    if options.strategy not in STRATEGIES:
        raise ValueError(f"unknown strategy '{options.strategy}', known: {', '.join(STRATEGIES)}")
    workload = load(options.workload)
    workload.check_ranks(ranks)
    return workload


def _search(
    comm: nccl.Communicator,
    mpi_comm: MPI.Intracomm,
    options: Options,
    workload: Workload,
    observe: Observer | None,
) -> Result:
    # The device, and with it the buffers, ends with this function: the proof run needs the memory.
    device = kinds.open_device(comm, mpi_comm)
    return STRATEGIES[options.strategy](workload, device, Budget(options.measurements), observe)


def _prove(
    mpi_comm: MPI.Intracomm, workload: Workload, program: Program, knobs: Mapping[int, nccl.Knobs]
) -> Measurement:
    """Run the unchanged program under the plan and hold its counters against the plan."""
    run = together(mpi_comm, lambda: run_preloaded(mpi_comm, program))
    path = counters_path(program.folder, mpi_comm.Get_rank())
    uses = together(mpi_comm, lambda: check_plan(path, workload, mpi_comm.Get_size(), knobs))
    try:
        return join(mpi_comm.allgather((run, uses)))
    except DeviceError as error:
        raise DeviceError(f"preloaded run: {error}") from error


def _plan(
    workload: Workload,
    ranks: int,
    search: Result,
    knobs: Mapping[int, nccl.Knobs],
    where: str,
    library: nccl.Library,
) -> Plan:
    """The plan with where it came from; nothing in it depends on when or where it was made."""
    default, best = search.default, search.best_measurement
    comments = [
        f"made by lagom {lagom.__version__} tune, strategy {search.strategy}, {len(search.trials)} settings tried",
        f"workload {workload.name} ({workload.digest()}), {ranks} ranks, {where}",
        f"NCCL {library.version_text}, build {library.build}",
    ]
    if knobs:
        comments.append(f"makespan {best.z_us:.3f} us, NCCL's default {default.z_us:.3f} us")
    else:
        comments.append(f"no better setting found: NCCL's default is kept, makespan {default.z_us:.3f} us")
    return Plan(tuple(rules_for(workload, ranks, knobs)), tuple(comments))
