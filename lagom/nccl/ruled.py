# SPDX-License-Identifier: Apache-2.0
"""Knob rules of a communicator."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import _native
from ._native import LibraryError
from .calls import Calls
from .knobs import Rule, RuleTuple, difference

if TYPE_CHECKING:
    from mpi4py import MPI


class Ruled(Calls):
    """Rules, set on all ranks or on none."""

    _mpi_comm: "MPI.Comm | None"

    @property
    def rules(self) -> list[Rule]:
        """Rules in force, those of a preloaded plan included. LibraryError where the library is not patched."""
        return [Rule.from_tuple(numbers) for numbers in _native.get_rules(self._handle)]

    def set_rules(self, rules: Sequence[Rule]) -> None:
        """Replace all rules; call it on every rank, with nothing in flight.

        The ranks compare first (over the MPI communicator given to :func:`init`). If one differs, no rank sets
        anything and every rank raises a ValueError that names rank, rule and field. If NCCL refuses on one rank, the
        old rules come back everywhere and every rank raises.
        """
        if self.size > 1 and self._mpi_comm is None:
            raise LibraryError("set_rules compares the ranks' rules over MPI, and this communicator was made without")
        mine: list[RuleTuple] = []
        before: list[RuleTuple] = []
        failure: Exception | None = None
        # Whatever one rank stumbles over, the others must hear of it: they wait in the comparison.
        try:
            mine = _tuples(rules)
            before = _native.get_rules(self._handle)
        except Exception as error:
            failure = error
        self._raise_first(failure)
        if self._mpi_comm is not None:
            told = difference(self._mpi_comm.allgather(mine))
            if told is not None:
                raise ValueError(f"ranks differ in the rules they set, so no rank has set any: {told}")
        try:
            _native.set_rules(self._handle, mine)
        except Exception as error:
            failure = error
        try:
            self._raise_first(failure)
        except Exception:
            if failure is None:
                _native.set_rules(self._handle, before)
            raise

    def _raise_first(self, failure: Exception | None) -> None:
        """Raise the failure of the first rank that has one, on every rank; call it on every rank."""
        failures = [failure] if self._mpi_comm is None else self._mpi_comm.allgather(failure)
        for rank, cause in enumerate(failures):
            if cause is not None:
                cause.add_note(f"on rank {rank}; all ranks keep their old rules")
                raise cause


def _tuples(rules: Sequence[Rule]) -> list[RuleTuple]:
    for rule in rules:
        if not isinstance(rule, Rule):
            raise TypeError(f"{rule!r} is no lagom.nccl.Rule")
    return [rule.as_tuple() for rule in rules]
