# SPDX-License-Identifier: Apache-2.0
"""The `lagom` command. Every file here whose name does not begin with "_" is a subcommand and registers itself.

Such a file has ``add(subparsers)``, which adds its parser and sets ``run`` to a function from the parsed arguments to
an exit code, and may say ``COLLECTIVE = True``: then it is started on several MPI ranks, which must have the same
arguments.

Exit codes mean what they mean in nccl-tests: 0 fine, 1 internal, 2 CUDA, 3 NCCL, 4 time-out, 5 not implemented, 6
usage, 7 wrong data.
"""

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

import lagom

from ._failures import USAGE, CommandError, describe
from ._ranks import Ranks


class Parser(argparse.ArgumentParser):
    """argparse that reports a mistake as one line, through :class:`CommandError`, so that ranks can report it once."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # An abbreviation that works today breaks when an option is added.
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{self.prog}: {message}", USAGE)


def commands() -> dict[str, ModuleType]:
    """The subcommand modules by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    return {name: importlib.import_module(f"{__name__}.{name}") for name in names}


def parser(modules: dict[str, ModuleType]) -> Parser:
    """The whole command line."""
    root = Parser(prog="lagom", description=lagom.__doc__)
    root.add_argument("--version", action="version", version=f"lagom {lagom.__version__}")
    subparsers = root.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    for module in modules.values():
        module.add(subparsers)
    return root


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    modules = commands()
    collective = bool(words) and getattr(modules.get(words[0]), "COLLECTIVE", False)
    ranks = Ranks.collective() if collective else Ranks.alone()
    try:
        ranks.require_same_arguments(words)
        arguments = parser(modules).parse_args(words)
        return ranks.leave(int(arguments.run(arguments)))
    except SystemExit as leaving:
        # --help and --version leave this way; every rank has printed the same.
        if isinstance(leaving.code, str):
            return ranks.report(leaving.code, USAGE)
        return leaving.code or 0
    except KeyboardInterrupt:
        return ranks.report("lagom: interrupted", 130)
    except Exception as error:
        line, code = describe(error)
        return ranks.report(line, code)
