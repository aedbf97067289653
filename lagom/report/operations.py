# SPDX-License-Identifier: Apache-2.0
"""The operations of a workload as a table."""

from __future__ import annotations

from rich import box
from rich.table import Table

from lagom.report.units import size
from lagom.workload import Communication, Operation, Workload


def _work(operation: Operation, ranks: int) -> str:
    if isinstance(operation, Communication):
        total, shard = operation.total_bytes(ranks), operation.shard_count(ranks)
        op = f" {operation.op}" if operation.op else ""
        return f"{operation.collective}{op} {operation.dtype}, {size(total)}, {shard:,} elements a rank"
    kernel = operation.kernel
    memory = size(round(kernel.bytes_read + kernel.bytes_written))
    return (
        f"{kernel.flops / 1e9:,.1f} GFLOP, {memory} of memory traffic, {kernel.ctas:,} CTAs x {kernel.threads_per_cta}"
    )


def operations(workload: Workload, ranks: int) -> Table:
    """One row an operation, in program order; sizes of collectives for that many ranks."""
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("operation", "stream", "work", "after"):
        table.add_column(name)
    for operation in workload.operations:
        table.add_row(operation.name, operation.stream, _work(operation, ranks), ", ".join(operation.after))
    return table
