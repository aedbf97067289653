# SPDX-License-Identifier: Apache-2.0
"""Reports say what was measured, and nothing that was not."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

from lagom.device import CommunicationUse, Measurement, Refused, Span
from lagom.nccl import Knobs
from lagom.report import comparison, explain, operations, session_data, trial_line, wide_console, write_report
from lagom.report.html import timeline
from lagom.strategies import Result, Trial
from lagom.tuning import Options, Session
from lagom.workload import preset

WORKLOAD = preset("phi2-fsdp-a40")
OLD, NEW = Knobs("ring", "simple", 8, 544, 2 << 20), Knobs("ring", "simple", 2, 544, 1 << 20)


def run(knobs: Knobs, x_us: float, y_us: float) -> Measurement:
    """A run of one communication."""
    spans = (
        Span("gather-next-layer", "communicate", "comm", 0.0, x_us),
        Span("q<proj>", "compute", "compute", 1.0, y_us + 1),
    )
    use = CommunicationUse(knobs, knobs.channels or 0, x_us * (knobs.channels or 0), 0.1)
    return Measurement((x_us,), y_us, max(x_us, y_us + 1), 0.0, (use,), spans)


def session(kept: bool = False) -> Session:
    """A session with one refused and one better setting."""
    default, better = run(OLD, 5000.125, 7000.0), run(NEW, 6000.0, 6200.0)
    trials = (
        Trial({}, default, "NCCL's default"),
        Trial({0: replace(NEW, channels=64)}, Refused("channels is 64, allowed is 1 to 8"), "more"),
        Trial({0: NEW}, better, "more"),
    )
    return Session(
        workload=WORKLOAD,
        ranks=4,
        machine="a40x8",
        modelled=True,
        library="NCCL 2.29.7",
        build="abc",
        options=Options("phi2-fsdp-a40", "linear", 14, Path("results")),
        search=Result("linear", trials[:1] if kept else trials, 0 if kept else 2, "it ended"),
        tuned=default if kept else better,
        kept=kept,
        why_kept="no better setting found" if kept else "",
        plan=Path("results/plan.csv"),
        counters=(Path("results/counters-rank0.csv"),),
    )


def printed(kept: bool) -> str:
    """The table as a log gets it."""
    out = io.StringIO()
    wide_console(out).print(comparison(session(kept)))
    return out.getvalue()


def test_table_has_every_figure_unbroken() -> None:
    text = printed(kept=False)
    for figure in ("5,000.125 us", "6,000.000 us", "7,001.000 us", "6,201.000 us", "-11.4 %", "2 MiB", "1 MiB", "544"):
        assert figure in text
    assert "exposed communication" in text and "SMs held" in text


def test_explanation_names_sms_chunk_and_exposure() -> None:
    text = explain(session())
    assert text.startswith(
        "gather-next-layer holds 2 SMs instead of 8 and passes on 1 MiB at a time instead of 2 MiB, "
    )
    assert "2 MiB in flight instead of 16 MiB. " in text
    assert "Computation is 800.0 us shorter, communication is 999.9 us longer" in text
    assert "800.0 us earlier, 1.129x as fast" in text


def test_a_kept_default_claims_nothing() -> None:
    assert explain(session(kept=True)) == "NCCL's default is kept: no better setting found."
    text = printed(kept=True)
    assert "tuned" not in text and "default kept" in text and "%" not in text
    assert session_data(session(kept=True))["knobs"] == {}


def test_json_round_trips_and_names_its_schema() -> None:
    data = json.loads(json.dumps(session_data(session())))
    assert data["schema"] == "lagom-tune-report/1"
    assert data["tuned"]["makespan_us"] == 6201.0
    assert data["knobs"] == {"gather-next-layer": {**NEW.__dict__}}
    assert data["trials"][1]["refused"].startswith("channels is 64") and "measured" not in data["trials"][1]
    assert data["trials"][data["best_trial"]]["measured"]["makespan_us"] == 6201.0


def test_page_is_small_complete_and_alone(tmp_path: Path) -> None:
    page, data = write_report(session(), tmp_path)
    text = page.read_text()
    assert len(text) < 50_000
    assert "http" not in text and "<script" not in text and "src=" not in text
    assert "q&lt;proj&gt;" in text and "q<proj>" not in text
    assert "holds 2 SMs instead of 8" in text
    assert json.loads(data.read_text())["schema"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html", "report.json"]


def test_timelines_share_a_scale() -> None:
    default, tuned = session().default, session().tuned
    longest = max(default.z_us, tuned.z_us)

    def widths(measurement: Measurement) -> list[float]:
        root = ElementTree.fromstring(timeline(measurement, longest))
        return [float(rect.attrib["width"]) for rect in root.iter("rect")]

    (x_default, _), (x_tuned, _) = widths(default), widths(tuned)
    assert abs(x_tuned / x_default - 6000.0 / 5000.125) < 0.01


def test_trial_lines() -> None:
    trials = session().search.trials
    assert "NCCL default" in trial_line(0, WORKLOAD, trials[0])
    assert "refused with gather-next-layer 64 channels x 1 MiB: channels is 64, allowed is 1 to 8" in trial_line(
        1, WORKLOAD, trials[1]
    )
    assert "2 channels x 1 MiB" in trial_line(2, WORKLOAD, trials[2])


def test_operations_table_shows_sizes_for_the_ranks() -> None:
    out = io.StringIO()
    wide_console(out).print(operations(WORKLOAD, 4))
    assert "19,667,840 elements a rank" in out.getvalue() and "2,560 CTAs x 256" in out.getvalue()
