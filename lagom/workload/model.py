# SPDX-License-Identifier: Apache-2.0
"""What an overlap workload is: computations and communications, in program order, on named streams."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import TypeAlias

#: Bytes of one element, by dtype name as :mod:`lagom.nccl` spells it.
DTYPE_BYTES: dict[str, int] = {
    "int8": 1,
    "uint8": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
}

COLLECTIVES: tuple[str, ...] = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
REDUCING: frozenset[str] = frozenset({"all_reduce", "reduce_scatter", "reduce"})
ROOTED: frozenset[str] = frozenset({"broadcast", "reduce"})
#: Collectives whose buffer is shared out over the ranks, one equal shard each.
SHARDED: frozenset[str] = frozenset({"all_gather", "reduce_scatter"})
REDUCE_OPS: tuple[str, ...] = ("sum", "prod", "max", "min", "avg")

#: More threads, registers or shared memory than any GPU gives a CTA is a mistake in the description.
MAX_THREADS_PER_CTA = 1024
MAX_REGISTERS_PER_THREAD = 255
MAX_SHARED_BYTES_PER_CTA = 228 * 1024


class WorkloadError(ValueError):
    """A workload that cannot be read or makes no sense; the text says where and what is allowed."""


@dataclass(frozen=True)
class KernelSpec:
    """One compute kernel by what it costs; hostcuda accounts for it without running it.

    :param flops: floating point operations of the whole kernel.
    :param bytes_read: bytes read from device memory, after reuse in the L2 cache.
    :param bytes_written: bytes written to device memory.
    :param ctas: thread blocks of the grid.
    :param threads_per_cta: 1 to 1024.
    :param registers_per_thread: 1 to 255.
    :param shared_bytes_per_cta: static and dynamic shared memory of one block, in bytes.
    """

    flops: float
    bytes_read: float
    bytes_written: float
    ctas: int
    threads_per_cta: int
    registers_per_thread: int
    shared_bytes_per_cta: int

    def __post_init__(self) -> None:
        for name, low, high in (
            ("flops", 0, None),
            ("bytes_read", 0, None),
            ("bytes_written", 0, None),
            ("ctas", 1, 2**31 - 1),
            ("threads_per_cta", 1, MAX_THREADS_PER_CTA),
            ("registers_per_thread", 1, MAX_REGISTERS_PER_THREAD),
            ("shared_bytes_per_cta", 0, MAX_SHARED_BYTES_PER_CTA),
        ):
            value = getattr(self, name)
            # The negated comparison also catches NaN.
            if not value >= low or value == float("inf") or (high is not None and value > high):
                limit = f"{low} to {high}" if high is not None else f"a finite number, at least {low}"
                raise WorkloadError(f"{name} is {value}, allowed is {limit}")
        if self.flops + self.bytes_read + self.bytes_written <= 0:
            raise WorkloadError("a kernel without flops and without bytes does nothing")


@dataclass(frozen=True)
class Computation:
    """A kernel at its place in the program.

    :param after: names of earlier operations that must have ended first, beside those of its own stream.
    """

    name: str
    kernel: KernelSpec
    stream: str = "compute"
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Communication:
    """A collective at its place in the program.

    :param count: elements of the whole buffer. For ``all_gather`` and ``reduce_scatter`` that is the sum over all
        ranks' shards; where the ranks do not divide it, it is padded up to a multiple of them, as FSDP pads a flat
        parameter.
    :param op: reduction, for collectives that reduce; otherwise ``None``.
    :param root: for ``broadcast`` and ``reduce``.
    :param after: names of earlier operations that must have ended first, beside those of its own stream.
    """

    name: str
    collective: str
    dtype: str
    count: int
    stream: str = "comm"
    after: tuple[str, ...] = ()
    op: str | None = None
    root: int = 0

    def __post_init__(self) -> None:
        if self.collective not in COLLECTIVES:
            raise WorkloadError(f"unknown collective '{self.collective}', allowed: {', '.join(COLLECTIVES)}")
        if self.dtype not in DTYPE_BYTES:
            raise WorkloadError(f"unknown dtype '{self.dtype}', allowed: {', '.join(DTYPE_BYTES)}")
        if self.count < 1:
            raise WorkloadError(f"count is {self.count}, allowed is at least 1")
        if self.collective in REDUCING:
            if self.op not in REDUCE_OPS:
                raise WorkloadError(f"op of {self.collective} is {self.op!r}, allowed: {', '.join(REDUCE_OPS)}")
        elif self.op is not None:
            raise WorkloadError(f"{self.collective} does not reduce, so it has no op")
        if self.root < 0 or (self.root and self.collective not in ROOTED):
            raise WorkloadError(f"root is {self.root}; only {', '.join(sorted(ROOTED))} have one, from 0")

    def padded_count(self, ranks: int) -> int:
        """Elements of the whole buffer on `ranks` ranks."""
        if self.collective in SHARDED:
            return -(-self.count // ranks) * ranks
        return self.count

    def shard_count(self, ranks: int) -> int:
        """Elements a rank contributes (all_gather) or keeps (reduce_scatter); else the whole buffer."""
        whole = self.padded_count(ranks)
        return whole // ranks if self.collective in SHARDED else whole

    def total_bytes(self, ranks: int) -> int:
        """Bytes by which NCCL sizes the call and plans match it: the larger of the two buffers."""
        return self.padded_count(ranks) * DTYPE_BYTES[self.dtype]


Operation: TypeAlias = Computation | Communication


@dataclass(frozen=True)
class Workload:
    """An overlap group: operations in program order, each on a named stream.

    Streams run in order, and beside each other except where ``after`` says otherwise.

    :param machine: name of the modelled machine the kernels were described for, such as ``a40x8``.
    """

    name: str
    operations: tuple[Operation, ...]
    machine: str = "a40x8"
    description: str = ""
    source: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.operations:
            raise WorkloadError(f"workload '{self.name}' has no operations")
        seen: set[str] = set()
        kind_of_stream: dict[str, type[Computation] | type[Communication]] = {}
        for operation in self.operations:
            if operation.name in seen:
                raise WorkloadError(f"two operations are named '{operation.name}'")
            for name in operation.after:
                if name not in seen:
                    raise WorkloadError(
                        f"operation '{operation.name}' comes after '{name}', which is not an earlier operation"
                    )
            seen.add(operation.name)
            kind = kind_of_stream.setdefault(operation.stream, type(operation))
            if kind is not type(operation):
                raise WorkloadError(
                    f"stream '{operation.stream}' has computations and communications; give each kind its own stream"
                )
        if not self.communications:
            raise WorkloadError(f"workload '{self.name}' has no communication to tune")

    @property
    def communications(self) -> tuple[Communication, ...]:
        """In program order; their positions are the indices by which knobs are given."""
        return tuple(o for o in self.operations if isinstance(o, Communication))

    @property
    def computations(self) -> tuple[Computation, ...]:
        """In program order."""
        return tuple(o for o in self.operations if isinstance(o, Computation))

    @property
    def streams(self) -> tuple[str, ...]:
        """In order of first use."""
        return tuple(dict.fromkeys(o.stream for o in self.operations))

    def call_classes(self, ranks: int) -> tuple[tuple[int, ...], ...]:
        """Communications that a plan cannot tell apart, as tuples of indices.

        A plan's rule matches collective and bytes, so calls that are equal in both share their knobs.
        """
        classes: dict[tuple[str, int], list[int]] = {}
        for index, communication in enumerate(self.communications):
            key = (communication.collective, communication.total_bytes(ranks))
            classes.setdefault(key, []).append(index)
        return tuple(tuple(members) for members in classes.values())

    def check_ranks(self, ranks: int) -> None:
        """Raise :class:`WorkloadError` where the workload cannot run on so many ranks."""
        if ranks < 2:
            raise WorkloadError(f"workload '{self.name}' needs at least 2 ranks to communicate, got {ranks}")
        for communication in self.communications:
            if communication.root >= ranks:
                raise WorkloadError(
                    f"root of '{communication.name}' is {communication.root}, "
                    f"allowed with {ranks} ranks: 0 to {ranks - 1}"
                )

    def digest(self) -> str:
        """Short hash of everything that shapes a measurement; equal on ranks that read the same workload."""
        content = [[type(o).__name__, asdict(o)] for o in self.operations]
        text = json.dumps([self.machine, content], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
