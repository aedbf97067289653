# SPDX-License-Identifier: Apache-2.0
"""Computation and communication on one GPU: who waits for whom, who slows whom down, and that nothing carries more than
it has."""

import dataclasses
import itertools
import math

import pytest
from hostcuda.clock.modelled import MS, US, Kernel, Make, Modelled, figures
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ENDLESS = 10**7 * MS
PROPERTY = settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

kernels = st.builds(
    Kernel,
    flops=st.sampled_from([0.0, 1e7, 1e9, 5e10]),
    read=st.sampled_from([0.0, 1e5, 1e7, 3e8]),
    written=st.sampled_from([0.0, 1e6, 1e8]),
    ctas=st.integers(1, 700),
    threads=st.sampled_from([32, 128, 256, 1024]),
    registers=st.sampled_from([16, 32, 64]),
    shared=st.sampled_from([0, 8 * 1024, 48 * 1024, 99 * 1024]),
)


def beside(
    make: Make, kernel: Kernel, channels: int, *, traffic_rate: float = 0, in_flight: int = 0, gpu: str = "a40"
) -> int:
    """How long the kernel takes beside a collective that does not end; traffic_rate in bytes a second and channel."""
    clock = make(gpu)
    compute, comm = clock.stream(), clock.stream()
    if channels > 0:
        op = clock.grid(comm, channels, in_flight=in_flight * channels)
        seconds = ENDLESS / 1e12
        clock.run(op, ENDLESS, traffic=int(traffic_rate * channels * seconds))
        clock.wait(compute, clock.record(clock.stream()))
    kernel_op = clock.kernel(compute, kernel)
    clock.synchronize(kernel_op, *([op] if channels else []))
    return clock.times(kernel_op).duration


@pytest.mark.parametrize("gpu", ["a40", "a100-sxm-40gb", "h100-sxm"])
def test_gemm_loses_the_sms_of_the_channels(make: Make, gpu: str) -> None:
    sms = int(figures(gpu)["gpu.sms"])
    kernel = Kernel(flops=1e9 * sms * 10, read=0, written=0, ctas=sms * 10, threads=512, registers=120)
    alone = beside(make, kernel, 0, gpu=gpu)
    for channels in (1, 8, 32):
        waves = math.ceil(sms * 10 / (sms - channels))
        assert beside(make, kernel, channels, gpu=gpu) == pytest.approx(alone / 10 * waves, rel=1e-6)


def test_small_ctas_fit_beside_a_channel(make: Make) -> None:
    small = Kernel(flops=84e9, read=0, written=0, ctas=84, threads=128, registers=32, shared=0)
    assert beside(make, small, 8) == beside(make, small, 0)


@PROPERTY
@given(kernel=kernels, rate=st.sampled_from([0.0, 5e9, 3e10]), in_flight=st.sampled_from([0, 1 << 17, 1 << 21]))
def test_no_kernel_gets_faster_with_channels(make: Make, kernel: Kernel, rate: float, in_flight: int) -> None:
    """Up to one wave: with fewer SMs, waves may happen to be fuller and keep the memory busier."""
    durations = [beside(make, kernel, n, traffic_rate=rate, in_flight=in_flight) for n in (0, 1, 2, 8, 32, 64)]
    part = 1 / kernel.ctas
    one_cta = dataclasses.replace(
        kernel, ctas=1, flops=kernel.flops * part, read=kernel.read * part, written=kernel.written * part
    )
    one_wave = beside(make, one_cta, 0)
    for i, less in enumerate(durations):
        for more in durations[i + 1 :]:
            slack = one_wave * 84 * 12 // min(kernel.ctas, 84)  # a wave in which SMs are as crowded as they can be
            assert more >= less - slack


@PROPERTY
@given(flops=st.sampled_from([1e9, 3e10]), read=st.sampled_from([0.0, 1e7, 3e8]), ctas=st.integers(1, 2000))
def test_gemm_never_gets_faster_with_channels(make: Make, flops: float, read: float, ctas: int) -> None:
    kernel = Kernel(flops=flops * ctas / 84, read=read * ctas / 84, written=0, ctas=ctas)
    durations = [beside(make, kernel, n, traffic_rate=5e9, in_flight=1 << 20) for n in (0, 1, 2, 8, 32, 64)]
    wave = max(beside(make, dataclasses.replace(kernel, flops=flops, read=read, ctas=84), 64, traffic_rate=5e9), 1)
    for i, less in enumerate(durations):
        assert all(more >= less - wave for more in durations[i + 1 :])


