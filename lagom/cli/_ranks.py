# SPDX-License-Identifier: Apache-2.0
"""The MPI ranks of a command: the same arguments on all, and one line for a failure that all of them have."""

import fcntl
import os
import stat
import struct
import subprocess
import sys
import termios
import time
from typing import TYPE_CHECKING, Any

from ._failures import INTERNAL, USAGE, CommandError

if TYPE_CHECKING:
    from mpi4py import MPI

# One of these is set in a process that an MPI launcher has started.
_LAUNCHERS = ("OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE", "PMI_RANK")
_LAUNCHED_RANK = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
_FAILURE_WAIT_S = 5.0
_JOINING_WAIT_S = 10.0  # for MPI to start on all ranks
_FORWARDING_WAIT_S = 10.0  # for a launcher that has no core to run on
_FORWARDING_S = 0.5


def started_by_launcher() -> bool:
    """Whether an MPI launcher started this process; initialising MPI in any other starts daemons of its own."""
    return any(name in os.environ for name in _LAUNCHERS)


class Ranks:
    """This process among the ranks that run the same command."""

    def __init__(self, comm: "MPI.Intracomm | None") -> None:
        self._comm = comm
        self.rank = comm.Get_rank() if comm is not None else 0
        self.size = comm.Get_size() if comm is not None else 1
        # Failures are reported beside whatever the command itself is in the middle of.
        self._reports = comm.Dup() if comm is not None and self.size > 1 else None

    @classmethod
    def alone(cls) -> "Ranks":
        """A command that knows nothing of ranks until it fails."""
        return cls(None)

    @classmethod
    def collective(cls) -> "Ranks":
        """All ranks of MPI.COMM_WORLD where an MPI launcher started this process, else this process alone."""
        if not started_by_launcher():
            return cls(None)
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            raise SystemExit(_print(f"lagom: MPI cannot be used: {error}", INTERNAL)) from error
        return cls(MPI.COMM_WORLD)

    def require_same_arguments(self, words: list[str]) -> None:
        """CommandError on every rank if one has other arguments."""
        if self._reports is None:
            return
        everybody = self._reports.allgather(words)
        for rank, theirs in enumerate(everybody):
            if theirs != everybody[0]:
                raise CommandError(
                    f"lagom: ranks have different arguments: rank 0 '{' '.join(everybody[0])}', "
                    f"rank {rank} '{' '.join(theirs)}'",
                    USAGE,
                )

    def report(self, line: str, code: int) -> int:
        """Print a failure and return its exit code.

        Where all ranks fail, rank 0 prints one line for each distinct failure. Where some do not fail within a few
        seconds, they may be waiting for this one for ever: it prints its own line and ends the whole MPI job.
        """
        if self._comm is None and started_by_launcher():
            return _join_and_report(line, code)
        if self._reports is None:
            return _print(line, code)
        answers = self._gather((line, code))
        if answers is None:
            _print(f"{line} (rank {self.rank}; the other ranks are stopped)", code)
            await_forwarding()
            time.sleep(_FORWARDING_S)
            self._reports.Abort(code)
        elif self.rank == 0:
            told: dict[str, list[int]] = {}
            for rank, (text, _) in enumerate(answers):
                told.setdefault(text, []).append(rank)
            for text, where in told.items():
                _print(text if len(told) == 1 else f"{text} (rank {', '.join(map(str, where))})", code)
        return self.leave(answers[0][1] if answers else code)

    def leave(self, code: int) -> int:
        """Call it before every rank ends with this code. A launcher ends a job when its first rank fails, and may drop
        what it has not yet forwarded of the others; no rank ends before all have called MPI_Finalize.
        """
        if self._reports is not None and code != 0:
            await_forwarding()
        return code

    def _gather(self, mine: tuple[str, int]) -> list[tuple[str, int]] | None:
        """What every rank says, or None if some say nothing in time."""
        assert self._reports is not None
        arrived = self._reports.Ibarrier()
        deadline = time.monotonic() + _FAILURE_WAIT_S
        while not arrived.Test():
            if time.monotonic() > deadline:
                return None
            time.sleep(0.02)
        gathered: list[Any] = self._reports.allgather(mine)
        return gathered


def _join_and_report(line: str, code: int) -> int:
    """:meth:`Ranks.report` on a rank whose command has not used MPI.

    A child process does it. Ranks that have not failed are other programs by now, and MPI would wait for them without
    end and without letting this process do anything else.
    """
    words = [
        sys.executable,
        "-P",
        "-c",
        f"from {__name__} import _report_as_child; _report_as_child()",
        line,
        str(code),
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        try:
            told, _ = child.communicate(timeout=_JOINING_WAIT_S)
        except subprocess.TimeoutExpired:
            rank = next((os.environ[name] for name in _LAUNCHED_RANK if name in os.environ), "unknown")
            _print(f"{line} (rank {rank}; other ranks have not failed)", code)
            await_forwarding()
            child.kill()
            return code
    # Where the child could not report, an MPI that does not start for example, this rank speaks for itself.
    return int(told) if told.strip().isdigit() else _print(line, code)


def _report_as_child() -> None:
    """What :func:`_join_and_report` starts: prints the exit code once the failure has been reported."""
    line, code = sys.argv[1], int(sys.argv[2])
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError):
        return
    print(Ranks(MPI.COMM_WORLD).report(line, code))


def _print(line: str, code: int) -> int:
    print(line, file=sys.stderr, flush=True)
    return code


def await_forwarding() -> None:
    """Wait until whoever reads this process's output and errors through pipes has taken everything out of them."""
    deadline = time.monotonic() + _FORWARDING_WAIT_S
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        while _unread_bytes(stream.fileno()) and time.monotonic() < deadline:
            time.sleep(0.01)


def _unread_bytes(fd: int) -> int:
    """What is written to a pipe and not read; 0 for anything else."""
    if not stat.S_ISFIFO(os.fstat(fd).st_mode):
        return 0
    unread: int = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0]
    return unread
