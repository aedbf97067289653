# SPDX-License-Identifier: Apache-2.0
"""Where tables are printed."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console

#: Columns that the tables need; a log has none of its own, and mpirun hides the terminal's.
COLUMNS = 120


def wide_console(file: TextIO) -> Console:
    """A console of plain text that breaks no lines, which would break paths.

    mpirun gives its ranks a terminal even where their output goes to a file, so styles would end up there.
    """
    console = Console(file=file, color_system=None, highlight=False, soft_wrap=True)
    console.width = max(console.width, COLUMNS)
    return console
