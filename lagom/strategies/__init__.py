# SPDX-License-Identifier: Apache-2.0
"""Searches for knobs, one file each: ``strategy(workload, device, budget) -> Result``."""

from __future__ import annotations

from lagom.strategies.linear import linear
from lagom.strategies.nccl import nccl
from lagom.strategies.result import Budget, BudgetSpent, Observer, Result, Strategy, StrategyError, Trial, measured

STRATEGIES: dict[str, Strategy] = {"linear": linear, "nccl": nccl}

__all__ = [
    "STRATEGIES",
    "Budget",
    "BudgetSpent",
    "Observer",
    "Result",
    "Strategy",
    "StrategyError",
    "Trial",
    "linear",
    "measured",
    "nccl",
]
