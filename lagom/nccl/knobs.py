# SPDX-License-Identifier: Apache-2.0
"""Knobs and the rules that carry them to collectives.

Rules are checked here by the same C code that checks a plan; what a communicator allows beyond that (its channels,
its buffers, what it is connected for) is checked by NCCL at the call, which fails by name and launches nothing.
"""

from dataclasses import dataclass, field, fields
from typing import Any

from . import _plan
from ._plan import PlanError
from .checks import whole

UNSET = -1
_MOST = {"min_bytes": 2**63 - 1, "max_bytes": 2**63 - 1, "n_nodes": 2**31 - 1, "n_ranks": 2**31 - 1}
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
RuleTuple = tuple[int, ...]


@dataclass(frozen=True)
class Knobs:
    """What one collective is to run with. None leaves a knob to NCCL.

    ``algorithm``: "ring", "tree", ...; ``protocol``: "ll", "ll128", "simple"; ``channels``: CTAs that run the
    collective, 1 to 64; ``threads``: threads of each CTA, a multiple of 32; ``chunk_bytes``: bytes passed on at once
    in a channel, a multiple of the protocol's grain. ValueError for a name that does not exist.
    """

    algorithm: str | None = None
    protocol: str | None = None
    channels: int | None = None
    threads: int | None = None
    chunk_bytes: int | None = None

    def __post_init__(self) -> None:
        _code(self.algorithm, "algorithm", _plan.algorithm_code, _plan.algorithm_name)
        _code(self.protocol, "protocol", _plan.protocol_code, _plan.protocol_name)
        for name in ("channels", "threads", "chunk_bytes"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31):
                wanted = f"a whole number from 1 to {2**31 - 1}, or None to leave it to NCCL"
                raise ValueError(f"{name} is {value!r}; allowed is {wanted}")

    def __str__(self) -> str:
        set_ones = [f"{f.name}={getattr(self, f.name)}" for f in fields(self) if getattr(self, f.name) is not None]
        return " ".join(set_ones) or "NCCL's choice"

    def as_tuple(self) -> tuple[int, ...]:
        """(algorithm, protocol, channels, threads, chunk bytes) in NCCL's numbers, -1 where not set."""
        return (
            _code(self.algorithm, "algorithm", _plan.algorithm_code, _plan.algorithm_name),
            _code(self.protocol, "protocol", _plan.protocol_code, _plan.protocol_name),
            UNSET if self.channels is None else self.channels,
            UNSET if self.threads is None else self.threads,
            UNSET if self.chunk_bytes is None else self.chunk_bytes,
        )

    @classmethod
    def from_tuple(cls, numbers: tuple[int, ...]) -> "Knobs":
        """The reverse of :meth:`as_tuple`."""
        algorithm, protocol, channels, threads, chunk_bytes = numbers
        return cls(
            None if algorithm == UNSET else _plan.algorithm_name(algorithm),
            None if protocol == UNSET else _plan.protocol_name(protocol),
            None if channels == UNSET else channels,
            None if threads == UNSET else threads,
            None if chunk_bytes == UNSET else chunk_bytes,
        )


@dataclass(frozen=True)
class Rule:
    """Calls that match get the knobs; the first rule that matches wins.

    ``collective``: "all_reduce", "all_gather", "reduce_scatter", "broadcast" or "reduce". ``min_bytes`` and
    ``max_bytes`` are inclusive, -1 for no end; bytes are those of the larger buffer (all-gather, reduce-scatter: the
    total over ranks). ``n_nodes`` and ``n_ranks``: -1 for any. ValueError, with the field and what is allowed, for a
    rule that nothing could run.
    """

    collective: str
    min_bytes: int = UNSET
    max_bytes: int = UNSET
    n_nodes: int = UNSET
    n_ranks: int = UNSET
    knobs: Knobs = field(default_factory=Knobs)
    line: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        for name, most in _MOST.items():
            whole(getattr(self, name), f"rule for {self.collective}: {name}", UNSET, most)
        problem = _plan.check(self.as_tuple())
        if problem is not None:
            column, reason = problem
            raise ValueError(f"rule for {self.collective}: {f'{column}: ' if column else ''}{reason}")

    def as_tuple(self) -> RuleTuple:
        """Flat form, in the order of cython/native/rules.pxi."""
        code = _plan.collective_code(self.collective.replace("_", ""))
        if self.collective not in COLLECTIVES or code < 0:
            raise ValueError(f"unknown collective {self.collective!r}; one of {', '.join(COLLECTIVES)}")
        match = (code, self.min_bytes, self.max_bytes, self.n_nodes, self.n_ranks, UNSET, UNSET, self.line)
        return match + self.knobs.as_tuple()

    @classmethod
    def from_tuple(cls, numbers: RuleTuple) -> "Rule":
        """The reverse of :meth:`as_tuple`."""
        code, min_bytes, max_bytes, n_nodes, n_ranks, _, _, line = numbers[:8]
        return cls(collective_name(code), min_bytes, max_bytes, n_nodes, n_ranks, Knobs.from_tuple(numbers[8:]), line)


def collective_name(code: int) -> str:
    """The name with underscores of NCCL's collective ``code``."""
    plain = _plan.collective_name(code)
    return next(name for name in COLLECTIVES if name.replace("_", "") == plain)


def _code(name: str | None, what: str, code_of: Any, name_of: Any) -> int:
    if name is None:
        return UNSET
    code = int(code_of(name)) if isinstance(name, str) else UNSET
    if code == UNSET:
        known: list[str] = []
        while (text := name_of(len(known))) is not None:
            known.append(text)
        raise ValueError(f"unknown {what} {name!r}; one of {', '.join(known)}")
    return code


__all__ = ["COLLECTIVES", "Knobs", "PlanError", "Rule"]
