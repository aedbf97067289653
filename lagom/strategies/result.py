# SPDX-License-Identifier: Apache-2.0
"""What a strategy may spend and what it hands back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from lagom.device import Device, KnobMap, Measurement, Outcome, Refused
from lagom.nccl import Knobs
from lagom.workload import Workload

#: Makespans closer than this share count as equal.
EQUAL_SHARE = 0.001


class BudgetSpent(Exception):  # noqa: N818 - the ordinary end of a search, not an error
    """The next measurement would go over the budget."""


class StrategyError(RuntimeError):
    """A search that cannot begin: NCCL's default could not be measured, or the budget has no room for it."""


@dataclass(frozen=True)
class Trial:
    """One setting tried.

    :param knobs: by communication index; empty: NCCL's own choice.
    :param note: why the strategy tried it.
    """

    knobs: Mapping[int, Knobs]
    outcome: Outcome
    note: str


@dataclass(frozen=True)
class Budget:
    """:param measurements: executions of the group, the default's included. Refused settings execute nothing."""

    measurements: int

    def __post_init__(self) -> None:
        if self.measurements < 1:
            raise StrategyError(f"a budget of {self.measurements} measurements is too small, allowed is at least 1")


@dataclass(frozen=True)
class Result:
    """The outcome of a search, with everything it tried.

    :param best: index into `trials` of the setting to use; that of the default where nothing measured better.
    :param ending: why the search stopped, in words.
    """

    strategy: str
    trials: tuple[Trial, ...]
    best: int
    ending: str

    @property
    def default(self) -> Measurement:
        """NCCL's own choice, always the first trial."""
        return measured(self.trials[0])

    @property
    def best_measurement(self) -> Measurement:
        """Never slower than :attr:`default`."""
        return measured(self.trials[self.best])

    @property
    def best_knobs(self) -> Mapping[int, Knobs]:
        """Empty where the default is kept."""
        return self.trials[self.best].knobs

    @property
    def improved(self) -> bool:
        """Whether a setting was found that is shorter than the default, or as short with less SM time."""
        return self.best != 0


class Strategy(Protocol):
    """One search: measures settings within the budget and chooses."""

    def __call__(self, workload: Workload, device: Device, budget: Budget, observe: Observer | None = None) -> Result:
        """Search; `observe` is told of each trial as it is made."""
        ...


Observer = Callable[[Trial], None]


def measured(trial: Trial) -> Measurement:
    """The trial's measurement; a refused one is a mistake of the caller."""
    if isinstance(trial.outcome, Refused):
        raise TypeError(f"trial was refused: {trial.outcome.reason}")
    return trial.outcome


@dataclass
class Ledger:
    """Runs settings on the device, each at most once, and keeps account."""

    workload: Workload
    device: Device
    budget: Budget
    observe: Observer | None = None
    trials: list[Trial] = field(default_factory=list)

    @property
    def spent(self) -> int:
        """Measurements so far."""
        return sum(isinstance(trial.outcome, Measurement) for trial in self.trials)

    def find(self, knobs: KnobMap) -> Trial | None:
        """An earlier trial of exactly these knobs."""
        return next((trial for trial in self.trials if dict(trial.knobs) == dict(knobs)), None)

    def run(self, knobs: KnobMap, note: str) -> Trial:
        """Try a setting, or return its earlier trial.

        :raises BudgetSpent: where it would be one measurement too many.
        """
        if (earlier := self.find(knobs)) is not None:
            return earlier
        if self.spent >= self.budget.measurements:
            raise BudgetSpent
        trial = Trial(MappingProxyType(dict(knobs)), self.device.run(self.workload, knobs), note)
        self.trials.append(trial)
        if self.observe is not None:
            self.observe(trial)
        return trial

    def run_default(self) -> Measurement:
        """Measure NCCL's own choice; always first."""
        trial = self.run({}, "NCCL's default")
        if isinstance(trial.outcome, Refused):
            raise StrategyError(f"the workload cannot run with NCCL's default: {trial.outcome.reason}")
        return trial.outcome

    def best(self) -> int:
        """Index of the shortest makespan.

        Of makespans within :data:`EQUAL_SHARE` of it, the one that holds SMs for the shortest time, but none that is
        longer than the default's; of equal ones the earliest, so that the default wins a tie.
        """
        runs = {i: t.outcome for i, t in enumerate(self.trials) if isinstance(t.outcome, Measurement)}
        limit_us = min((1 + EQUAL_SHARE) * min(m.z_us for m in runs.values()), measured(self.trials[0]).z_us)
        good = [i for i, m in runs.items() if m.z_us <= limit_us]
        return min(good, key=lambda i: (runs[i].sm_us, runs[i].z_us, i))

    def result(self, strategy: str, ending: str) -> Result:
        """Close the account; the best measured setting wins, never one slower than the default."""
        return Result(strategy, tuple(self.trials), self.best(), ending)
