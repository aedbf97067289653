# SPDX-License-Identifier: Apache-2.0
"""`lagom run`: start an unchanged program with the patched NCCL in front, and a plan."""

import argparse
import os
import shutil
from typing import Any

from ._failures import USAGE, CommandError


def add(subparsers: Any) -> None:
    """Register the subcommand."""
    command = subparsers.add_parser(
        "run",
        help="run a program with a plan preloaded",
        description="Run CMD with the patched NCCL preloaded; CMD must link libnccl.so.2 or open it by that name.",
    )
    command.add_argument("--plan", metavar="FILE", help="knobs for collectives, read when NCCL starts")
    command.add_argument("--counters", metavar="FILE", help="write what ran; %%h host, %%p process, %%r rank")
    command.add_argument("words", nargs=argparse.REMAINDER, metavar="-- CMD ...", help="the program and its arguments")
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    if not words:
        raise CommandError("lagom run: no program given: lagom run [--plan FILE] [--counters FILE] -- CMD ...", USAGE)
    program = shutil.which(words[0])
    if program is None:
        there = "/" in words[0] and os.path.exists(words[0])
        what = f"{words[0]} is no file that may be executed" if there else f"no such program: {words[0]}"
        raise CommandError(f"lagom run: {what}", USAGE)
    if arguments.counters is not None and os.path.isdir(arguments.counters):
        raise CommandError(f"lagom run: --counters {arguments.counters}: is a folder; a file is needed", USAGE)
    from lagom.nccl import preload
    from lagom.plan import read_plan

    if arguments.plan is not None:
        read_plan(arguments.plan)
    environment = preload.environment(dict(os.environ), arguments.plan, arguments.counters)
    try:
        os.execve(program, words, environment)
    except OSError as error:
        raise CommandError(f"lagom run: {program} cannot be executed: {error.strerror}", USAGE) from error
