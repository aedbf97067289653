# SPDX-License-Identifier: Apache-2.0
"""`lagom plan show|check`."""

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lagom.nccl import Rule
    from lagom.plan import Plan


def add(subparsers: Any) -> None:
    """Register the subcommand."""
    command = subparsers.add_parser("plan", help="show or check a plan")
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)
    show = actions.add_parser("show", help="print a plan as a table")
    show.add_argument("file", help="a plan (CSV)")
    show.add_argument("--json", action="store_true", help="for programs")
    show.set_defaults(run=_show)
    check = actions.add_parser(
        "check", help="say whether plans are well-formed; the first mistake of each, with its place"
    )
    check.add_argument("files", nargs="+", metavar="file")
    check.set_defaults(run=_check)


def _show(arguments: argparse.Namespace) -> int:
    from lagom.plan import read_plan

    plan = read_plan(arguments.file)
    if arguments.json:
        rules = [asdict(rule) for rule in plan.rules]
        print(json.dumps({"digest": f"{plan.digest:016x}", "comments": plan.comments, "rules": rules}, indent=1))
        return 0
    print(f"{arguments.file}: {_rules(plan)}, digest {plan.digest:016x}")
    for comment in plan.comments:
        print(f"# {comment}")
    rows: list[tuple[str, ...]] = [
        ("line", "collective", "bytes", "nodes", "ranks", "algorithm", "protocol", "channels", "threads", "chunk")
    ]
    rows += [_cells(rule) for rule in plan.rules]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _rules(plan: "Plan") -> str:
    return "1 rule" if len(plan.rules) == 1 else f"{len(plan.rules)} rules"


def _cells(rule: "Rule") -> tuple[str, ...]:
    low = "0" if rule.min_bytes < 0 else str(rule.min_bytes)
    high = "" if rule.max_bytes < 0 else str(rule.max_bytes)
    nodes = "any" if rule.n_nodes < 0 else str(rule.n_nodes)
    ranks = "any" if rule.n_ranks < 0 else str(rule.n_ranks)
    knobs = rule.knobs
    values = (knobs.algorithm, knobs.protocol, knobs.channels, knobs.threads, knobs.chunk_bytes)
    cells = ("-" if value is None else str(value) for value in values)
    return (str(rule.line), rule.collective, f"{low}..{high}", nodes, ranks, *cells)


def _check(arguments: argparse.Namespace) -> int:
    from lagom.plan import PlanError, read_plan

    from ._failures import USAGE

    wrong = 0
    for file in arguments.files:
        try:
            plan = read_plan(file)
        except PlanError as error:
            print(error)
            wrong += 1
        else:
            print(f"{file}: fine, {_rules(plan)}, digest {plan.digest:016x}")
    return USAGE if wrong else 0
