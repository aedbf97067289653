# SPDX-License-Identifier: Apache-2.0
"""The strategy that does not search: NCCL's own choice, measured once."""

from __future__ import annotations

from lagom.device import Device
from lagom.strategies.result import Budget, Ledger, Observer, Result
from lagom.workload import Workload


def nccl(workload: Workload, device: Device, budget: Budget, observe: Observer | None = None) -> Result:
    """Measure NCCL's default and keep it."""
    ledger = Ledger(workload, device, budget, observe)
    ledger.run_default()
    return ledger.result("nccl", "NCCL's default, no search")
