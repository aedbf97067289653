# SPDX-License-Identifier: Apache-2.0
"""Jobs of plain processes: ranks without MPI, each with an environment of its own, none left behind."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType

from launch import environment

NOTHING: Mapping[str, str] = MappingProxyType({})


class Job:
    """Ranks of one program. Leaving the block kills what still runs.

    `environments`: one mapping a rank, over what all ranks have; `prefixes`: words before each rank's command.
    """

    def __init__(
        self,
        words: Sequence[str],
        environments: Sequence[Mapping[str, str]],
        folder: Path,
        more: Mapping[str, str] = NOTHING,
        prefixes: Sequence[Sequence[str]] = (),
    ) -> None:
        self.meet = folder / "meet"
        self.meet.mkdir(parents=True)
        self.outputs = [folder / f"rank-{rank}.txt" for rank in range(len(environments))]
        self.logs = [folder / f"nccl-{rank}.txt" for rank in range(len(environments))]
        self.processes = []
        for rank, (own, output) in enumerate(zip(environments, self.outputs, strict=True)):
            place = {
                "RANK": str(rank),
                "RANKS": str(len(environments)),
                "MEET": str(self.meet),
                "NCCL_DEBUG_FILE": str(self.logs[rank]),
            }
            prefix = prefixes[rank] if prefixes else ()
            with output.open("wb") as written:
                self.processes.append(
                    subprocess.Popen(
                        [*prefix, *words],
                        env=environment({**place, **more, **own}),
                        stdin=subprocess.DEVNULL,
                        stdout=written,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                )

    def __enter__(self) -> "Job":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for name in self.left_in_shared_memory():
            Path(name).unlink(missing_ok=True)

    def await_posts(self, word: str, ranks: Sequence[int], limit_s: float) -> None:
        """Wait until these ranks have posted the word."""
        end = time.monotonic() + limit_s
        while missing := [rank for rank in ranks if not (self.meet / f"{word}.{rank}").exists()]:
            ended = [rank for rank in missing if self.processes[rank].poll() is not None]
            assert not ended, f"ranks {ended} ended before {word!r}\n{self.everything()}"
            assert time.monotonic() < end, f"ranks {missing} never came to {word!r}\n{self.everything()}"
            time.sleep(0.01)

    def post(self, word: str) -> None:
        """A word that ranks wait for."""
        (self.meet / word).touch()

    def wait(self, limit_s: float, ranks: Sequence[int] | None = None) -> list[int]:
        """Exit statuses of the ranks, once all have ended."""
        end = time.monotonic() + limit_s
        chosen = range(len(self.processes)) if ranks is None else ranks
        for rank in chosen:
            try:
                self.processes[rank].wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"rank {rank} still runs after {limit_s} s\n{self.everything()}") from None
        return [self.processes[rank].returncode for rank in chosen]

    def succeed(self, limit_s: float = 120) -> str:
        """What all ranks said, once all have ended well."""
        statuses = self.wait(limit_s)
        assert not any(statuses), f"ranks ended with {statuses}\n{self.everything()}"
        return self.said()

    def said(self) -> str:
        return "".join(output.read_text(errors="replace") for output in self.outputs)

    def log(self) -> str:
        """What NCCL logged."""
        return "".join(log.read_text(errors="replace") for log in self.logs if log.exists())

    def everything(self) -> str:
        """For messages: what the ranks said, and the end of NCCL's log of each."""
        tails = ["\n".join(log.read_text(errors="replace").splitlines()[-15:]) for log in self.logs if log.exists()]
        return "\n--\n".join([self.said(), *tails])

    def lines(self) -> list[str]:
        """The programs' own lines, without hostcuda's."""
        return [line for line in self.said().splitlines() if line.startswith("rank ")]

    def left_in_shared_memory(self) -> list[str]:
        """Files that NCCL made in /dev/shm, as its own log tells, and that are still there. hostcuda makes none."""
        made = re.findall(r"shared memory in (/dev/shm/\S+)", self.log())
        return sorted(name for name in made if Path(name).exists())


def transports(job: Job) -> set[str]:
    """The transports that NCCL's own log tells: P2P, SHM, NET/Socket, ..."""
    return set(re.findall(r" via (P2P|SHM|NET/[^/]+)/", job.log()))
