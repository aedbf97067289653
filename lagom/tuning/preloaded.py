# SPDX-License-Identifier: Apache-2.0
"""The proof run: the plan preloaded into fresh processes of a program that knows nothing of it.

Processes started by mpirun cannot be restarted in place, and an mpirun inside an mpirun is not portable. So each rank
starts one child through ``lagom run``, as a user would; the children find each other by NCCL's own unique id.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lagom.device import CommunicationUse, DeviceError
from lagom.device.group import LocalRun
from lagom.device.replay import run_from_json
from lagom.nccl import Knobs
from lagom.tuning.agreement import wait_politely
from lagom.workload import Workload

if TYPE_CHECKING:
    from mpi4py import MPI

_RUNNING, _DONE, _FAILED = 0, 1, 2
#: A child's last words, when it fails.
_TAIL_CHARACTERS = 2000
#: How the variables begin by which an MPI launcher tells a process its rank.
_LAUNCHERS = ("OMPI_COMM", "PMIX_", "PMI_")


@dataclass(frozen=True)
class Program:
    """How to run the workload in a fresh process.

    :param workload: name or path, as the user gave it. :param device: of this rank.
    :param folder: shared by the ranks, for what the processes leave behind.
    """

    workload: str
    device: int
    plan: Path
    folder: Path
    limit_s: float = 300.0


def counters_path(folder: Path, rank: int) -> Path:
    """Where the preloaded library writes a rank's counters."""
    return folder / f"counters-rank{rank}.csv"


def run_preloaded(mpi_comm: MPI.Intracomm, program: Program) -> LocalRun:
    """Run this rank's child to its end; call it on every rank.

    :returns: this rank's times.
    :raises DeviceError: on every rank, where a child fails or they take longer than the limit.
    """
    rank, size = mpi_comm.Get_rank(), mpi_comm.Get_size()
    result = program.folder / f"run-rank{rank}.json"
    log = program.folder / f"run-rank{rank}.log"
    identity = program.folder / "unique-id"
    for stale in (result, counters_path(program.folder, rank), *([identity] if rank == 0 else [])):
        stale.unlink(missing_ok=True)
    mpi_comm.barrier()  # before rank 0's new id appears, the old one is gone for everybody
    # -P: a folder "lagom" where the caller happens to be, a checkout say, is not the installed package.
    command = [sys.executable, "-P", "-m", "lagom", "run", "--plan", str(program.plan)]
    # The library itself puts its rank in.
    command += ["--counters", str(program.folder / "counters-rank%r.csv"), "--"]
    command += [sys.executable, "-P", "-m", "lagom.device.replay", program.workload]
    command += ["--rank", str(rank), "--ranks", str(size), "--device", str(program.device)]
    command += ["--id-file", str(identity), "--result", str(result), "--parent", str(os.getpid())]
    # The child is no rank of this MPI job.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_LAUNCHERS)}
    with log.open("wb") as output:
        child = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        state = _wait(mpi_comm, child, program.limit_s)
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
    if state != _DONE:
        raise DeviceError(_why(mpi_comm, child.returncode, log, program.limit_s))
    identity.unlink(missing_ok=True)
    return run_from_json(result.read_text())


def _wait(mpi_comm: MPI.Intracomm, child: subprocess.Popen[bytes], limit_s: float) -> int:
    """Wait until all children have ended well or one has not; ranks look at each other's every 50 ms."""
    end = time.monotonic() + limit_s
    while True:
        code = child.poll()
        mine = _RUNNING if code is None else _DONE if code == 0 else _FAILED
        if mine == _RUNNING and time.monotonic() > end:
            mine = _FAILED
        # The largest says whether one has failed; all are done when the smallest is.
        if wait_politely(mpi_comm, mine) == _FAILED:
            return _FAILED
        if -wait_politely(mpi_comm, -mine) == _DONE:
            return _DONE
        time.sleep(0.05)


def _why(mpi_comm: MPI.Intracomm, code: int, log: Path, limit_s: float) -> str:
    """One text for all ranks: the first child that failed by itself, with its last words."""
    words = log.read_text(errors="replace")[-_TAIL_CHARACTERS:].strip().splitlines()
    # A child that this rank killed has -9 and nothing to say for itself.
    mine = None if code in (0, -9) else f"ended with {code}: {words[-1] if words else 'no output'}"
    for rank, text in enumerate(mpi_comm.allgather(mine)):
        if text is not None:
            return f"the preloaded run of rank {rank} {text}"
    return f"the preloaded run did not end within {limit_s:g} s"


# -- what its counters say --


def _unset(value: str) -> str | None:
    return None if value in ("", "-1") else value


def _whole(value: str) -> int | None:
    return None if _unset(value) is None else int(value)


def _knobs(row: Mapping[str, str], prefix: str) -> Knobs:
    return Knobs(
        _unset(row[f"{prefix}_algorithm"]),
        _unset(row[f"{prefix}_protocol"]),
        _whole(row[f"{prefix}_channels"]),
        _whole(row[f"{prefix}_threads"]),
        _whole(row[f"{prefix}_chunk_bytes"]),
    )


def read_counters(path: Path, workload: Workload, ranks: int) -> list[tuple[Mapping[str, str], Knobs]]:
    """The rows of the workload's communications in order, with the knobs that the device saw.

    :raises DeviceError: where the file is not there or lacks a communication.
    """
    try:
        lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    except OSError as error:
        raise DeviceError(f"the preloaded library left no counters at {path}: {error.strerror}") from error
    rows = list(csv.DictReader(lines))
    found: list[tuple[Mapping[str, str], Knobs]] = []
    for communication in workload.communications:
        name = communication.collective.replace("_", "")
        wanted = (name, str(communication.total_bytes(ranks)))
        while rows and (rows[0]["collective"].replace("_", ""), rows[0]["bytes"]) != wanted:
            rows.pop(0)
        if not rows:
            raise DeviceError(f"{path} has no row for '{communication.name}', {name} of {wanted[1]} bytes")
        row = rows.pop(0)
        found.append((row, _knobs(row, "used")))
    return found


def check_plan(path: Path, workload: Workload, ranks: int, plan: Mapping[int, Knobs]) -> list[CommunicationUse]:
    """Compare a rank's counters with the plan; what the communications used.

    :raises DeviceError: that names communication, knob and both values, where the run was not exactly the plan.
    """
    uses = []
    rows = read_counters(path, workload, ranks)
    for index, (communication, (row, used)) in enumerate(zip(workload.communications, rows, strict=True)):
        planned = plan.get(index)
        if planned is not None and used != planned:
            raise DeviceError(
                f"the preloaded run of '{communication.name}' used {used}, but the plan says {planned} ({path})"
            )
        if planned is not None and row["exact"] != "1":
            raise DeviceError(f"the preloaded run of '{communication.name}' was not exactly the plan ({path})")
        uses.append(
            CommunicationUse(
                used, int(row["distinct_sms"]), int(row["sm_ns"]) / 1e3, int(row["wait_ns"]) / int(row["sm_ns"])
            )
        )
    return uses


def writable_folder(path: Path) -> Path:
    """Make the folder for the session's files.

    :raises ValueError: where it cannot be written, with the system's reason.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ValueError(f"cannot write to {path}: {error.strerror}") from error
    return path
