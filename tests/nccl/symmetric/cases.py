# SPDX-License-Identifier: Apache-2.0
"""Calls on memory that is a window, or is not: collective x type x count x alignment x what is registered, and what
NCCL may choose for each."""

import itertools
import random
from collections.abc import Sequence
from typing import NamedTuple

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")
# Symmetric kernels that reduce know sums of these; 8-bit floats besides them from compute capability 9.0 on.
REDUCED = ("float32", "float16", "bfloat16")
REDUCED_8_BIT = ("float8_e4m3fn", "float8_e5m2")
MOVED = ("int8", "int32", "float64", *REDUCED)
COUNTS = (1, 3, 1000, 65537, "1MiB")
# Elements that the buffers begin behind their window's beginning: aligned alike, and not.
SHIFTS = ((0, 0), (1, 1), (3, 0), (0, 5))
BOTH, SEND, RECV, NONE = "both", "send", "recv", "none"
NAMES = {"all_reduce": "AllReduce", "all_gather": "AllGather", "reduce_scatter": "ReduceScatter"}


class Case(NamedTuple):
    collective: str
    dtype: str
    count: int | str
    shift: tuple[int, int]
    registered: str
    in_place: bool
    calls: int  # in one group

    def __str__(self) -> str:
        place = "in place" if self.in_place else "out of place"
        return (
            f"{self.collective} {self.dtype} {self.count} elements at {self.shift}, {self.registered} registered, "
            f"{place}, {self.calls} in a group"
        )


def every(reduced: Sequence[str] = REDUCED) -> list[Case]:
    """All cases; the types that symmetric kernels reduce are `reduced`."""
    cases = []
    for collective in COLLECTIVES:
        dtypes = MOVED if collective == "all_gather" else reduced
        for case in itertools.product(dtypes, COUNTS, SHIFTS, (BOTH, SEND, RECV, NONE), (False, True), (1, 3)):
            made = Case(collective, *case)
            # In place there is one buffer, so it is registered or it is not.
            if not made.in_place or (made.registered in (BOTH, NONE) and made.shift[0] == made.shift[1]):
                cases.append(made)
    return cases


def drawn(cases: list[Case], count: int | None, seed: int) -> list[Case]:
    """`count` of them, drawn at random (None: all), in their own order."""
    if count is None or count >= len(cases):
        return cases
    return [cases[index] for index in sorted(random.Random(seed).sample(range(len(cases)), count))]


def must_be_symmetric(case: Case, forced: str | None) -> str | None:
    """The beginning of the name of the kernel that has to run: None where NCCL may take an ordinary one.

    `forced`: what NCCL_SYM_KERNEL says.
    """
    name = NAMES[case.collective]
    if forced is None:
        return f"ncclSymkDevKernel_{name}_" if case.registered == BOTH else None
    if not forced.startswith(name + "_"):
        return None
    if "LL" in forced:
        possible = case.calls == 1
    else:
        possible = (
            case.registered in {"AllReduce": (BOTH,), "AllGather": (BOTH, RECV), "ReduceScatter": (BOTH, SEND)}[name]
        )
    return f"ncclSymkDevKernel_{forced}" if possible else None
