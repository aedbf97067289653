# SPDX-License-Identifier: Apache-2.0
"""The linear search and its three endings, on a device of plain arithmetic."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from lagom.device import Measurement, Refused
from lagom.nccl import Knobs
from lagom.strategies import Budget, StrategyError, linear, measured, nccl
from lagom.strategies.space import CHANNELS, chunk_ladder
from lagom.workload import Communication, Computation, KernelSpec, Workload, preset


def _fake() -> ModuleType:
    # Tests are collected in importlib mode, where neighbours cannot be imported by name.
    path = Path(__file__).with_name("fake_device.py")
    spec = importlib.util.spec_from_file_location("fake_device", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["fake_device"] = module
    spec.loader.exec_module(module)
    return module


fake = _fake()
PHI2 = preset("phi2-fsdp-a40")
KERNEL = KernelSpec(1e9, 1e6, 1e6, 84, 256, 128, 65536)


def group(*counts: int) -> Workload:
    """One computation beside all-gathers of these element counts."""
    gathers = [Communication(f"c{i}", "all_gather", "bfloat16", count) for i, count in enumerate(counts)]
    return Workload("group", (*gathers, Computation("k", KERNEL)))


def test_default_alone_is_one_measurement() -> None:
    device = fake.FakeDevice()
    result = nccl(PHI2, device, Budget(5))
    assert len(device.runs) == 1 and not result.improved and result.best_knobs == {}


def test_finds_a_shorter_makespan_where_there_is_one() -> None:
    result = linear(PHI2, fake.FakeDevice(), Budget(15))
    assert result.improved
    assert result.best_measurement.z_us < result.default.z_us
    shortest = min(t.outcome.z_us for t in result.trials if isinstance(t.outcome, Measurement))
    assert result.best_measurement.z_us <= 1.001 * shortest


@pytest.mark.parametrize("compute_us", [2000.0, 5000.0, 6000.0, 9000.0, 40000.0])
@pytest.mark.parametrize("traffic_cost", [0.0, 0.01, 0.05])
def test_close_to_full_enumeration(compute_us: float, traffic_cost: float) -> None:
    device = fake.FakeDevice(compute_us=compute_us, traffic_cost=traffic_cost)
    result = linear(PHI2, device, Budget(20))
    truth = min(
        measured_z(device, Knobs("ring", "simple", channels, 544, chunk))
        for channels, chunk in itertools.product(CHANNELS, chunk_ladder("ring", "simple"))
    )
    assert result.best_measurement.z_us <= 1.05 * min(truth, result.default.z_us)


def measured_z(device: object, knobs: Knobs) -> float:
    """Makespan of one setting."""
    outcome = device.run(PHI2, {0: knobs})  # type: ignore[attr-defined]
    assert isinstance(outcome, Measurement)
    return outcome.z_us


def test_ends_where_the_smallest_allocation_is_hidden() -> None:
    result = linear(group(1 << 20), fake.FakeDevice(compute_us=50_000.0), Budget(3))
    assert "already hidden" in result.ending
    assert result.best_knobs[0].channels == 1


def test_ends_where_communication_has_come_down_to_computation() -> None:
    result = linear(PHI2, fake.FakeDevice(compute_us=6000.0), Budget(20))
    assert "come down" in result.ending


def test_ends_exposed_and_compares_the_ends() -> None:
    result = linear(PHI2, fake.FakeDevice(compute_us=500.0), Budget(30))
    assert "exposed" in result.ending
    assert result.best_measurement.z_us <= result.default.z_us


def test_never_worse_where_the_default_is_best() -> None:
    best = fake.FakeDevice(default=Knobs("ring", "simple", 5, 544, 700_000), sm_cost=0.0, traffic_cost=0.0)
    best.link_gbps = 4.0  # one small channel does not reach it
    best.default = replace(best.default, channels=1, chunk_bytes=256 << 10)
    result = linear(PHI2, best, Budget(15))
    assert not result.improved and result.best == 0


@pytest.mark.parametrize("measurements", [1, 2, 3, 7])
def test_keeps_to_the_budget(measurements: int) -> None:
    device = fake.FakeDevice()
    result = linear(PHI2, device, Budget(measurements))
    assert len(device.runs) <= measurements
    assert result.best_measurement.z_us <= result.default.z_us


def test_measures_nothing_twice() -> None:
    device = fake.FakeDevice()
    linear(PHI2, device, Budget(60))
    settings = [tuple(sorted((index, str(knobs)) for index, knobs in run.items())) for run in device.runs]
    assert len(settings) == len(set(settings))


def test_refused_settings_are_recorded_and_skipped() -> None:
    device = fake.FakeDevice(max_channels=2, min_chunk_bytes=1 << 20, compute_us=500.0)
    device.default = replace(device.default, channels=2)
    result = linear(PHI2, device, Budget(30))
    refused = [trial for trial in result.trials if isinstance(trial.outcome, Refused)]
    assert refused and all("allowed" in trial.outcome.reason for trial in refused if isinstance(trial.outcome, Refused))
    assert result.best_measurement.z_us <= result.default.z_us


def test_everything_refused_keeps_the_default() -> None:
    device = fake.FakeDevice(min_chunk_bytes=4 << 20)
    device.default = replace(device.default, chunk_bytes=4 << 20)
    result = linear(PHI2, device, Budget(10))
    assert not result.improved and "refused" in result.ending


def test_refused_default_cannot_be_tuned() -> None:
    with pytest.raises(StrategyError, match="default"):
        linear(PHI2, fake.FakeDevice(max_channels=4), Budget(10))


def test_budget_of_nothing_is_refused() -> None:
    with pytest.raises(StrategyError, match="at least 1"):
        Budget(0)


def test_calls_that_a_plan_cannot_tell_apart_share_knobs() -> None:
    workload = group(1 << 24, 1 << 22, 1 << 24)
    device = fake.FakeDevice(compute_us=3000.0)
    linear(workload, device, Budget(40))
    explicit = [run for run in device.runs if run]
    assert all(run[0] == run[2] for run in explicit)
    assert any(run[0] != run[1] for run in explicit)


def test_cost_grows_about_linearly_with_communications() -> None:
    def cost(n: int) -> int:
        device = fake.FakeDevice(compute_us=10.0)
        linear(group(*((1 << 22) + 4 * i for i in range(n))), device, Budget(100_000))
        return len(device.runs)

    assert cost(8) <= 3 * 8 * cost(1)


def test_observer_sees_every_trial() -> None:
    seen = []
    result = linear(PHI2, fake.FakeDevice(), Budget(8), seen.append)
    assert tuple(seen) == result.trials
    assert measured(result.trials[0]) is result.default


def test_chunk_ladders_keep_to_the_grain() -> None:
    for algorithm, protocol, grain in (
        ("ring", "simple", 512),
        ("tree", "simple", 512),
        ("ring", "ll", 16),
        ("ring", "ll128", 1920),
    ):
        ladder = chunk_ladder(algorithm, protocol)
        assert ladder == tuple(sorted(ladder)) and all(chunk % grain == 0 for chunk in ladder)
    assert chunk_ladder("nvls", "simple") == ()
