# SPDX-License-Identifier: Apache-2.0
"""A first linear search over channels and chunk, one step at a time where it costs computation least.

A communication's allocation is its number of channels and its chunk. All communications start with the smallest one.
Each round gives one more step of one knob to one communication: the step whose last one had the smallest

    H = (Y' - Y) / (x - x')

compute time lost per communication time gained (x of that communication, Y of the group; the prime marks the time after
the step). Steps that were never tried come first. A step that gains nothing closes its knob. The cost is linear in
the number of communications, since every round measures once and no combination is enumerated.

It ends in one of three ways: the smallest allocation is already hidden behind the computation; communication has come
down to the interfered compute time; or every knob is closed while communication is still exposed. What is left of the
budget goes to the neighbours of the best setting, because H follows x and Y and not the makespan itself: one step of
one knob, or a step more of one for a step less of the other.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace

from lagom.device import CommunicationUse, Device, Measurement, Refused
from lagom.nccl import Knobs
from lagom.strategies.result import EQUAL_SHARE, Budget, BudgetSpent, Ledger, Observer, Result, StrategyError, measured
from lagom.strategies.space import CHANNELS, chunk_ladder
from lagom.workload import Workload

#: A step must shorten its communication by this share to count as a gain.
MIN_GAIN = 0.005

#: SM time saved at an equal makespan, for which the search walks on.
MIN_SM_GAIN = 0.05

AXES = ("channels", "chunk")


@dataclass
class _Allocation:
    """Where one class of communications stands on its two ladders."""

    members: tuple[int, ...]
    base: Knobs
    ladders: dict[str, tuple[int, ...]]
    level: dict[str, int] = field(default_factory=lambda: dict.fromkeys(AXES, 0))
    priority: dict[str, float] = field(default_factory=lambda: dict.fromkeys(AXES, float("-inf")))
    closed: set[str] = field(default_factory=set)

    def knobs(self, level: dict[str, int]) -> Knobs:
        channels = self.ladders["channels"][level["channels"]]
        chunks = self.ladders["chunk"]
        return replace(self.base, channels=channels, chunk_bytes=chunks[level["chunk"]] if chunks else None)

    def level_below(self, ran: Knobs) -> dict[str, int]:
        """The highest level that is no larger than what ran, which NCCL may have chosen off the ladders."""
        values = {"channels": ran.channels or 0, "chunk": ran.chunk_bytes or 0}
        return {axis: max(0, bisect_right(self.ladders[axis], values[axis]) - 1) for axis in AXES}

    def cut(self, axis: str, refused: dict[str, int]) -> None:
        """End a ladder below a step that the library refused; what is larger it would refuse as well."""
        self.ladders[axis] = self.ladders[axis][: refused[axis]]

    def moved(self, **steps: int) -> dict[str, int] | None:
        """The level after so many steps along each axis, None past an end of a ladder."""
        target = {axis: self.level[axis] + steps.get(axis, 0) for axis in AXES}
        inside = all(0 <= target[axis] < len(self.ladders[axis]) for axis in AXES if axis in steps)
        return target if inside else None


def _allocations(workload: Workload, ranks: int, uses: tuple[CommunicationUse, ...]) -> list[_Allocation]:
    """One allocation for each class of communications, in the subspace that NCCL chose for its first member.

    Algorithm, protocol and threads stay as the default ran them; searching across them comes later.
    """
    allocations = []
    for members in workload.call_classes(ranks):
        ran = uses[members[0]].knobs
        if ran.algorithm is None or ran.protocol is None:
            raise StrategyError(f"the default run of communication {members[0]} does not say what it ran with")
        chunks = chunk_ladder(ran.algorithm, ran.protocol)
        base = replace(ran, channels=None, chunk_bytes=None)
        allocations.append(_Allocation(members, base, {"channels": CHANNELS, "chunk": chunks}))
    return allocations


@dataclass
class _Search:
    ledger: Ledger
    allocations: list[_Allocation]

    def knob_map(self, changed: _Allocation | None = None, level: dict[str, int] | None = None) -> dict[int, Knobs]:
        """Knobs of all communications, with one class at another level than it stands."""
        knobs: dict[int, Knobs] = {}
        for allocation in self.allocations:
            at = level if allocation is changed and level is not None else allocation.level
            knobs.update(dict.fromkeys(allocation.members, allocation.knobs(at)))
        return knobs

    def time_of(self, allocation: _Allocation, measurement: Measurement) -> float:
        return sum(measurement.x_us[index] for index in allocation.members)

    def names(self, allocation: _Allocation) -> str:
        return ", ".join(self.ledger.workload.communications[index].name for index in allocation.members)

    def start(self) -> Measurement | None:
        """Measure the smallest allocation, stepping over chunks that the library refuses."""
        while True:
            trial = self.ledger.run(self.knob_map(), "smallest allocation")
            if isinstance(trial.outcome, Measurement):
                return trial.outcome
            # Which of several communications was refused is in the text only, so all of them move up together.
            moved = [(a, level) for a in self.allocations if (level := a.moved(chunk=+1)) is not None]
            if not moved:
                return None
            for allocation, level in moved:
                allocation.level = level

    def climb(self, current: Measurement) -> str:
        """Give steps until one of the endings; returns it in words."""
        if current.communication_us <= current.y_us:
            return "the smallest allocation is already hidden behind the computation"
        while True:
            open_steps = [
                (allocation.priority[axis], position, number, axis)
                for number, allocation in enumerate(self.allocations)
                for position, axis in enumerate(AXES)
                if axis not in allocation.closed and allocation.moved(**{axis: +1}) is not None
            ]
            if not open_steps:
                return "the largest useful allocation still leaves communication exposed"
            _, _, number, axis = min(open_steps)
            allocation = self.allocations[number]
            level = allocation.moved(**{axis: +1})
            assert level is not None
            note = f"more {axis} for {self.names(allocation)}"
            trial = self.ledger.run(self.knob_map(allocation, level), note)
            if isinstance(trial.outcome, Refused):
                allocation.cut(axis, level)
                continue
            before, after = self.time_of(allocation, current), self.time_of(allocation, trial.outcome)
            gained = before - after
            if gained < MIN_GAIN * before:
                allocation.closed.add(axis)
                continue
            allocation.priority[axis] = (trial.outcome.y_us - current.y_us) / gained
            allocation.level = level
            current = trial.outcome
            if current.communication_us <= current.y_us:
                return "communication has come down to the interfered compute time"

    def polish(self) -> None:
        """Walk from the best setting to its neighbours as long as one of them is shorter."""
        while self.step_from_best():
            pass

    def step_from_best(self) -> bool:
        """Try the neighbours of the best setting until one of them is worth a walk on."""
        now = measured(self.ledger.trials[self.ledger.best()])
        # Where communication is exposed, giving it more comes first; where it is hidden, taking some back.
        sign = 1 if now.communication_us > now.y_us else -1
        moves = ({"channels": sign}, {"chunk": sign}, {"channels": 1, "chunk": -1}, {"channels": -1, "chunk": 1})
        for allocation in self.allocations:
            allocation.level = allocation.level_below(now.use[allocation.members[0]].knobs)
        for allocation in self.allocations:
            for move in (*moves, {"channels": -sign}, {"chunk": -sign}):
                if (level := allocation.moved(**move)) is None:
                    continue
                note = f"near the best, for {self.names(allocation)}"
                trial = self.ledger.run(self.knob_map(allocation, level), note)
                if isinstance(trial.outcome, Refused):
                    for axis in (axis for axis, steps in move.items() if steps > 0 and len(move) == 1):
                        allocation.cut(axis, level)
                elif worth_it(now, measured(self.ledger.trials[self.ledger.best()])):
                    return True
        return False


def worth_it(before: Measurement, after: Measurement) -> bool:
    """Whether a best setting is so much better than the one before that its neighbours may be better still."""
    return after.z_us < (1 - EQUAL_SHARE) * before.z_us or after.sm_us < (1 - MIN_SM_GAIN) * before.sm_us


def linear(workload: Workload, device: Device, budget: Budget, observe: Observer | None = None) -> Result:
    """Search channels and chunk of every communication; see the module for how."""
    ledger = Ledger(workload, device, budget, observe)
    default = ledger.run_default()
    search = _Search(ledger, _allocations(workload, device.ranks, default.use))
    ending = "the budget was spent"
    try:
        smallest = search.start()
        if smallest is None:
            return ledger.result("linear", "the library refused every smallest allocation")
        ending = search.climb(smallest)
        search.polish()
    except BudgetSpent:
        pass
    return ledger.result("linear", ending)