def group(make: Make, channels: int, comm_us: float, gemms: int = 12) -> tuple[int, int]:
    """Total compute time and makespan of GEMMs beside one collective that both begin at the same event."""
    clock = make()
    compute, comm, first = clock.stream(), clock.stream(priority=-1), clock.stream()
    ready = clock.host_function(first)
    clock.wait(comm, ready)
    clock.wait(compute, ready)
    op = clock.grid(comm, channels)
    ops = [clock.kernel(compute, Kernel(flops=84e8, read=0, written=0, ctas=84 * 3)) for _ in range(gemms)]
    clock.run(op, int(comm_us * US))
    clock.synchronize(op, *ops)
    end = max(clock.times(op).end, clock.times(ops[-1]).end)
    return sum(clock.times(k).duration for k in ops), end - clock.times(ready).end


def test_more_channels_can_cost_less_computation(make: Make) -> None:
    """They end the communication sooner, and the kernels after it have the GPU to themselves."""
    few, _ = group(make, channels=2, comm_us=1200)
    many, _ = group(make, channels=8, comm_us=300)
    assert many < few
    endless_few, _ = group(make, channels=2, comm_us=10**6)
    endless_many, _ = group(make, channels=8, comm_us=10**6)
    assert endless_many >= endless_few


def test_no_communication_is_uncontended(make: Make) -> None:
    clock = make()
    compute, other = clock.stream(), clock.stream()
    kernel = Kernel(flops=1e11, read=1e8, written=1e8, ctas=500)
    for _ in range(3):
        clock.wait(other, clock.record(compute))
        op = clock.kernel(compute, kernel)
        clock.wait(compute, clock.record(other))
        clock.synchronize(op)
        assert clock.times(op).duration == beside(make, kernel, 0)


def late_comm(make: Make, priority: int) -> tuple[Modelled, int, int]:
    clock = make()
    compute, comm = clock.stream(), clock.stream(priority=priority)
    gemm = clock.kernel(compute, Kernel(flops=84e9 * 4, read=0, written=0, ctas=84 * 4))
    op = clock.grid(comm, 8)
    clock.run(op, 100 * US)
    clock.synchronize(gemm, op)
    return clock, gemm, op


def test_late_communication_waits_for_the_wave_that_runs(make: Make) -> None:
    clock, gemm, op = late_comm(make, priority=-1)
    wave = 84e9 / 112.275e12 * 1e12
    assert clock.times(op).start == pytest.approx(clock.times(gemm).start + wave, rel=1e-6)
    assert clock.times(op).end < clock.times(gemm).end


def test_without_priority_it_waits_until_the_kernel_before_it_has_all_its_sms(make: Make) -> None:
    clock, gemm, op = late_comm(make, priority=0)
    assert clock.times(op).start == clock.times(gemm).end


def test_two_collectives_share_the_sms(make: Make) -> None:
    clock = make()
    ops = [clock.grid(clock.stream(), 60) for _ in range(2)]
    for op in ops:
        clock.run(op, 100 * US)
    clock.synchronize(*ops)
    first, second = (clock.times(op) for op in ops)
    assert second.start < first.end  # 24 of its CTAs found an SM
    assert second.begin == first.end
    assert second.end == first.end + 100 * US


def test_both_slow_down_when_memory_is_short(make: Make) -> None:
    f = figures("a40")
    memory = f["memory.gbps"] * 1e9 * f["memory.achievable_share"]
    clock = make()
    compute, comm = clock.stream(), clock.stream(priority=-1)
    op = clock.grid(comm, 2)
    stream_kernel = Kernel(flops=0, read=memory / 100, written=0, ctas=84 * 6, threads=256, registers=32, shared=0)
    kernel = clock.kernel(compute, stream_kernel)
    clock.run(op, 10 * MS, traffic=int(memory / 100 * 0.5))
    clock.synchronize(op, kernel)
    assert clock.times(op).duration > 10 * MS
    assert clock.times(kernel).duration > 10 * MS


def test_buffers_that_do_not_fit_the_l2_cost_both_more(make: Make) -> None:
    gemm = Kernel(flops=84e10, read=35e8, written=1e7, ctas=76)
    spill = beside(make, gemm, 8, traffic_rate=40e9, in_flight=2 << 20)
    fit = beside(make, gemm, 8, traffic_rate=40e9, in_flight=1 << 18)
    assert spill > fit


