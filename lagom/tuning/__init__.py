# SPDX-License-Identifier: Apache-2.0
"""Tuning sessions: from a workload to a plan that has been proved in an unchanged program."""

from __future__ import annotations

from lagom.tuning.agreement import Disagreement, RankFailed
from lagom.tuning.session import Options, Session, tune

__all__ = ["Disagreement", "Options", "RankFailed", "Session", "tune"]
