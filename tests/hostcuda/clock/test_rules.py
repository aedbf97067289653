# SPDX-License-Identifier: Apache-2.0
"""What a time may depend on: a rank's own program up to the operation, and nothing that CPUs decide."""

import itertools
import random

import pytest
from hostcuda.clock.modelled import MS, US, ClockError, Kernel, Make, Modelled, Times
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

PROPERTY = settings(
    derandomize=True, deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
GEMM = Kernel(flops=84e9, read=1e8, written=1e7, ctas=168)


# ---- a rank's arrival at a collective ----


def test_arrival_ignores_what_is_enqueued_later(make: Make) -> None:
    def arrival(later: int) -> int:
        clock = make()
        compute, comm = clock.stream(priority=-1), clock.stream()
        clock.kernel(compute, GEMM)
        clock.wait(comm, clock.record(compute))
        op = clock.grid(comm, 8)
        for _ in range(later):
            clock.kernel(compute, GEMM)
        return clock.start(op)

    assert len({arrival(later) for later in (0, 1, 5)}) == 1


def test_arrival_counts_everything_enqueued_before(make: Make) -> None:
    clock = make()
    compute, comm = clock.stream(), clock.stream()
    gemm = clock.kernel(compute, GEMM)
    op = clock.grid(comm, 8)
    arrival = clock.run(op, 10 * US)
    clock.synchronize(gemm, op)
    assert arrival == clock.times(gemm).end


def test_arrival_does_not_depend_on_which_other_grids_have_run(make: Make) -> None:
    """Another communicator's collective, enqueued before on another stream: it may have run on the CPU or not."""

    def arrival(other_first: bool) -> int:
        clock = make()
        one, two, compute = clock.stream(), clock.stream(), clock.stream()
        other = clock.grid(one, 16)
        clock.kernel(compute, GEMM)
        clock.wait(two, clock.record(compute))
        op = clock.grid(two, 8)
        if other_first:
            clock.run(other, 3 * US)
        return clock.start(op)

    assert arrival(True) == arrival(False)


def test_final_start_may_be_later_than_the_arrival(make: Make) -> None:
    """What this rank enqueues later may delay its own record; its peers have been told the arrival."""
    clock = make()
    compute, comm, urgent = clock.stream(), clock.stream(), clock.stream(priority=-1)
    clock.kernel(compute, GEMM)
    clock.wait(comm, clock.record(compute))
    op = clock.grid(comm, 8)
    arrival = clock.run(op, 10 * US)
    long = clock.kernel(urgent, Kernel(flops=84e10, ctas=840))
    clock.synchronize(op, long)
    assert clock.times(op).begin > arrival


def test_open_grid_keeps_its_sms_but_cannot_starve_others(make: Make) -> None:
    clock = make()
    one, two, compute = clock.stream(), clock.stream(), clock.stream()
    clock.grid(one, 64)
    clock.grid(two, 64)
    kernel = clock.kernel(compute, GEMM)
    clock.synchronize(kernel)
    assert clock.times(kernel).end > clock.times(kernel).start


def test_two_ranks_meet(make: Make) -> None:
    """Each rank tells the other its arrival; both begin at the later one, and the next collective likewise."""
    ranks = [make(), make()]
    streams = [(clock.stream(), clock.stream()) for clock in ranks]
    begun: list[list[Times]] = []
    for step in range(4):
        ops = []
        for rank, (clock, (compute, comm)) in enumerate(zip(ranks, streams, strict=True)):
            for _ in range(rank + step):
                clock.kernel(compute, GEMM)
            clock.wait(comm, clock.record(compute))
            ops.append(clock.grid(comm, 8))
        arrivals = [clock.start(op) for clock, op in zip(ranks, ops, strict=True)]
        for clock, op in zip(ranks, ops, strict=True):
            clock.executed(op, 100 * US, max(arrivals))
            clock.synchronize(op)
        begun.append([clock.times(op) for clock, op in zip(ranks, ops, strict=True)])
    for times in begun:
        assert times[0].begin == times[1].begin
        assert times[0].end == times[1].end
        assert times[0].start < times[1].start


# ---- what has been reported stays ----


def test_open_grid_beside_a_reported_kernel(make: Make) -> None:
    """A kernel's time is asked for while a collective has not run. It is reported once, and the collective's own time
    comes out as if it had been known."""
    clock = make()
    compute, comm = clock.stream(), clock.stream(priority=-1)
    op = clock.grid(comm, 8)
    gemms = [clock.kernel(compute, GEMM) for _ in range(3)]
    clock.synchronize(*gemms)
    reported = [clock.times(gemm) for gemm in gemms]
    arrival = clock.run(op, 200 * US, traffic=10**6)
    clock.synchronize(op)
    assert [clock.times(gemm) for gemm in gemms] == reported
    assert clock.times(op) == Times(arrival, arrival, arrival + 200 * US, 8, 8)


def test_two_synchronizations_in_either_order(make: Make) -> None:
    """Nobody asks in between, so both orders know everything."""
    outcomes = []
    for compute_first in (True, False):
        clock = make()
        compute, comm = clock.stream(), clock.stream(priority=-1)
        op = clock.grid(comm, 8, in_flight=16 << 20)
        gemms = [clock.kernel(compute, GEMM) for _ in range(3)]
        if compute_first:
            clock.synchronize(*gemms)
            clock.run(op, 1 * MS, traffic=10**8)
            clock.synchronize(op)
        else:
            clock.run(op, 1 * MS, traffic=10**8)
            clock.synchronize(op)
            clock.synchronize(*gemms)
        outcomes.append([clock.times(x) for x in (op, *gemms)])
    assert outcomes[0] == outcomes[1]


def test_kernel_that_runs_on_past_a_synchronization(make: Make) -> None:
    """What was beside it has been reported; it comes out as if both had been placed together."""
    small = Kernel(flops=0, read=2e8, written=0, ctas=84, threads=256, registers=32, shared=0)
    large = Kernel(flops=0, read=8e8, written=0, ctas=84, threads=256, registers=32, shared=0)
    outcomes = []
    for together in (True, False):
        clock = make()
        first = clock.kernel(clock.stream(), small)
        second = clock.kernel(clock.stream(), large)
        if not together:
            clock.synchronize(first)
            clock.times(first)
        clock.synchronize(first, second)
        outcomes.append((clock.times(first), clock.times(second)))
    for joint, apart in zip(*outcomes, strict=True):
        assert joint.start == apart.start
        assert joint.end == pytest.approx(apart.end, abs=1000)


Step = tuple[str, int, int, int]
steps = st.lists(
    st.tuples(
        st.sampled_from(["kernel", "kernel", "grid", "wait", "sync", "ask"]),
        st.integers(0, 2),
        st.integers(0, 2),
        st.integers(1, 40),
    ),
    min_size=1,
    max_size=16,
)


class Player:
    """Enqueues a program and runs its grids when the CPU chooses, as late as the program allows or earlier."""

    def __init__(self, clock: Modelled, cpu: random.Random) -> None:
        self.clock, self.cpu = clock, cpu
        self.streams = [clock.stream(priority=p) for p in (0, 0, -1)]
        self.tail: dict[int, int] = {}
        self.waits: dict[int, list[int]] = {}  # operation -> what it waits for
        self.grids: dict[int, tuple[int, int, int]] = {}  # not run yet
        self.arrivals: dict[int, int] = {}
        self.work: list[int] = []
        self.synchronized: list[int] = []
        self.asked: list[tuple[int, Times]] = []

    def enqueued(self, stream: int, op: int, *after: int) -> int:
        # Also what the host thread has synchronized with before.
        self.waits[op] = [*after, *self.synchronized, *([self.tail[stream]] if stream in self.tail else [])]
        self.tail[stream] = op
        return op

    def before(self, op: int) -> list[int]:
        """Grids that have to run before `op` is done, itself included; in an order that works."""
        found: list[int] = []
        seen: set[int] = set()
        todo = [op]
        while todo:
            at = todo.pop()
            if at in seen:
                continue
            seen.add(at)
            todo += self.waits[at]
            if at in self.grids:
                found.append(at)
        return sorted(found)

    def run_grids(self, ops: list[int]) -> None:
        for op in ops:
            if op not in self.grids:
                continue
            duration, late, traffic = self.grids.pop(op)
            self.arrivals[op] = self.clock.start(op)
            self.clock.executed(op, duration, self.arrivals[op] + late, traffic)

    def maybe_run(self) -> None:
        while self.grids and self.cpu.random() < 0.4:
            self.run_grids(self.before(self.cpu.choice(sorted(self.grids))))

    def play(self, program: list[Step]) -> None:
        clock = self.clock
        for kind, stream, other, size in program:
            if kind == "kernel":
                kernel = Kernel(flops=size * 84e8, read=size * 2e7, written=0, ctas=size * 20)
                self.work.append(self.enqueued(stream, clock.kernel(self.streams[stream], kernel)))
            elif kind == "grid":
                op = self.enqueued(stream, clock.grid(self.streams[stream], size, in_flight=size << 20))
                self.grids[op] = (size * 50 * US, (size % 3) * MS, size * 10**7)
                self.work.append(op)
            elif kind == "wait" and other in self.tail:
                record = self.enqueued(other, clock.record(self.streams[other]))
                self.enqueued(stream, clock.wait(self.streams[stream], record), record)
            elif kind == "sync" and stream in self.tail:
                self.run_grids(self.before(self.tail[stream]))
                clock.synchronize(self.tail[stream])
                self.synchronized.append(self.tail[stream])
            elif kind == "ask" and self.work:
                op = self.work[size % len(self.work)]
                self.run_grids(self.before(op))
                self.asked.append((op, clock.times(op)))
            self.maybe_run()
        self.run_grids(sorted(self.grids))
        clock.synchronize(*self.tail.values())


@PROPERTY
@given(program=steps)
def test_times_do_not_depend_on_when_grids_run_on_the_cpu(make: Make, program: list[Step]) -> None:
    """However the CPU schedules the grids, arrivals and times are the same, also those asked for in between."""
    outcomes = set()
    for seed in range(6):
        clock = make()
        player = Player(clock, random.Random(seed))
        player.play(program)
        outcomes.add(
            (tuple(sorted(player.arrivals.items())), tuple(map(clock.times, player.work)), tuple(player.asked))
        )
    assert len(outcomes) == 1


@PROPERTY
@given(program=steps, seed=st.integers(0, 3))
def test_reported_times_stay(make: Make, program: list[Step], seed: int) -> None:
    clock = make()
    player = Player(clock, random.Random(seed))
    player.play(program)
    for op, reported in player.asked:
        assert clock.times(op) == reported


# ---- several host threads and devices ----


def test_threads_of_different_devices_do_not_disturb_each_other(make: Make) -> None:
    """One thread a device; the lock lets them in in any order."""
    outcomes = set()
    for order in itertools.islice(itertools.permutations([0, 0, 0, 1, 1, 1]), 0, 720, 37):
        clock = make(devices=2, hosts=2)
        streams = [(clock.stream(device), clock.stream(device)) for device in range(2)]
        ops: list[list[int]] = [[], []]
        for thread in order:
            compute, comm = streams[thread]
            if len(ops[thread]) == 1:
                ops[thread].append(clock.grid(comm, 8, host=thread))
            else:
                ops[thread].append(clock.kernel(compute, GEMM, host=thread))
        arrivals = []
        for thread in sorted(range(2), key=order.index):
            arrivals.append((thread, clock.run(ops[thread][1], 100 * US, 2 * MS)))
            clock.synchronize(*ops[thread], host=thread)
        outcomes.add(
            (tuple(sorted(arrivals)), *(clock.times(op, host=t) for t in range(2) for op in ops[t]), clock.host_time(1))
        )
    assert len(outcomes) == 1


def test_event_of_another_device(make: Make) -> None:
    clock = make(devices=2, hosts=1)
    one, two = clock.stream(0), clock.stream(1)
    first = clock.kernel(one, GEMM)
    clock.wait(two, clock.record(one))
    second = clock.kernel(two, GEMM)
    clock.synchronize(second)
    assert clock.times(second).start > clock.times(first).end


def test_device_that_is_not_there(make: Make) -> None:
    clock = make()
    with pytest.raises(ClockError, match="no device 3 in the timeline"):
        clock.kernel(clock.stream(3), GEMM)
