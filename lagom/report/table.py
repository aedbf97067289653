# SPDX-License-Identifier: Apache-2.0
"""The table of a session: NCCL's default beside the tuned run."""

from __future__ import annotations

from collections.abc import Callable

from rich import box
from rich.table import Table

from lagom.device import CommunicationUse, Measurement, Refused
from lagom.report.units import change, size, time
from lagom.strategies import Trial
from lagom.tuning import Session
from lagom.workload import Workload


def comparison(session: Session) -> Table:
    """Times and knobs, default against tuned. Every number was measured in this session."""
    before, after = session.default, session.tuned
    title = f"{session.workload.name}, {session.ranks} ranks, {session.where}"
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("")
    table.add_column("NCCL default", justify="right")
    table.add_column("default kept" if session.kept else "tuned (plan preloaded)", justify="right")
    table.add_column("change", justify="right")

    def times(label: str, value: Callable[[Measurement], float]) -> None:
        old, new = value(before), value(after)
        table.add_row(label, time(old), time(new), change(old, new))

    times("communication", lambda m: m.communication_us)
    if len(before.x_us) > 1:
        for index, communication in enumerate(session.workload.communications):
            times(f"  {communication.name}", lambda m, i=index: m.x_us[i])  # type: ignore[misc]
    times("compute", lambda m: m.y_us)
    times("makespan", lambda m: m.z_us)
    times("exposed communication", lambda m: m.exposed_us)
    for index, communication in enumerate(session.workload.communications):
        table.add_section()
        _uses(table, communication.name, before.use[index], after.use[index])
    return table


def _uses(table: Table, name: str, before: CommunicationUse, after: CommunicationUse) -> None:
    old, new = before.knobs, after.knobs

    def row(label: str, was: object, now: object, changed: str = "") -> None:
        table.add_row(label, _shown(was), _shown(now), changed or ("same" if was == now else ""))

    row(name, f"{_shown(old.algorithm)} {_shown(old.protocol)}", f"{_shown(new.algorithm)} {_shown(new.protocol)}")
    row("  channels", old.channels, new.channels)
    row("  threads a channel", old.threads, new.threads)
    row("  chunk", size(old.chunk_bytes), size(new.chunk_bytes))
    row("  SMs held", before.sms, after.sms)
    table.add_row("  SM time", time(before.sm_us), time(after.sm_us), change(before.sm_us, after.sm_us))


def _shown(value: object) -> str:
    return "varies" if value is None else str(value)


def trial_line(number: int, workload: Workload, trial: Trial) -> str:
    """One line on a trial, for a log."""
    knobs = "; ".join(
        f"{workload.communications[index].name} {knobs.channels} channels x {size(knobs.chunk_bytes)}"
        for index, knobs in trial.knobs.items()
    )
    asked = knobs or "NCCL default"
    if isinstance(trial.outcome, Refused):
        return f"{number:3d}  refused with {asked}: {trial.outcome.reason}"
    m = trial.outcome
    times = f"makespan {time(m.z_us)}, communication {time(m.communication_us)}, compute {time(m.y_us)}"
    return f"{number:3d}  {times} with {asked}"
