# SPDX-License-Identifier: Apache-2.0
"""What a benchmark run was asked for."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from lagom.nccl import Knobs

DTYPE_NAMES = {
    "int8": "int8",
    "uint8": "uint8",
    "int32": "int32",
    "uint32": "uint32",
    "int64": "int64",
    "uint64": "uint64",
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "bfloat16": "bfloat16",
    "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
}
"""nccl-tests' names of element types, with NumPy's."""

OP_NAMES = ("sum", "prod", "max", "min", "avg", "mulsum")


@dataclass(frozen=True)
class Options:
    """nccl-tests' options by their long names, and Lagom's own. ValueError where a value makes no sense."""

    collective: str
    min_bytes: int = 32 << 20
    max_bytes: int = 32 << 20
    step_bytes: int = 1 << 20
    step_factor: int = 1
    iterations: int = 20
    warmup_iterations: int = 1
    aggregated_iterations: int = 1
    run_cycles: int = 1
    check_iterations: int = 1
    op: str = "sum"
    dtype: str = "float"
    root: int | None = 0
    """None: every rank in turn."""
    blocking: bool = False
    stream_null: bool = False
    timeout_s: int = 0
    report_cpu_time: bool = False
    report_timestamps: bool = False
    per_iteration: bool = False
    average: int = 1
    """Which rank's time is shown: 0 rank 0's, 1 the average, 2 the smallest, 3 the largest."""
    output_file: str | None = None
    show_knobs: bool = False
    knobs: Knobs = field(default_factory=Knobs)
    plan: str | None = None

    def __post_init__(self) -> None:
        if self.max_bytes < self.min_bytes:
            raise ValueError(f"the largest size (-e {self.max_bytes}) is below the smallest (-b {self.min_bytes})")
        for name, value, least in (
            ("-n", self.iterations, 1),
            ("-w", self.warmup_iterations, 0),
            ("-m", self.aggregated_iterations, 1),
            ("-N", self.run_cycles, 0),
            ("-c", self.check_iterations, 0),
            ("-i", self.step_bytes, 0),
            ("-f", self.step_factor, 1),
            ("-T", self.timeout_s, 0),
        ):
            if value < least:
                raise ValueError(f"{name} {value}: must be {least} or more")
        if self.step_factor == 1 and self.step_bytes == 0:
            raise ValueError("-i 0 without -f 2 or more: the size would never grow")
        if self.min_bytes == 0 and self.step_factor > 1 and self.max_bytes > 0:
            raise ValueError(f"-b 0 with -f {self.step_factor}: the size would never grow")
        if self.dtype != "all" and self.dtype not in DTYPE_NAMES:
            raise ValueError(f"-d {self.dtype}: one of {', '.join(DTYPE_NAMES)}, all")
        if self.op != "all" and self.op not in OP_NAMES:
            raise ValueError(f"-o {self.op}: one of {', '.join(OP_NAMES)}, all")
        if not 0 <= self.average <= 3:
            raise ValueError(f"-a {self.average}: 0 (rank 0), 1 (average), 2 (smallest) or 3 (largest)")
        if self.output_file is not None and not self.output_file.endswith(".json"):
            raise ValueError(f"-J {self.output_file}: only .json can be written")
        if self.plan is not None and self.knobs != Knobs():
            raise ValueError("--plan and single knobs exclude each other")

    @property
    def multiplies(self) -> bool:
        """Whether sizes grow by a factor, and not by a number of bytes."""
        return self.step_factor > 1

    def sizes(self) -> Iterator[int]:
        """The sizes to run, in bytes, smallest first; they may be very many."""
        size = self.min_bytes
        while size <= self.max_bytes:
            yield size
            size = size * self.step_factor if self.multiplies else size + self.step_bytes
