# SPDX-License-Identifier: Apache-2.0
"""`lagom harness`: stock and patched NCCL side by side on a cluster."""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from pathlib import Path
from typing import Any

from ._failures import USAGE, CommandError

_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")


def add(subparsers: Any) -> None:
    """Register the subcommand."""
    command = subparsers.add_parser(
        "harness",
        help="run MPI tests and benchmarks with stock and patched NCCL side by side",
        description="Runs each job with the stock and the patched library preloaded, in turns, and prints a table of "
        "differences. It starts the ranks itself: do not start it with mpirun or srun.",
        epilog="Exit codes: 0 fine, 1 a run failed, 6 usage, 7 wrong data.",
    )
    where = command.add_argument_group("where")
    where.add_argument("--ranks", type=_positive, default=2, metavar="N", help="ranks in all (2)")
    where.add_argument("--ranks-per-node", type=_positive, metavar="N", help="ranks on each host")
    where.add_argument("--hostfile", type=Path, metavar="FILE", help="mpirun on the hosts of this file")
    where.add_argument("--slurm", action="store_true", help="srun (default inside a Slurm job)")
    where.add_argument(
        "--launch-option",
        action="append",
        default=[],
        metavar="OPT",
        help="further option for mpirun or srun; repeat it",
    )
    which = command.add_argument_group("which libraries")
    which.add_argument(
        "--stock", type=Path, metavar="PATH", help="libnccl.so.2 or its folder (default: last stock build)"
    )
    which.add_argument("--patched", type=Path, metavar="PATH", help="the same (default: last build)")
    which.add_argument("--flavour", choices=("host", "cuda"), default="host", help="of the default libraries (host)")
    what = command.add_argument_group("what")
    what.add_argument(
        "--bench",
        type=_collectives,
        metavar="LIST",
        help=f"of {','.join(_COLLECTIVES)}, or none (all, unless other jobs are given)",
    )
    what.add_argument(
        "--bench-options",
        type=_words,
        default=_words("-b 8 -e 16M -f 4"),
        metavar="TEXT",
        help="of lagom bench (-b 8 -e 16M -f 4)",
    )
    what.add_argument(
        "--program",
        action="append",
        default=[],
        type=_words,
        metavar="TEXT",
        help="a program that prints nccl-tests' table; repeat it",
    )
    what.add_argument("--tests", nargs="*", type=Path, metavar="PATH", help="pytest's MPI tests there (tests/nccl)")
    what.add_argument("--repeats", type=_positive, default=3, metavar="N", help="runs of each comparison (3)")
    what.add_argument("--limit", type=_seconds, default=1800.0, metavar="SECONDS", help="of one run (1800)")
    command.add_argument(
        "--output", type=Path, default=Path("results/harness"), metavar="DIR", help="(results/harness)"
    )
    command.set_defaults(run=_run)


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 1")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds above 0")
    return value


def _collectives(text: str) -> tuple[str, ...]:
    if text == "none":
        return ()
    names = tuple(text.split(","))
    for name in names:
        if name not in _COLLECTIVES:
            raise argparse.ArgumentTypeError(f"'{name}' is none of {', '.join(_COLLECTIVES)}; separate them by commas")
    return names


def _words(text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"'{text}': {error}") from error
    if not words:
        raise argparse.ArgumentTypeError("it is empty")
    return words


def _run(arguments: argparse.Namespace) -> int:
    from lagom.harness import launchers, libraries, session

    from ._ranks import started_by_launcher

    if started_by_launcher():
        raise CommandError("lagom harness: it starts the ranks itself; run it without mpirun or srun", USAGE)
    if arguments.slurm and arguments.hostfile is not None:
        raise CommandError("lagom harness: --slurm and --hostfile exclude each other", USAGE)
    try:
        launcher = launchers.choose(
            arguments.ranks, arguments.ranks_per_node, arguments.hostfile, arguments.slurm, arguments.launch_option
        )
        sides = [libraries.library(side, getattr(arguments, side), arguments.flavour) for side in ("stock", "patched")]
        jobs = _jobs(arguments)
    except ValueError as error:
        raise CommandError(f"lagom harness: {error}", USAGE) from error
    try:
        arguments.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"lagom harness: cannot write to {arguments.output}: {error.strerror}", USAGE) from error
    return session.perform(
        jobs,
        sides,
        launcher,
        arguments.output,
        arguments.repeats,
        arguments.limit,
        lambda text: print(text, flush=True),
    )


def _jobs(arguments: argparse.Namespace) -> list[Any]:
    """What to run. ValueError where there is nothing."""
    from lagom.harness.session import Job

    python = (sys.executable, "-P", "-m")
    others = bool(arguments.program) or arguments.tests is not None
    names = arguments.bench if arguments.bench is not None else () if others else _COLLECTIVES
    jobs = [Job(name, (*python, "lagom", "bench", name, *arguments.bench_options), says_library=True) for name in names]
    jobs += [Job(f"program{number}", words) for number, words in enumerate(arguments.program, 1)]
    if arguments.tests is not None:
        paths = arguments.tests or [Path("tests/nccl")]
        for path in paths:
            if not path.exists():
                raise ValueError(f"--tests {path}: it is not there; tests are in a checkout only")
        pytest = (*python, "pytest", "-q", "--only-mpi", "-p", "no:cacheprovider", *map(str, paths))
        jobs.append(Job("tests", pytest, compares=False))
    if not jobs:
        raise ValueError("nothing to run: --bench none, and neither --program nor --tests")
    return jobs
