# SPDX-License-Identifier: Apache-2.0
"""Why the tuned run differs from the default, in a sentence made of what was measured."""

from __future__ import annotations

from lagom.device import CommunicationUse, Measurement
from lagom.report.units import size
from lagom.strategies.result import EQUAL_SHARE
from lagom.tuning import Session


def _in_flight(use: CommunicationUse) -> int | None:
    if use.knobs.channels is None or use.knobs.chunk_bytes is None:
        return None
    return use.knobs.channels * use.knobs.chunk_bytes


def _knob_changes(name: str, before: CommunicationUse, after: CommunicationUse) -> str:
    """What changed for one communication; empty where nothing did."""
    changes = []
    if after.sms != before.sms:
        changes.append(f"holds {after.sms} SMs instead of {before.sms}")
    old, new = before.knobs.chunk_bytes, after.knobs.chunk_bytes
    if old != new:
        changes.append(f"passes on {size(new)} at a time instead of {size(old)}")
    if not changes:
        return ""
    flying_before, flying_after = _in_flight(before), _in_flight(after)
    if flying_before is None or flying_after is None:
        return f"{name} {' and '.join(changes)}"
    return f"{name} {' and '.join(changes)}, {size(flying_after)} in flight instead of {size(flying_before)}"


def _share(before: float, after: float) -> str:
    return f"{abs(after / before - 1):.0%} {'less' if after < before else 'more'}"


def _effect(what: str, before: float, after: float) -> str | None:
    if round(before, 3) == round(after, 3):
        return None
    word = "shorter" if after < before else "longer"
    return f"{what} is {abs(before - after):,.1f} us {word}"


def explain(session: Session) -> str:
    """One or two sentences; for a kept default, that it was kept and why."""
    before, after = session.default, session.tuned
    if session.kept:
        return f"NCCL's default is kept: {session.why_kept}."
    changes = [
        _knob_changes(communication.name, old, new)
        for communication, old, new in zip(session.workload.communications, before.use, after.use, strict=True)
    ]
    effects = [
        _effect("computation", before.y_us, after.y_us),
        _effect("communication", before.communication_us, after.communication_us),
        _effect("exposed communication", before.exposed_us, after.exposed_us),
    ]
    told = [effect for effect in effects if effect is not None]
    first = "; ".join(filter(None, changes)) or "the knobs differ in nothing that the counters show"
    return f"{first}. {_sentence(told)}{_verdict(before, after)}"


def _sentence(effects: list[str]) -> str:
    if not effects:
        return ""
    text = ", ".join(effects)
    return f"{text[0].upper()}{text[1:]}; "


def _verdict(before: Measurement, after: Measurement) -> str:
    if abs(before.z_us - after.z_us) <= EQUAL_SHARE * before.z_us:
        return (
            f"the makespan stays the same within {EQUAL_SHARE:.1%}, with {_share(before.sm_us, after.sm_us)} SM time."
        )
    ratio = before.z_us / after.z_us
    return f"the group ends {before.z_us - after.z_us:,.1f} us earlier, {ratio:.3f}x as fast."