@st.composite
def programs(draw: st.DrawFn) -> list[tuple]:
    steps: list[tuple] = []
    for _ in range(draw(st.integers(1, 14))):
        stream = draw(st.integers(0, 2))
        kind = draw(st.sampled_from(["kernel", "kernel", "grid", "copy", "wait", "sync"]))
        if kind == "kernel":
            steps.append((kind, stream, draw(kernels)))
        elif kind == "grid":
            duration = draw(st.sampled_from([US, 50 * US, 3 * MS]))
            traffic = draw(st.sampled_from([0, 10**6, 10**9]))
            late = draw(st.sampled_from([0, 0, 2 * MS]))
            steps.append((kind, stream, draw(st.integers(1, 64)), duration, traffic, late))
        elif kind == "copy":
            steps.append((kind, stream, draw(st.integers(0, 4)), draw(st.sampled_from([0, 1, 10**7])), 10**10))
        else:
            steps.append((kind, stream, draw(st.integers(0, 2))))
    return steps


def play(clock: Modelled, steps: list[tuple]) -> list[int]:
    """Enqueues and runs the program; its grids and kernels."""
    streams = [clock.stream(priority=p) for p in (0, 0, -1)]
    last: dict[int, int] = {}
    work = []
    for kind, stream, *rest in steps:
        if kind == "kernel":
            op = clock.kernel(streams[stream], rest[0])
        elif kind == "grid":
            op = clock.grid(streams[stream], rest[0], in_flight=rest[0] << 19)
            arrival = clock.start(op)
            clock.executed(op, rest[1], arrival + rest[3], rest[2])
        elif kind == "copy":
            op = clock.copy(streams[stream], *rest)
        elif kind == "wait":
            op = clock.wait(streams[stream], clock.record(streams[rest[0]]))
        else:
            clock.synchronize(*(last[s] for s in {stream, rest[0]} if s in last))
            continue
        last[stream] = op
        if kind in ("kernel", "grid"):
            work.append(op)
    clock.synchronize(*last.values())
    return work


@PROPERTY
@given(steps=programs())
def test_nothing_carries_more_than_it_has(make: Make, steps: list[tuple]) -> None:
    f = figures("a40")
    clock = make()
    clock.record_loads()
    work = play(clock, steps)
    memory = f["memory.gbps"] * 1e9 * f["memory.achievable_share"]
    flops = f["compute.dense_bf16_tflops"] * 1e12 * f["compute.achievable_share"]
    for load in clock.loads():
        assert load.memory <= memory * (1 + 1e-9)
        assert load.flops <= flops * (1 + 1e-9)
        assert load.sms <= 84
    for op in work:
        times = clock.times(op)
        assert times.start <= times.begin <= times.end
        assert 1 <= times.sms <= 84


@PROPERTY
@given(steps=programs())
def test_same_program_same_times(make: Make, steps: list[tuple]) -> None:
    outcomes = set()
    for _ in range(5):
        clock = make()
        work = play(clock, steps)
        outcomes.add((*(clock.times(op) for op in work), clock.host_time()))
    assert len(outcomes) == 1


def test_fifty_runs_of_one_long_program(make: Make) -> None:
    outcomes = set()
    for _ in range(50):
        clock = make("a100-sxm-40gb")
        compute, comm = clock.stream(), clock.stream()
        ops = []
        for layer in range(20):
            ops.append(clock.grid(comm, 1 + layer, in_flight=layer << 20))
            clock.run(ops[-1], (100 + layer) * US, traffic=layer * 10**7)
            ops += [clock.kernel(compute, Kernel(flops=1e10 + i, read=3e7, ctas=100 + layer)) for i in range(5)]
            clock.wait(compute, clock.record(comm))
        clock.synchronize(*ops)
        outcomes.add(tuple(clock.times(op) for op in ops))
    assert len(outcomes) == 1


@pytest.mark.timeout(120)
def test_ten_thousand_kernels_in_one_window(make: Make) -> None:
    clock = make()
    compute, comm = clock.stream(), clock.stream()
    op = clock.grid(comm, 8)
    clock.run(op, 100 * MS)
    ops = [clock.kernel(compute, Kernel(flops=84e7, read=0, written=0, ctas=84)) for _ in range(10_000)]
    clock.synchronize(op, *ops)
    spans = [clock.times(k) for k in ops]
    alone = min(s.duration for s in spans)
    assert {s.duration for s in spans if s.start > clock.times(op).end} == {alone}
    assert all(a.end < b.start for a, b in itertools.pairwise(spans))
