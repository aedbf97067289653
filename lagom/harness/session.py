# SPDX-License-Identifier: Apache-2.0
"""Run every job with both libraries in turns, keep what they print, and say how the two differ."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lagom.files import write_whole
from lagom.harness import tables
from lagom.harness.launchers import TIMED_OUT, Launcher, run
from lagom.harness.libraries import Library

#: nccl-tests' status for wrong data.
WRONG_DATA = 7


@dataclass(frozen=True)
class Job:
    """A program to be run on all ranks.

    :param name: one word, names its files. :param compares: whether it prints nccl-tests' table.
    :param says_library: whether it prints the path of the NCCL in use, so that the preload can be checked.
    """

    name: str
    program: tuple[str, ...]
    compares: bool = True
    says_library: bool = False


@dataclass
class Run:
    """One execution: its exit status, what went wrong in words (empty if nothing), its rows if it has a table."""

    job: str
    side: str
    repeat: int
    status: int
    seconds: float
    failure: str
    log: str
    rows: list[tables.Row] = field(default_factory=list)


def perform(
    jobs: Sequence[Job],
    libraries: Sequence[Library],
    launcher: Launcher,
    folder: Path,
    repeats: int,
    limit_s: float,
    say: Callable[[str], None],
) -> int:
    """Run all jobs; writes logs, ``harness.json`` and ``harness.txt`` to `folder`, which is there.

    :returns: 0; 7 where a run had wrong data; 1 where one failed otherwise.
    :raises OSError: where the folder cannot be written.
    """
    runs: list[Run] = []
    for job in jobs:
        for repeat in range(repeats if job.compares else 1):
            # The order changes every time, so that neither side always comes first.
            for library in libraries if repeat % 2 == 0 else reversed(libraries):
                runs.append(_run(job, library, launcher, folder, repeat, limit_s))
                last = runs[-1]
                say(f"{job.name} {library.side} {repeat + 1}: {last.failure or 'fine'} ({last.seconds:.1f} s)")
    compared = {job.name: _compare(job, runs) for job in jobs if job.compares}
    report = _text(jobs, libraries, launcher, runs, compared)
    data = {
        "libraries": {library.side: str(library.path) for library in libraries},
        "launcher": launcher.words,
        "ranks": launcher.ranks,
        "runs": [asdict(one) for one in runs],
        "differences": {
            name: [{**asdict(one), "ratios": one.ratios} for one in found] for name, found in compared.items()
        },
    }
    write_whole(folder / "harness.json", (json.dumps(data, indent=1) + "\n").encode())
    write_whole(folder / "harness.txt", (report + "\n").encode())
    say("\n" + report)
    statuses = {one.status for one in runs if one.failure}
    return 0 if not statuses else WRONG_DATA if WRONG_DATA in statuses else 1


def _run(job: Job, library: Library, launcher: Launcher, folder: Path, repeat: int, limit_s: float) -> Run:
    log = folder / f"{job.name}-{library.side}-{repeat + 1}.log"
    begun = time.monotonic()
    status = run(launcher.command(job.program, library.environment()), log, limit_s)
    seconds = time.monotonic() - begun
    text = log.read_text(errors="replace")
    rows = tables.read(text) if job.compares else []
    wrong = sum(row.wrong or 0 for row in rows)
    if status == 0 and wrong:
        status = WRONG_DATA
    return Run(
        job.name,
        library.side,
        repeat,
        status,
        seconds,
        _failure(job, library, status, text, rows, limit_s),
        log.name,
        rows,
    )


def _failure(job: Job, library: Library, status: int, text: str, rows: Sequence[tables.Row], limit_s: float) -> str:
    """What went wrong with a run, in one line; empty where nothing did."""
    if status == TIMED_OUT:
        return f"did not end within {limit_s:g} s"
    if status == WRONG_DATA:
        return "wrong data"
    if status != 0:
        # The program's own last words; launchers frame theirs in lines of dashes.
        words = text.split("\n-----")[0].strip().splitlines()
        return f"exit status {status}: {words[-1].strip() if words else 'it printed nothing'}"
    if job.compares and not rows:
        return "it printed no table in nccl-tests' format"
    if job.says_library and not re.search(rf"\bfrom {re.escape(str(library.path))}\b", text):
        return f"it did not run with {library.path}"
    return ""


def _compare(job: Job, runs: Sequence[Run]) -> list[tables.Difference]:
    mine = [one for one in runs if one.job == job.name and not one.failure]
    return tables.differences({side: [one.rows for one in mine if one.side == side] for side in ("stock", "patched")})


def _text(
    jobs: Sequence[Job],
    libraries: Sequence[Library],
    launcher: Launcher,
    runs: Sequence[Run],
    compared: dict[str, list[tables.Difference]],
) -> str:
    lines = [f"{library.side}: {library.path}" for library in libraries]
    lines.append(f"{launcher.ranks} ranks by {' '.join(launcher.words)}")
    for job in jobs:
        lines += ["", f"{job.name}: {' '.join(job.program)}"]
        lines += [
            f"  {one.side} {one.repeat + 1}: {one.failure} ({one.log})"
            for one in runs
            if one.job == job.name and one.failure
        ]
        if not job.compares:
            # pytest's last line, or whatever a program says last.
            lines += [
                f"  {one.side}: {'failed' if one.failure else 'passed'} ({one.log})"
                for one in runs
                if one.job == job.name
            ]
        elif compared[job.name]:
            lines.append(tables.text(compared[job.name]))
        else:
            lines.append("  nothing to compare")
    return "\n".join(lines)
