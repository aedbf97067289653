# SPDX-License-Identifier: Apache-2.0
"""A session as one small page: both timelines on one scale, the table and the sentence. It loads nothing."""

from __future__ import annotations

from html import escape

from lagom.device import Measurement, Refused, Span
from lagom.report.explain import explain
from lagom.report.units import change, size, time
from lagom.tuning import Session

_WIDTH, _LANE, _GAP, _LEFT = 900, 26, 6, 110
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1d1d1f}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .8rem;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left}svg{width:100%;height:auto}
.compute{fill:#4c78a8}.communicate{fill:#f58518}
svg text{font:11px system-ui,sans-serif}svg rect+text{fill:#fff;pointer-events:none}
"""


def _lanes(measurement: Measurement) -> list[str]:
    return list(dict.fromkeys(span.stream for span in measurement.spans))


def _bar(span: Span, y: int, scale: float) -> str:
    x, width = _LEFT + span.start_us * scale, max(1.0, (span.end_us - span.start_us) * scale)
    title = f"{span.name}: {time(span.start_us)} to {time(span.end_us)}"
    label = escape(span.name) if width > 7 * len(span.name) + 8 else ""
    text = f'<text x="{x + 4:.1f}" y="{y + 17}">{label}</text>' if label else ""
    return (
        f'<rect class="{span.kind}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_LANE}" rx="2">'
        f"<title>{escape(title)}</title></rect>{text}"
    )


def timeline(measurement: Measurement, longest_us: float) -> str:
    """An SVG of the rank that ended last: one lane a stream, `longest_us` wide at full width."""
    scale = (_WIDTH - _LEFT - 10) / longest_us if longest_us else 0.0
    lanes = _lanes(measurement)
    height = len(lanes) * (_LANE + _GAP) + 24
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="timeline">']
    for number, lane in enumerate(lanes):
        y = number * (_LANE + _GAP)
        parts.append(f'<text x="0" y="{y + 17}">{escape(lane)}</text>')
        parts += [_bar(span, y, scale) for span in measurement.spans if span.stream == lane]
    end = _LEFT + measurement.z_us * scale
    bottom = height - 20
    parts.append(f'<line x1="{end:.1f}" x2="{end:.1f}" y1="0" y2="{bottom}" stroke="#000" stroke-dasharray="3 2"/>')
    parts.append(f'<text x="{end:.1f}" y="{height - 6}" text-anchor="end">{time(measurement.z_us)}</text></svg>')
    return "".join(parts)


def _row(*cells: str) -> str:
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _comparison(session: Session) -> str:
    before, after = session.default, session.tuned
    rows = [
        _row(label, time(old), time(new), change(old, new))
        for label, old, new in (
            ("communication", before.communication_us, after.communication_us),
            ("compute", before.y_us, after.y_us),
            ("makespan", before.z_us, after.z_us),
            ("exposed communication", before.exposed_us, after.exposed_us),
        )
    ]
    for communication, old, new in zip(session.workload.communications, before.use, after.use, strict=True):
        rows.append(_row(f"{communication.name}: channels", str(old.knobs.channels), str(new.knobs.channels), ""))
        rows.append(_row(f"{communication.name}: chunk", size(old.knobs.chunk_bytes), size(new.knobs.chunk_bytes), ""))
        rows.append(_row(f"{communication.name}: SMs held", str(old.sms), str(new.sms), ""))
    head = "<tr><th></th><th>NCCL default</th><th>tuned</th><th>change</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def _trials(session: Session) -> str:
    rows = []
    for number, trial in enumerate(session.search.trials):
        knobs = "; ".join(f"{k.channels} x {size(k.chunk_bytes)}" for k in trial.knobs.values()) or "NCCL default"
        if isinstance(trial.outcome, Refused):
            rows.append(_row(str(number), knobs, trial.outcome.reason, "", "", trial.note))
        else:
            m = trial.outcome
            figures = (time(m.communication_us), time(m.y_us), time(m.z_us))
            rows.append(_row(str(number), knobs, *figures, trial.note))
    head = "".join(
        f"<th>{cell}</th>" for cell in ("", "channels x chunk", "communication", "compute", "makespan", "why tried")
    )
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def page(session: Session) -> str:
    """The whole page."""
    longest = max(session.default.z_us, session.tuned.z_us)
    name = escape(session.workload.name)
    return "\n".join(
        (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>lagom tune: {name}</title>',
            f"<style>{_STYLE}</style></head><body><h1>{name}</h1>",
            f"<p>{escape(session.workload.description)}.",
            f"{session.ranks} ranks, {escape(session.where)}.</p>",
            f"<p><b>{escape(explain(session))}</b></p>",
            f"<h2>NCCL default</h2>{timeline(session.default, longest)}",
            f"<h2>{'Default kept' if session.kept else 'Tuned'}</h2>{timeline(session.tuned, longest)}",
            f"<h2>Side by side</h2>{_comparison(session)}",
            f"<h2>Everything tried</h2>{_trials(session)}<p>The search ended: {escape(session.search.ending)}.</p>",
            f"<p>{escape(session.library)}</p></body></html>\n",
        )
    )
