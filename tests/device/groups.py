# SPDX-License-Identifier: Apache-2.0
"""A small overlap group that runs on every backend."""

from lagom.device import Measurement
from lagom.nccl import Knobs
from lagom.workload import Communication, Computation, KernelSpec, Workload

PRODUCT = KernelSpec(2.0 * 128 * 64 * 64 * 4, 1e4, 65536.0, 4, 128, 128, 0)
STREAM = KernelSpec(1e4, 1e5, 1e5, 8, 64, 32, 0)
GROUP = Workload(
    "both",
    (
        Communication("first", "all_gather", "bfloat16", 40_000),
        Computation("product", PRODUCT),
        Computation("stream", STREAM),
        Communication("second", "all_gather", "bfloat16", 7_001, after=("product",)),
        Computation("last", PRODUCT, after=("second",)),
    ),
)
KNOBS = {0: Knobs("ring", "simple", 2, 256, 65536)}


def check_order(measured: Measurement) -> None:
    """Operations that depend on each other ran one after the other."""
    ends = {span.name: (span.start_us, span.end_us) for span in measured.spans}
    assert [span.name for span in measured.spans] == [operation.name for operation in GROUP.operations]
    for earlier, later in (("product", "stream"), ("second", "last"), ("product", "second"), ("first", "second")):
        assert ends[earlier][1] <= ends[later][0] + 1e-3, (earlier, later)
