# SPDX-License-Identifier: Apache-2.0
"""`lagom build`: fetch, patch and build NCCL into the per-user cache."""

import argparse
import sys
from typing import Any

from lagom.build import cli
from lagom.build.errors import BuildError


def add(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser("build", help="fetch, patch and build NCCL into the cache")
    cli.add_build_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Returns 0, or 1 where fetching, patching or building failed."""
    try:
        return cli.build(args)
    except BuildError as error:
        print(f"lagom build: {error}", file=sys.stderr)
        return 1
