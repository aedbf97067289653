# SPDX-License-Identifier: Apache-2.0
"""What the matrix runs: cells (path, type, operation), their cases, and one batch of cases on the device.

Memory is one arena a direction, where every case of a batch has its buffer between guards; unaligned on purpose.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import lagom.nccl as nccl
from lagom.bench.collectives import COLLECTIVES, Call, Counts
from lagom.bench.patterns import Array, Pattern
from lagom.nccl import Communicator, DeviceBuffer, NcclError, ReductionOp, Stream

FOUR_MIB = "4MiB"
SIZES: tuple[int | str, ...] = (0, 1, 3, 1000, 65537, FOUR_MIB)
FIRST_SIZE = 1000
GUARD_BYTES = 256
GUARD, UNWRITTEN = 0x5C, 0xA5
# Buffers begin so many elements behind a multiple of 256 bytes, in turn.
_SHIFTS = (0, 1, 3)
_ALIGNMENT_BYTES = 256
_MOST_CASES = 24


class Path(NamedTuple):
    """What is forced: None for collectives that have no algorithms."""

    collective: str
    algorithm: str | None
    protocol: str | None

    def __str__(self) -> str:
        return " ".join(word for word in self if word)


class Case(NamedTuple):
    path: Path
    dtype: str
    op: str | None
    size: int | str
    salt: int = 0

    @property
    def number(self) -> int:
        """The same for the same case everywhere; chooses root, place and alignment."""
        return zlib.crc32(f"{self.path} {self.dtype} {self.op} {self.size} {self.salt}".encode())

    @property
    def in_place(self) -> bool:
        return COLLECTIVES[self.path.collective].in_place and bool(self.number & 1)

    @property
    def count(self) -> int:
        return (4 << 20) // nccl.dtype(self.dtype).itemsize if self.size == FOUR_MIB else int(self.size)

    def counts(self, ranks: int) -> Counts:
        return COLLECTIVES[self.path.collective].counts_of_share(self.count, ranks)

    def nbytes(self, ranks: int) -> int:
        """Room for the larger buffer with its guards."""
        counts = self.counts(ranks)
        return max(counts.send, counts.recv) * nccl.dtype(self.dtype).itemsize + 3 * _ALIGNMENT_BYTES + 2 * GUARD_BYTES

    def __str__(self) -> str:
        place = "in place" if self.in_place else "out of place"
        return f"{self.path} {self.dtype} {self.op or '-'} {self.size} elements {place}"


def batches(cases: list[Case], ranks: int, room_bytes: int) -> Iterator[list[Case]]:
    """Parts of ``cases`` that fit into ``room_bytes``."""
    batch: list[Case] = []
    used = 0
    for case in cases:
        need = case.nbytes(ranks)
        if batch and (used + need > room_bytes or len(batch) == _MOST_CASES):
            yield batch
            batch, used = [], 0
        batch.append(case)
        used += need
    if batch:
        yield batch


class Arena:
    """Device memory with its image on the host, which is the memory itself where the two share it."""

    def __init__(self, nbytes: int, *, by_nccl: bool = False) -> None:
        self.memory = (nccl.mem_alloc if by_nccl else nccl.empty)(nbytes, "uint8")
        self._shared = nccl.library().hostcuda
        self.image: Array = self.memory.numpy() if self._shared else np.empty(nbytes, np.uint8)
        self._used = 0

    def clear(self) -> None:
        self._used = 0

    def place(self, count: int, dtype: str, shift: int) -> "Slot":
        """Unwritten room for ``count`` elements between guards."""
        itemsize = nccl.dtype(dtype).itemsize
        start = self._used + GUARD_BYTES + shift * itemsize
        stop = start + count * itemsize
        end = stop + GUARD_BYTES
        self.image[start - GUARD_BYTES : end] = GUARD
        self.image[start:stop] = UNWRITTEN
        self._used = (end + _ALIGNMENT_BYTES - 1) // _ALIGNMENT_BYTES * _ALIGNMENT_BYTES
        return Slot(self, start, stop, dtype)

    def upload(self, stream: Stream) -> None:
        if not self._shared:
            self.memory[: self._used].from_host(self.image[: self._used], stream)

    def download(self, stream: Stream) -> None:
        if not self._shared:
            self.image[: self._used] = self.memory[: self._used].to_host(stream)


@dataclass(frozen=True)
class Slot:
    """One buffer of one case."""

    arena: Arena
    start: int
    stop: int
    dtype: str

    @property
    def buffer(self) -> DeviceBuffer:
        return self.arena.memory[self.start : self.stop].view(self.dtype)

    def touched(self) -> bool:
        """Whether a guard was written to."""
        before = self.arena.image[self.start - GUARD_BYTES : self.start]
        behind = self.arena.image[self.stop : self.stop + GUARD_BYTES]
        return bool((before != GUARD).any() or (behind != GUARD).any())

    def seen(self, buffer: DeviceBuffer) -> Array:
        """What ``buffer``, a part of this slot, holds."""
        start = self.start + buffer.address - self.buffer.address
        return self.arena.image[start : start + buffer.nbytes].view(buffer.dtype.numpy)


class Job:
    """One case in flight."""

    def __init__(self, comm: Communicator, case: Case, arenas: tuple[Arena, Arena]) -> None:
        self.case = case
        self.collective = COLLECTIVES[case.path.collective]
        self.pattern = Pattern(nccl.dtype(case.dtype), case.op, comm.size)
        self.counts = case.counts(comm.size)
        self.root = case.number // 2 % comm.size
        self.refused: str | None = None
        whole = max(self.counts.send, self.counts.recv)
        shift = _SHIFTS[case.number // 16 % len(_SHIFTS)]
        self.slots = (
            arenas[0].place(0 if case.in_place else self.counts.send, case.dtype, shift),
            arenas[1].place(whole if case.in_place else self.counts.recv, case.dtype, shift),
        )
        self.send, self.recv = self.collective.buffers(
            self.slots[0].buffer, self.slots[1].buffer, self.counts, comm.rank, case.in_place
        )
        self.sent = self.collective.sent(self.pattern, comm.rank, self.counts, self.root)
        if self.sent is not None:
            self.slots[1 if case.in_place else 0].seen(self.send)[:] = self.sent

    def launch(self, comm: Communicator, op: str | ReductionOp, stream: Stream) -> None:
        try:
            self.collective.launch(comm, Call(self.send, self.recv, op, self.root, stream))
        except NcclError as error:
            self.refused = error.text or error.name

    def problem(self, rank: int) -> str | None:
        """None, or what is wrong on this rank."""
        if self.slots[0].touched() or self.slots[1].touched():
            return "memory beside the buffers was written to"
        kept = self.sent is not None and not self.case.in_place
        if kept and self.slots[0].seen(self.send).tobytes() != self.sent.tobytes():
            return "the sent data changed"
        expected = self.collective.expected(self.pattern, rank, self.counts, self.root)
        if expected is None:
            return None
        got = self.slots[1].seen(self.recv)
        return self.pattern.fault(got, expected) or self._falsified(got, expected)

    def _falsified(self, got: Array, expected: Array) -> str | None:
        """The same comparison with one element changed must see it."""
        if not got.size:
            return None
        words: Any = got.view(f"u{got.itemsize}")
        at = self.case.number % got.size
        words[at] ^= words.dtype.type(1 << (8 * got.itemsize - 2))
        return None if self.pattern.wrong(got, expected) == 1 else "a changed element was not seen"
