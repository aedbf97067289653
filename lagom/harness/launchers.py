# SPDX-License-Identifier: Apache-2.0
"""Starting one program on many ranks: mpirun, with a hostfile or without, and Slurm's srun."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Exit status of a job that ran past its limit, as timeout(1) has it.
TIMED_OUT = 124
_GRACE_S = 10.0
_HOST = re.compile(r"[A-Za-z0-9_.:-]+(\s+(slots|max_slots|max-slots)\s*=\s*\d+)*")
# What would reach the ranks from the shell around the harness, and decide in its place.
_CLEARED = ("LAGOM_NCCL", "LAGOM_PLAN", "LAGOM_REQUIRE", "LAGOM_COUNTERS", "LAGOM_COUNTERS_FILE", "LD_PRELOAD")


@dataclass(frozen=True)
class Launcher:
    """:param words: what comes before the program. :param ranks: how many it starts."""

    words: tuple[str, ...]
    ranks: int

    def command(self, program: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        """The whole command. The environment is set on each rank by env(1): launchers pass it on in ways of their own,
        and must not be preloaded themselves."""
        cleared = [word for name in _CLEARED if name not in environment for word in ("-u", name)]
        settings = [f"{name}={value}" for name, value in environment.items()]
        return [*self.words, "env", *cleared, *settings, *program]


def choose(
    ranks: int, ranks_per_node: int | None, hostfile: Path | None, slurm: bool, options: Sequence[str]
) -> Launcher:
    """The launcher for these ranks. With neither `hostfile` nor `slurm`: srun inside a Slurm job, else mpirun here.

    :raises ValueError: where the launcher is not there, or the hostfile cannot be read or holds too few slots.
    """
    if slurm or (hostfile is None and "SLURM_JOB_ID" in os.environ):
        words = [_program("srun"), "--ntasks", str(ranks), "--mpi=pmix", "--kill-on-bad-exit=1"]
        words += ["--ntasks-per-node", str(ranks_per_node)] if ranks_per_node else []
        return Launcher((*words, *options), ranks)
    words = [_program("mpirun"), "-n", str(ranks)]
    if hostfile is not None:
        check_hostfile(hostfile)
        words += ["--hostfile", str(hostfile)]
    words += ["--map-by", f"ppr:{ranks_per_node}:node:oversubscribe"] if ranks_per_node else []
    return Launcher((*words, *options), ranks)


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ValueError(f"no {name} in PATH")
    return found


def check_hostfile(path: Path) -> int:
    """The number of hosts in Open MPI's form, one a line.

    :raises ValueError: with the line that is not of that form, or where there is no host.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--hostfile {path}: {getattr(error, 'strerror', None) or 'not text'}") from error
    hosts = 0
    for number, line in enumerate(lines, 1):
        text = line.split("#")[0].strip()
        if text and not _HOST.fullmatch(text):
            raise ValueError(f"--hostfile {path}:{number}: '{text}'; allowed is HOST or HOST slots=N")
        hosts += bool(text)
    if hosts == 0:
        raise ValueError(f"--hostfile {path}: names no host")
    return hosts


def run(command: Sequence[str], log: Path, limit_s: float) -> int:
    """Run a job to its end, its output to `log`; its exit status, or TIMED_OUT after its processes were ended."""
    with log.open("wb") as output:
        job = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            return job.wait(limit_s)
        except subprocess.TimeoutExpired:
            return TIMED_OUT
        finally:
            _end(job)


def _end(job: subprocess.Popen[bytes]) -> None:
    """Whatever is left of a job: asked to end, so that a launcher can end its remote ranks, then made to."""
    if job.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            job.wait(_GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(job.pid, signal.SIGKILL)
    job.wait()
