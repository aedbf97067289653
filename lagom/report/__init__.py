# SPDX-License-Identifier: Apache-2.0
"""What a tuning session found, as a table, JSON and a page; and workloads as a table."""

from __future__ import annotations

from lagom.report.console import wide_console
from lagom.report.data import session_data
from lagom.report.explain import explain
from lagom.report.files import write_report
from lagom.report.operations import operations
from lagom.report.table import comparison, trial_line

__all__ = ["comparison", "explain", "operations", "session_data", "trial_line", "wide_console", "write_report"]
