# SPDX-License-Identifier: Apache-2.0
"""What has passed of the full sampling, so that a run that was stopped goes on where it stopped.

The journal belongs to one state of the project and of its tests: any change to either starts a new one.
"""

import hashlib
import sys
from pathlib import Path

from lagom.build import cache, trees


class Journal:
    def __init__(self, folder: Path, state: str) -> None:
        self.path = folder / f"{state}.passed"
        self.passed = frozenset(self.path.read_text().splitlines()) if self.path.exists() else frozenset()

    def add(self, test: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as lines:
            lines.write(test + "\n")


def state(tests: Path) -> str:
    """A digest of the installed package, as scripts/venv left it, and of the tests."""
    installed = Path(sys.prefix) / "lagom-installed"
    parts = [installed.read_text() if installed.exists() else "", trees.digest(tests, trees.files(tests))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def journal(tests: Path) -> Journal:
    return Journal(cache.root() / "full-tests", state(tests))
