# SPDX-License-Identifier: Apache-2.0
"""Rules from knobs, and counters held against them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lagom.device import CommunicationUse, DeviceError, Measurement, counted
from lagom.device.group import LocalRun
from lagom.device.over_mpi import join, rules_for
from lagom.nccl import Knobs
from lagom.nccl.counters import ChannelRecord, OpRecord
from lagom.workload import Communication, Workload

GROUP = Workload(
    "g",
    (
        Communication("a", "all_gather", "bfloat16", 4000),
        Communication("b", "all_gather", "bfloat16", 400),
        Communication("c", "all_gather", "bfloat16", 4000),
    ),
)
BARRIER = Communication("first", "all_gather", "bfloat16", 4)
ASKED = Knobs("ring", "simple", 2, 544, 1 << 20)


def record(collective: str, nbytes: int, asked: Knobs = ASKED, used: Knobs | None = None) -> OpRecord:
    """A record as the library would give it."""
    channels = tuple(ChannelRecord(i, 5 * i, 544, 1 << 20, 4, 4, 1000 * i, 2000 + 1000 * i, 500, 1500) for i in (0, 1))
    used = ASKED if used is None else used
    return OpRecord(
        collective, 0, 0, 0, 4, 1, "int8", None, -1, 4, nbytes, asked, used, 0, 0, 0, 0, used == asked, 1, channels
    )


RUN = [record("all_gather", 8, Knobs()), *(record("all_gather", n) for n in (8000, 800, 8000))]


def test_one_rule_a_class_of_calls() -> None:
    rules = rules_for(GROUP, 4, {0: ASKED, 2: ASKED})
    assert [(r.collective, r.min_bytes, r.max_bytes, r.n_ranks, r.knobs) for r in rules] == [
        ("all_gather", 8000, 8000, 4, ASKED)
    ]
    assert rules_for(GROUP, 4, {}) == []


def test_equal_calls_cannot_differ() -> None:
    with pytest.raises(ValueError, match="a, c are the same collective"):
        rules_for(GROUP, 4, {0: ASKED})
    with pytest.raises(ValueError, match="communication 3"):
        rules_for(GROUP, 4, {3: ASKED})


def test_impossible_knobs_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="channels"):
        rules_for(GROUP, 4, {1: replace(ASKED, channels=1000)})


def test_records_are_matched_in_order() -> None:
    assert counted.records_of_run(GROUP, 4, BARRIER, RUN) == RUN[1:]


@pytest.mark.parametrize("broken", [RUN[:-1], [*RUN, RUN[1]], RUN[::-1], [RUN[0], RUN[2], RUN[1], RUN[3]]])
def test_missing_or_strange_operations(broken: list[OpRecord]) -> None:
    with pytest.raises(DeviceError, match="counters have"):
        counted.records_of_run(GROUP, 4, BARRIER, broken)


def test_exactly_the_asked_knobs() -> None:
    counted.check_knobs(GROUP, {0: ASKED, 1: ASKED, 2: ASKED}, RUN[1:])


@pytest.mark.parametrize(
    ("knob", "value"),
    [("algorithm", "tree"), ("protocol", "ll"), ("channels", 3), ("threads", 512), ("chunk_bytes", None)],
)
def test_a_knob_that_did_not_take_effect(knob: str, value: object) -> None:
    ran = record("all_gather", 800, ASKED, replace(ASKED, **{knob: value}))  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match=f"'b': asked for {knob}=.* but the device ran with {value}"):
        counted.check_knobs(GROUP, dict.fromkeys(range(3), ASKED), [RUN[1], ran, RUN[3]])


def test_a_rule_that_the_library_did_not_take() -> None:
    with pytest.raises(DeviceError, match="'a': asked for algorithm=ring, but the library took None"):
        counted.check_knobs(GROUP, {0: ASKED}, [record("all_gather", 8000, Knobs()), *RUN[2:]])


def test_record_that_is_not_exact() -> None:
    ran = replace(RUN[1], exact=False)
    with pytest.raises(DeviceError, match="not run exactly"):
        counted.check_knobs(GROUP, dict.fromkeys(range(3), ASKED), [ran, *RUN[2:]])


def test_use_counts_sms_and_their_time() -> None:
    use = counted.use(RUN[1])
    assert (use.sms, use.sm_us, use.wait_share) == (2, 4.0, 0.25)


def test_joining_ranks_takes_maxima_and_the_last_ranks_timeline() -> None:
    use = CommunicationUse(ASKED, 2, 4.0, 0.25)
    joined = join(
        [
            (LocalRun((10, 20), 7, 30, 3, ()), [use, use]),
            (LocalRun((11, 19), 6, 31, 5, ()), [replace(use, sm_us=5.0), replace(use, sms=3)]),
        ]
    )
    assert joined.exposed_us == 0.005
    assert (joined.x_us, joined.y_us, joined.z_us) == ((0.011, 0.020), 0.007, 0.031)
    assert joined.use[0].sm_us == 5.0 and joined.use[1].sms == 3


def test_ranks_that_ran_different_knobs() -> None:
    uses = [[CommunicationUse(replace(ASKED, channels=n), 2, 4.0, 0.0)] for n in (2, 3)]
    with pytest.raises(DeviceError, match="rank 1 ran with"):
        counted.most_over_ranks(uses)


@pytest.mark.parametrize("bad", [float("nan"), -1.0, float("inf")])
def test_nonsense_is_no_measurement(bad: float) -> None:
    use = (CommunicationUse(ASKED, 2, 4.0, 0.0),)
    for fields in ({"x_us": (bad,)}, {"y_us": bad}, {"z_us": bad}, {"exposed_us": bad}):
        good = {"x_us": (1.0,), "y_us": 1.0, "z_us": 1.0, "exposed_us": 0.0, "use": use}
        with pytest.raises(DeviceError, match="measured a"):
            Measurement(**{**good, **fields})  # type: ignore[arg-type]
