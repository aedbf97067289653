# SPDX-License-Identifier: Apache-2.0
"""Knob rules of a communicator."""

import contextlib
from collections.abc import Sequence

from . import _native
from .calls import Calls
from .groups import COMMUNICATORS, note
from .knobs import Rule, RuleTuple


class Ruled(Calls):
    """Rules, set on all ranks or on none."""

    @property
    def rules(self) -> list[Rule]:
        """Rules in force, those of a preloaded plan included. LibraryError where the library is not patched."""
        return [Rule.from_tuple(numbers) for numbers in _native.get_rules(self._handle)]

    def set_rules(self, rules: Sequence[Rule]) -> None:
        """Replace all rules, from the next collective on; every rank calls it, with work in flight or not.

        NCCL compares the ranks. Where they differ, or one rank's rules cannot be, every rank raises an NcclError (code
        5, ncclInvalidUsage) that names rank and field, and the old rules stay. In a :func:`group` the group's end
        raises. On a communicator that does not block, :meth:`wait_ready` waits and raises. Where a rank does not come
        within ``LAGOM_TIMEOUT_S`` seconds (60): NcclError (code 6, ncclRemoteError), and the communicator can only be
        aborted. TypeError, ValueError: what is no rule, on the rank that passed it.
        """
        note("set_rules", COMMUNICATORS, self._handle)
        try:
            tuples = _tuples(rules)
        except (TypeError, ValueError):
            # The others wait to compare.
            with contextlib.suppress(_native.NcclError):
                _native.set_rules(self._handle, None)
            raise
        _native.set_rules(self._handle, tuples)


def _tuples(rules: Sequence[Rule]) -> list[RuleTuple]:
    for rule in rules:
        if not isinstance(rule, Rule):
            raise TypeError(f"{rule!r} is no lagom.nccl.Rule")
    return [rule.as_tuple() for rule in rules]
