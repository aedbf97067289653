# SPDX-License-Identifier: Apache-2.0
"""Writing a session's report: JSON for programs, HTML for people."""

from __future__ import annotations

import json
from pathlib import Path

from lagom.report.data import session_data
from lagom.report.html import page
from lagom.tuning import Session


def _write(path: Path, text: str) -> Path:
    spare = path.with_name(f".{path.name}.new")
    spare.write_text(text, encoding="utf-8")
    return spare.replace(path)


def write_report(session: Session, folder: Path) -> tuple[Path, Path]:
    """Write ``report.html`` and ``report.json``, each whole or not at all; their paths. OSError where that fails."""
    data = json.dumps(session_data(session), indent=1) + "\n"
    return _write(folder / "report.html", page(session)), _write(folder / "report.json", data)
