# SPDX-License-Identifier: Apache-2.0
"""What one operation takes with the GPU to itself."""

import math

import pytest
from hostcuda.clock.modelled import FROM_HOST, MS, TO_HOST, US, WITHIN_DEVICE, ClockError, Kernel, Make, figures


def duration(make: Make, kernel: Kernel, gpu: str = "a40") -> int:
    clock = make(gpu)
    op = clock.kernel(clock.stream(), kernel)
    clock.synchronize(op)
    return clock.times(op).duration


@pytest.mark.parametrize("gpu", ["a40", "a100-sxm-40gb", "h100-sxm"])
@pytest.mark.parametrize("ctas", [1, 83, 84, 85, 168, 1000])
def test_gemm_runs_in_waves(make: Make, gpu: str, ctas: int) -> None:
    f = figures(gpu)
    rate = f["compute.dense_bf16_tflops"] * 1e12 * f["compute.achievable_share"] / f["gpu.sms"]
    per_cta = 2e9
    # 200 registers x 512 threads: more than half of an SM, so one CTA on each.
    kernel = Kernel(per_cta * ctas, read=0, written=0, ctas=ctas, threads=512, registers=120)
    waves = math.ceil(ctas / f["gpu.sms"])
    assert duration(make, kernel, gpu) == pytest.approx(waves * per_cta / rate * 1e12, rel=1e-6)


def test_stream_kernel_runs_at_memory_rate(make: Make) -> None:
    f = figures("a40")
    kernel = Kernel(flops=0, read=64e6, written=64e6, ctas=84 * 6, threads=256, registers=32, shared=0)
    memory = f["memory.gbps"] * 1e9 * f["memory.achievable_share"]
    assert duration(make, kernel) == pytest.approx(128e6 / memory * 1e12, rel=1e-5)


def test_one_cta_draws_no_more_than_an_sm_can(make: Make) -> None:
    kernel = Kernel(flops=0, read=1e6, written=0, ctas=1)
    assert duration(make, kernel) == pytest.approx(1e6 / (figures("a40")["memory.sm_gbps"] * 1e9) * 1e12, rel=1e-6)


def test_crowded_sms_share_their_arithmetic(make: Make) -> None:
    full = Kernel(flops=84e9, read=0, written=0, ctas=84)
    halves = Kernel(flops=84e9, read=0, written=0, ctas=168, threads=128, registers=128, shared=0)
    assert duration(make, halves) == pytest.approx(duration(make, full), rel=1e-6)


def test_kernels_of_a_stream_follow_each_other(make: Make) -> None:
    clock = make()
    stream = clock.stream()
    first, second = clock.kernel(stream, Kernel()), clock.kernel(stream, Kernel())
    clock.synchronize(second)
    assert clock.times(second).start == clock.times(first).end + figures("a40")["calls.stream_gap_us"] * US


def test_kernels_of_two_streams_share_the_gpu(make: Make) -> None:
    clock = make()
    half = Kernel(flops=42e9, read=0, written=0, ctas=42)
    ops = [clock.kernel(clock.stream(), half) for _ in range(2)]
    clock.synchronize(*ops)
    for op in ops:
        assert clock.times(op).duration == pytest.approx(duration(make, half), rel=1e-6)


def test_grid_takes_what_it_took_alone(make: Make) -> None:
    clock = make()
    op = clock.grid(clock.stream(), 8)
    arrival = clock.run(op, duration=100 * US, traffic=10**6)
    clock.synchronize(op)
    times = clock.times(op)
    assert (times.start, times.begin, times.end) == (arrival, arrival, arrival + 100 * US)
    assert (times.ctas, times.sms) == (8, 8)


def test_grid_waits_for_its_peers_on_its_sms(make: Make) -> None:
    clock = make()
    op = clock.grid(clock.stream(), 8)
    arrival = clock.run(op, duration=100 * US, peers=5 * MS)
    clock.synchronize(op)
    times = clock.times(op)
    assert (times.start, times.begin, times.end) == (arrival, 5 * MS, 5 * MS + 100 * US)


def test_grid_that_asks_for_more_memory_than_there_is_gets_slower(make: Make) -> None:
    f = figures("a40")
    memory = f["memory.gbps"] * 1e9 * f["memory.achievable_share"]
    clock = make()
    op = clock.grid(clock.stream(), 8)
    clock.run(op, duration=1 * MS, traffic=int(4 * memory / 1000))
    clock.synchronize(op)
    outside = 1 - f["l2.buffer_traffic_share"]  # nothing is in flight, so all buffers stay in the L2
    assert clock.times(op).duration == pytest.approx(4 * outside * MS, rel=1e-6)


