# SPDX-License-Identifier: Apache-2.0
"""What follows from the times of a group's operations."""

from __future__ import annotations

from lagom.device.group import summary
from lagom.workload import Communication, Computation, KernelSpec, Workload

KERNEL = KernelSpec(1e9, 1e6, 1e6, 84, 256, 128, 65536)


def test_hidden_communication_is_not_exposed() -> None:
    group = Workload(
        "g", (Communication("c", "broadcast", "int8", 1), Computation("k", KERNEL), Computation("l", KERNEL))
    )
    run = summary(group, {"c": (1, 90), "k": (1, 50), "l": (52, 100)})
    # The pause of 2 between kernels is a launch, not a wait.
    assert (run.x_ns, run.y_ns, run.z_ns, run.exposed_ns) == ((89,), 97, 100, 0)
    assert [(s.name, s.kind, s.start_us, s.end_us) for s in run.spans][2] == ("l", "compute", 0.052, 0.1)


def test_a_tail_is_exposed() -> None:
    group = Workload("g", (Communication("c", "broadcast", "int8", 1), Computation("k", KERNEL)))
    assert summary(group, {"c": (1, 90), "k": (1, 50)}).exposed_ns == 40


def test_a_wait_in_the_middle_is_exposed() -> None:
    group = Workload(
        "g",
        (
            Computation("a", KERNEL),
            Communication("c", "broadcast", "int8", 1, after=("a",)),
            Computation("b", KERNEL),
            Computation("d", KERNEL, after=("c",)),
        ),
    )
    # d's stream is free at 40, but d has to wait for c until 70.
    assert summary(group, {"a": (0, 20), "c": (21, 70), "b": (20, 40), "d": (71, 80)}).exposed_ns == 30


def test_communication_alone_is_all_exposed() -> None:
    group = Workload("g", (Communication("c", "broadcast", "int8", 1),))
    assert summary(group, {"c": (2, 9)}).exposed_ns == 9
