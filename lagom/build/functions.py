# SPDX-License-Identifier: Apache-2.0
"""NCCL's device functions by name, and the patterns that choose among them (the syntax of NCCL's ONLY_FUNCS).

A function is `SendRecv`, `<AllGather|AllGatherV|Broadcast> <algo> <proto>` or
`<AllReduce|Reduce|ReduceScatter> <redop> <type> <algo> <proto>`. Beside them, `Symmetric AllGather` and
`Symmetric <AllReduce|ReduceScatter> Sum <type>` stand for the symmetric kernels of a collective and type; `Symmetric`
alone for all of them. A pattern is one or more of these forms joined by `|`, where `*` stands for any run of characters
inside a word and `(a|b)` for either. Case does not matter.
"""

import re
from collections.abc import Iterable
from functools import cache

from .errors import BuildError

REDOPS = ("Sum", "Prod", "MinMax", "PreMulSum", "SumPostDiv")
TYPES = ("i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64", "bf16", "f8e4m3", "f8e5m2")
PROTOCOLS = ("LL", "LL128", "SIMPLE")
ALGORITHMS = {
    "AllGather": ("RING", "COLLNET_DIRECT", "NVLS", "PAT"),
    "AllGatherV": ("RING",),
    "AllReduce": ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE"),
    "Broadcast": ("RING",),
    "Reduce": ("RING",),
    "ReduceScatter": ("RING", "COLLNET_DIRECT", "NVLS", "PAT"),
}
REDUCING = ("AllReduce", "Reduce", "ReduceScatter")
SYMMETRIC = "Symmetric"
SYMMETRIC_TYPES = ("f32", "f16", "bf16", "f8e4m3", "f8e5m2")
_SYMMETRIC_UNIT = re.compile(r"(all_gather|all_reduce|reduce_scatter)(?:_gin)?(?:_sum_(\w+?))?(?:_[A-Z]\w*)?\.cu")
_NVLS_TYPES = {
    "Sum": {"i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"},
    "MinMax": {"i32", "u32", "i64", "u64", "f16", "bf16"},
}


@cache
def functions() -> tuple[str, ...]:
    """Every function that NCCL 2.29.7 can be built with, for any GPU."""
    names = ["SendRecv"]
    for collective, algorithms in ALGORITHMS.items():
        for algorithm in algorithms:
            for protocol in PROTOCOLS if algorithm in ("RING", "TREE") else ("SIMPLE",):
                if collective not in REDUCING:
                    names.append(f"{collective} {algorithm} {protocol}")
                    continue
                for redop in REDOPS:
                    for dtype in TYPES:
                        if redop == "SumPostDiv" and dtype[0] not in "iu":
                            continue
                        if "NVLS" in algorithm and dtype not in _NVLS_TYPES.get(redop, ()):
                            continue
                        names.append(f"{collective} {redop} {dtype} {algorithm} {protocol}")
    return tuple(names)


@cache
def symmetric() -> tuple[str, ...]:
    """What the symmetric kernels are chosen by: a collective, with operation and type where it reduces."""
    reducing = [
        f"{SYMMETRIC} {name} Sum {dtype}" for name in ("AllReduce", "ReduceScatter") for dtype in SYMMETRIC_TYPES
    ]
    return (f"{SYMMETRIC} AllGather", *reducing)


def everything() -> tuple[str, ...]:
    """All that NCCL 2.29.7 can be built with."""
    return (*functions(), *symmetric())


def symmetric_name(unit: str) -> str | None:
    """The name in `symmetric()` that the generated file `unit` belongs to; None for a file without kernels."""
    parts = _SYMMETRIC_UNIT.fullmatch(unit)
    if not parts:
        return None
    collective = parts[1].title().replace("_", "")
    name = f"{SYMMETRIC} {collective} Sum {parts[2]}" if parts[2] else f"{SYMMETRIC} {collective}"
    return name if name in symmetric() else None


def default(arch: int) -> tuple[str, ...]:
    """What a host build holds unless told otherwise: all that GPUs of that generation can run, but nothing for CollNet.

    CollNet needs a network plug-in that reduces, and NCCL offers it only where there is one. NVLink SHARP and 8-bit floats
    came with compute capability 9.0. `arch`: compute capability times 100 (800, 900, 1000).
    """
    return tuple(
        name
        for name in everything()
        if "COLLNET" not in name and (arch >= 900 or (" f8" not in name and "NVLS" not in name))
    )


def _alternatives(pattern: str) -> list[str]:
    """Split at the `|` that stand outside parentheses."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(pattern):
        depth += (char == "(") - (char == ")")
        if depth < 0:
            break
        if char == "|" and depth == 0:
            parts.append(pattern[start:at])
            start = at + 1
    if depth != 0:
        raise BuildError(f"functions pattern {pattern!r}: unbalanced parentheses")
    return [*parts, pattern[start:]]


def select(pattern: str) -> tuple[str, ...]:
    """The functions that `pattern` matches. BuildError for an alternative that matches none, with the reason."""
    chosen: set[str] = set()
    for alternative in _alternatives(pattern):
        words = alternative.split()
        if not words:
            raise BuildError(f"functions pattern {pattern!r}: an alternative is empty")
        if not re.fullmatch(r"[\w*()| ]+", alternative):
            raise BuildError(
                f"functions pattern {alternative!r}: only words, spaces, '*', '(', '|' and ')' are allowed"
            )
        expression = re.compile(" ".join(words).replace("*", "[^ ]*"), re.IGNORECASE)
        found = [name for name in everything() if expression.fullmatch(name)]
        if expression.fullmatch(SYMMETRIC):
            found += symmetric()
        if not found:
            raise BuildError(f"functions pattern {alternative!r} matches no function: {_why(words)}")
        chosen.update(found)
    return tuple(name for name in everything() if name in chosen)


def _why(words: list[str]) -> str:
    """What an alternative that matches nothing should have looked like."""
    for collective in (*ALGORITHMS, "SendRecv"):
        if words[0].lower() == collective.lower():
            if collective == "SendRecv":
                return "it stands alone"
            form = ["<redop>", "<type>"] if collective in REDUCING else []
            form += ["<algo>", "<proto>"]
            return (
                f"the form is '{' '.join([collective, *form])}' with algo of {', '.join(ALGORITHMS[collective])}, "
                f"proto of {', '.join(PROTOCOLS)}"
                + (f", redop of {', '.join(REDOPS)}, type of {', '.join(TYPES)}" if collective in REDUCING else "")
            )
    if words[0].lower() == SYMMETRIC.lower():
        return (
            f"the forms are '{SYMMETRIC}', '{SYMMETRIC} AllGather' and '{SYMMETRIC} <AllReduce|ReduceScatter> Sum <type>' "
            f"with type of {', '.join(SYMMETRIC_TYPES)}"
        )
    return f"collectives are {', '.join((*ALGORITHMS, 'SendRecv'))}; the symmetric kernels are {SYMMETRIC}"


def only_funcs(names: Iterable[str]) -> str:
    """A pattern for NCCL's generate.py that matches exactly `names`, but for the symmetric kernels, which it knows not.

    Its own matching ties only the last alternative to the end of a name, hence one pair of parentheses around all.
    """
    return "(" + "|".join(name for name in names if not name.startswith(SYMMETRIC)) + ")"
