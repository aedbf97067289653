# SPDX-License-Identifier: Apache-2.0
"""`lagom tune`: find knobs for a workload's collectives, and prove them."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ._failures import BY_NAME, INTERNAL, USAGE, CommandError, describe
from ._ranks import started_by_launcher

COLLECTIVE = True


def add(subparsers: Any) -> None:
    """Register the subcommand."""
    command = subparsers.add_parser(
        "tune",
        help="find knobs for the collectives of a workload",
        description="Tune the collectives of WORKLOAD beside its computation. Started by mpirun, one rank a device.",
        epilog="Example: mpirun -n 4 lagom tune phi2-fsdp-a40",
    )
    command.add_argument("workload", metavar="WORKLOAD", help="a name (`lagom workload list`) or a .yaml file")
    command.add_argument("--strategy", default="linear", metavar="NAME", help="search to use (default: linear)")
    command.add_argument(
        "--budget", type=_measurements, default=14, metavar="N", help="most executions of the group (default: 14)"
    )
    command.add_argument(
        "--output", type=Path, metavar="DIR", help="folder for plan, report and counters (default: results/WORKLOAD)"
    )
    command.add_argument(
        "--device",
        choices=("hostcuda", "cuda"),
        help="hostcuda: GPUs modelled on CPUs; cuda: GPUs (default: whichever the NCCL in use is built for)",
    )
    command.add_argument("--json", action="store_true", help="print the report as JSON and nothing else")
    command.set_defaults(run=_run)


def _measurements(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 1")
    return int(text)


def _run(arguments: argparse.Namespace) -> int:
    if not started_by_launcher():
        raise CommandError(
            "lagom tune: started as one rank, at least 2 are needed: mpirun -n 4 lagom tune " + arguments.workload,
            USAGE,
        )
    from mpi4py import MPI

    from lagom.device import DeviceError
    from lagom.strategies import StrategyError
    from lagom.tuning import Disagreement, Options, RankFailed

    folder = arguments.output or Path("results", Path(arguments.workload).stem)
    options = Options(arguments.workload, arguments.strategy, arguments.budget, folder, arguments.device)
    try:
        return _session(MPI.COMM_WORLD, options, as_json=arguments.json)
    except Disagreement as error:
        raise CommandError(f"lagom tune: {error}", USAGE) from error
    except RankFailed as failed:
        if isinstance(failed.error, DeviceError | StrategyError | OSError):
            raise CommandError(f"lagom tune: {failed.error}", _code(failed.error)) from failed
        line, code = describe(failed.error)
        raise CommandError(line.replace("lagom:", "lagom tune:", 1), code) from failed
    except (DeviceError, StrategyError) as error:
        raise CommandError(f"lagom tune: {error}", _code(error)) from error


def _code(error: Exception) -> int:
    """The exit code of what a device, a strategy or the file system says."""
    return BY_NAME.get(getattr(error, "origin", ""), INTERNAL)


def _session(mpi_comm: Any, options: Any, *, as_json: bool) -> int:
    """Tune, and let rank 0 tell."""
    from lagom.report import comparison, explain, session_data, trial_line, wide_console, write_report
    from lagom.tuning import tune
    from lagom.tuning.agreement import together
    from lagom.workload import load

    first = mpi_comm.Get_rank() == 0
    console = wide_console(sys.stderr if as_json else sys.stdout)
    tried = 0

    def observe(trial: Any) -> None:
        nonlocal tried
        if first:
            console.print(trial_line(tried, load(options.workload), trial), markup=False)
        tried += 1

    def announce(text: str) -> None:
        if first:
            console.print(text, markup=False)

    session = tune(mpi_comm, options, observe, announce)
    page, data = together(mpi_comm, lambda: write_report(session, session.plan.parent), on=0)
    if not first:
        return 0
    if as_json:
        print(json.dumps(session_data(session), indent=1))
        return 0
    console.print()
    console.print(comparison(session))
    console.print(explain(session), markup=False)
    console.print()
    for label, value in (("plan", session.plan), ("report", page), ("data", data)):
        console.print(f"{label:<9}{value}", markup=False)
    console.print(f"counters {session.counters[0]} and those of the other ranks", markup=False)
    return 0