def test_copies_of_one_direction_share_their_link(make: Make) -> None:
    clock = make()
    rate, size = 20 * 10**9, 20 * 10**6
    alone = clock.copy(clock.stream(), FROM_HOST, size, rate)
    clock.synchronize(alone)
    assert clock.times(alone).duration == 1 * MS
    up = [clock.copy(clock.stream(), FROM_HOST, size, rate) for _ in range(2)]
    down = clock.copy(clock.stream(), TO_HOST, size, rate)
    clock.synchronize(*up, down)
    assert clock.times(down).duration == 1 * MS
    assert clock.times(up[1]).end - clock.times(up[0]).start == pytest.approx(2 * MS, rel=0.01)


def test_copy_within_a_device_reads_and_writes(make: Make) -> None:
    f = figures("a40")
    clock = make()
    op = clock.copy(clock.stream(), WITHIN_DEVICE, 10**8)
    clock.synchronize(op)
    memory = f["memory.gbps"] * 1e9 * f["memory.achievable_share"]
    assert clock.times(op).duration == pytest.approx(2e8 / memory * 1e12, rel=1e-6)


def test_host_time(make: Make) -> None:
    f = figures("a40")
    clock = make()
    assert clock.host_time() == 0
    stream = clock.stream()
    op = clock.kernel(stream, Kernel())
    assert clock.host_time() == f["calls.host_launch_us"] * US
    clock.synchronize(op)
    assert clock.host_time() == clock.times(op).end + f["calls.host_return_us"] * US
    clock.synchronize()
    assert clock.host_time() == clock.times(op).end + f["calls.host_return_us"] * US


def test_events_on_both_sides(make: Make) -> None:
    clock = make()
    stream = clock.stream()
    before, op, after = clock.record(stream), clock.kernel(stream, Kernel(flops=84e9)), clock.record(stream)
    clock.synchronize(after)
    assert clock.times(before).end <= clock.times(op).start
    assert clock.times(after).end == clock.times(op).end


def test_host_function_takes_its_turn(make: Make) -> None:
    clock = make()
    stream = clock.stream()
    op, call, last = clock.kernel(stream, Kernel()), clock.host_function(stream), clock.kernel(stream, Kernel())
    clock.synchronize(last)
    f = figures("a40")
    assert clock.times(call).start == clock.times(op).end
    assert clock.times(last).start == clock.times(call).end + f["calls.stream_gap_us"] * US


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (Kernel(threads=2000), r"2000 threads fits on no SM of a NVIDIA A40, which has room for 1536"),
        (Kernel(threads=1024, registers=128), r"131072 registers fits on no SM"),
        (Kernel(shared=101 * 1024), r"103424 bytes of shared memory fits on no SM"),
        (Kernel(threads=0), r"at least one thread"),
        (Kernel(ctas=0), r"at least one CTA"),
        (Kernel(flops=-1.0), r"flops = -1\.0+ is outside of 0\.\."),
        (Kernel(flops=math.nan), r"flops = -?nan is outside"),
        (Kernel(read=math.inf), r"bytes_read = inf is outside"),
        (Kernel(written=1e16), r"bytes_written = 1\d+\.0+ is outside"),
    ],
)
def test_impossible_kernels_are_refused(make: Make, kernel: Kernel, reason: str) -> None:
    clock = make()
    with pytest.raises(ClockError, match=reason):
        clock.kernel(clock.stream(), kernel)
    assert clock.host_time() == 0


def test_collective_that_cannot_be_on_the_gpu_at_once_is_refused(make: Make) -> None:
    clock = make()
    with pytest.raises(ClockError, match="its 85 CTAs wait for each other, but only 84 of them fit on a NVIDIA A40"):
        clock.grid(clock.stream(), 85)
    clock.grid(clock.stream(), 85, collective=False)


def test_times_before_the_grid_has_run(make: Make) -> None:
    clock = make()
    op = clock.grid(clock.stream(), 8)
    with pytest.raises(ClockError, match="grid: its times are asked for before it has run"):
        clock.times(op)
    clock.run(op, US)
    with pytest.raises(ClockError, match="only a grid"):
        clock.start(op)
