# SPDX-License-Identifier: Apache-2.0
"""Which of NCCL's device functions a workload needs, in the pattern language of its ONLY_FUNCS build variable."""

from __future__ import annotations

from lagom.workload.model import REDUCING, Communication, Workload

# NCCL's names, as its generate.py lists them.
_COLLECTIVE = {
    "all_reduce": "AllReduce",
    "all_gather": "AllGather",
    "reduce_scatter": "ReduceScatter",
    "broadcast": "Broadcast",
    "reduce": "Reduce",
}
_TYPE = {
    "int8": "i8",
    "uint8": "u8",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "float16": "f16",
    "bfloat16": "bf16",
    "int32": "i32",
    "uint32": "u32",
    "float32": "f32",
    "int64": "i64",
    "uint64": "u64",
    "float64": "f64",
}
_ALGORITHMS = {"all_reduce": ("RING", "TREE")}


def _pattern(communication: Communication) -> list[str]:
    collective = _COLLECTIVE[communication.collective]
    algorithms = _ALGORITHMS.get(communication.collective, ("RING",))
    if communication.collective not in REDUCING:
        return [f"{collective} {algorithm} *" for algorithm in algorithms]
    dtype = _TYPE[communication.dtype]
    integer = dtype[0] in "iu"
    # An average is a scaled sum: integers are divided at the end, floating point is multiplied at the start.
    operation = {
        "sum": "Sum",
        "prod": "Prod",
        "min": "MinMax",
        "max": "MinMax",
        "avg": "SumPostDiv" if integer else "PreMulSum",
    }[communication.op or ""]
    # Signed integers share the device code of unsigned ones, but the pattern must name the type that is called.
    return [f"{collective} {operation} {dtype} {algorithm} *" for algorithm in algorithms]


def device_functions(workload: Workload) -> str:
    """The ONLY_FUNCS pattern that covers every ring and tree function the workload's communications can use.

    All three protocols are included, since NCCL chooses among them by size.
    """
    patterns: dict[str, None] = {}
    for communication in workload.communications:
        for pattern in _pattern(communication):
            patterns[pattern] = None
    return "|".join(patterns)
