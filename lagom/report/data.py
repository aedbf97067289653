# SPDX-License-Identifier: Apache-2.0
"""A session as JSON. ``docs/tuning.md`` describes the fields; ``schema`` changes when their meaning does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from lagom.device import Measurement, Refused
from lagom.nccl import Knobs
from lagom.report.explain import explain
from lagom.strategies import Trial
from lagom.tuning import Session

SCHEMA = "lagom-tune-report/1"


def measurement(of: Measurement, names: list[str]) -> dict[str, Any]:
    """A measurement, communications by name."""
    return {
        "communication_us": of.communication_us,
        "compute_us": of.y_us,
        "makespan_us": of.z_us,
        "exposed_us": of.exposed_us,
        "communications": [
            {
                "name": name,
                "time_us": x_us,
                "used": asdict(use.knobs),
                "sms": use.sms,
                "sm_us": use.sm_us,
                "wait_share": use.wait_share,
            }
            for name, x_us, use in zip(names, of.x_us, of.use, strict=True)
        ],
        "timeline": [asdict(span) for span in of.spans],
    }


def _asked(knobs: Mapping[int, Knobs], names: list[str]) -> dict[str, Any]:
    return {names[index]: asdict(asked) for index, asked in sorted(knobs.items())}


def _trial(trial: Trial, names: list[str]) -> dict[str, Any]:
    entry: dict[str, Any] = {"note": trial.note, "knobs": _asked(trial.knobs, names)}
    if isinstance(trial.outcome, Refused):
        entry["refused"] = trial.outcome.reason
    else:
        entry["measured"] = measurement(trial.outcome, names)
    return entry


def session_data(session: Session) -> dict[str, Any]:
    """Everything of a session, ready for :func:`json.dumps`."""
    names = [communication.name for communication in session.workload.communications]
    return {
        "schema": SCHEMA,
        "workload": {
            "name": session.workload.name,
            "digest": session.workload.digest(),
            "description": session.workload.description,
        },
        "ranks": session.ranks,
        "machine": session.machine,
        "modelled": session.modelled,
        "library": {"text": session.library, "build": session.build},
        "strategy": session.search.strategy,
        "budget": session.options.measurements,
        "ending": session.search.ending,
        "kept_default": session.kept,
        "explanation": explain(session),
        "default": measurement(session.default, names),
        "tuned": measurement(session.tuned, names),
        "knobs": {} if session.kept else _asked(session.search.best_knobs, names),
        "trials": [_trial(trial, names) for trial in session.search.trials],
        "best_trial": session.search.best,
        "plan": str(session.plan),
        "counters": [str(path) for path in session.counters],
    }
