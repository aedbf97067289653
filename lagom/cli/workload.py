# SPDX-License-Identifier: Apache-2.0
"""`lagom workload`: list and show overlap workloads, and the device functions they need."""

from __future__ import annotations

import argparse
import sys
from typing import Any


def add(subparsers: Any) -> None:
    """Register the subcommand."""
    command = subparsers.add_parser("workload", help="list and show overlap workloads")
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("list", help="presets by name").set_defaults(run=_list)
    show = actions.add_parser("show", help="operations of a workload, with sizes for a number of ranks")
    show.add_argument("workload", metavar="WORKLOAD", help="a name, or a .yaml file")
    show.add_argument("--ranks", type=int, default=4, metavar="N", help="ranks that take part (default: 4)")
    show.add_argument("--yaml", action="store_true", help="as YAML, to be changed and given to `lagom tune`")
    show.set_defaults(run=_show)
    functions = actions.add_parser(
        "functions", help="NCCL device functions the workload needs, for `lagom build --functions`"
    )
    functions.add_argument("workload", metavar="WORKLOAD", help="a name, or a .yaml file")
    functions.set_defaults(run=_functions)


def _list(_arguments: argparse.Namespace) -> int:
    from lagom.workload import PRESETS

    width = max(map(len, PRESETS))
    for preset in PRESETS.values():
        print(f"{preset.name:<{width}}  {preset.summary}")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from lagom.workload import load, workload_to_yaml

    workload = load(arguments.workload)
    workload.check_ranks(arguments.ranks)
    if arguments.yaml:
        sys.stdout.write(workload_to_yaml(workload))
        return 0
    from lagom.report import operations, wide_console

    console = wide_console(sys.stdout)
    console.print(workload.description or workload.name, markup=False, soft_wrap=True)
    console.print(operations(workload, arguments.ranks))
    return 0


def _functions(arguments: argparse.Namespace) -> int:
    from lagom.workload import device_functions, load

    print(device_functions(load(arguments.workload)))
    return 0
