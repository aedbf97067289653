# SPDX-License-Identifier: Apache-2.0
"""Several devices driven by one thread: communicators made in a group, split, shrunk, grown, finalized; estimates."""

from collections.abc import Iterator

import numpy as np
import pytest

import lagom.nccl as nccl

pytestmark = pytest.mark.usefixtures("hostcuda")
RANKS = 3


@pytest.fixture
def comms(hostcuda: nccl.Library) -> Iterator[list[nccl.Communicator]]:
    made = nccl.init_all(RANKS)
    yield made
    for comm in made:
        comm.destroy()


def sums(comms: list[nccl.Communicator]) -> list[list[float]]:
    """What each device has after an all-reduce of rank + 1."""
    buffers = []
    for comm in comms:
        nccl.set_device(comm.device)
        buffers.append(nccl.empty(100).from_host(np.full(100, comm.rank + 1)))
    with nccl.group():
        for comm, buffer in zip(comms, buffers, strict=True):
            comm.all_reduce(buffer)
    for comm in comms:
        nccl.set_device(comm.device)
        nccl.synchronize()
    return [sorted(set(buffer.numpy().tolist())) for buffer in buffers]


def test_init_all(comms: list[nccl.Communicator]) -> None:
    assert [(comm.rank, comm.size, comm.device) for comm in comms] == [(r, RANKS, r) for r in range(RANKS)]
    assert sums(comms) == [[6.0]] * RANKS


def test_chosen_devices() -> None:
    made = nccl.init_all([5, 2])
    assert [(comm.rank, comm.device) for comm in made] == [(0, 5), (1, 2)]
    assert sums(made) == [[3.0]] * 2
    for comm in made:
        comm.destroy()
    for wrong, says in ((99, "devices 99: allowed is 1 to 8"), ([0, 8], "device 8"), ([1, 1], "each once")):
        with pytest.raises(ValueError, match=says):
            nccl.init_all(wrong)  # type: ignore[arg-type]


def test_init_in_a_group() -> None:
    """With a configuration, and with several unique ids."""
    for identity in (nccl.unique_id(), [nccl.unique_id(), nccl.unique_id()]):
        with nccl.group():
            made = [
                nccl.init(unique_id=identity, rank=rank, size=RANKS, config=nccl.Config(max_ctas=1, name="three"))
                for rank in range(RANKS)
            ]
            with pytest.raises(ValueError, match="all_reduce inside a group of communicators"):
                made[0].all_reduce(nccl.zeros(1))
        assert [comm.rank for comm in made] == list(range(RANKS))
        assert sums(made) == [[6.0]] * RANKS
        with nccl.group():
            for comm in made:
                comm.finalize()
        for comm in made:
            comm.destroy()
    with pytest.raises(ValueError, match="2 unique ids for 1 ranks"):
        nccl.init(unique_id=[nccl.unique_id()] * 2, rank=0, size=1)


def test_children(comms: list[nccl.Communicator]) -> None:
    with nccl.group():
        halves = [comm.split(0 if comm.rank < 2 else None, key=-comm.rank) for comm in comms]
    assert halves[2] is None
    pair = [half for half in halves if half is not None]
    assert [(half.rank, half.device) for half in pair] == [(1, 0), (0, 1)]
    assert sums(pair) == [[3.0]] * 2
    with nccl.group():
        rest = [comm.shrink([1]) for comm in comms if comm.rank != 1]
    assert [(comm.rank, comm.size, comm.device) for comm in rest] == [(0, 2, 0), (1, 2, 2)]
    assert sums(rest) == [[3.0]] * 2
    for comm in (*pair, *rest):
        comm.destroy()


def test_growing(comms: list[nccl.Communicator]) -> None:
    identity = comms[0].grow_id()
    with nccl.group():
        more = [comm.grow(RANKS + 1, identity if comm.rank == 0 else None) for comm in comms]
        more.append(nccl.join(identity, RANKS, RANKS + 1))
    assert [(comm.rank, comm.size) for comm in more] == [(r, RANKS + 1) for r in range(RANKS + 1)]
    assert sums(more) == [[10.0]] * (RANKS + 1)
    for comm in more:
        comm.destroy()


def test_an_estimate_runs_nothing(comms: list[nccl.Communicator]) -> None:
    buffers = []
    for comm in comms:
        nccl.set_device(comm.device)
        buffers.append(nccl.zeros(1 << 20).from_host(np.ones(1 << 20)))
    times_us = []
    for count in (1, 1 << 20):
        with nccl.simulate() as estimate:
            for comm, buffer in zip(comms, buffers, strict=True):
                comm.all_reduce(buffer[:count])
        assert estimate.time_us is not None
        times_us.append(estimate.time_us)
    assert 0 < times_us[0] < times_us[1]
    assert sums(comms) == [[6.0]] * RANKS
    assert all((buffer.numpy() == 1).all() for buffer in buffers)
    with nccl.simulate() as estimate, nccl.group():
        for comm, buffer in zip(comms, buffers, strict=True):
            comm.send(buffer, (comm.rank + 1) % RANKS)
            comm.recv(buffer, (comm.rank - 1) % RANKS)
    assert estimate.time_us is None
    with nccl.group(), pytest.raises(ValueError, match="simulate inside a group"), nccl.simulate():
        pass


def test_calls_that_do_not_block() -> None:
    with nccl.group():
        identity = nccl.unique_id()
        made = [
            nccl.init(unique_id=identity, rank=rank, size=RANKS, config=nccl.Config(blocking=False))
            for rank in range(RANKS)
        ]
    for comm in made:
        comm.wait_ready(timeout_s=60)
    with pytest.raises(ValueError, match="needs a blocking communicator"), nccl.simulate():
        made[0].all_reduce(nccl.zeros(1))
    with nccl.group():
        children = [comm.split(0) for comm in made]
    for child in children:
        assert child is not None
        child.wait_ready(timeout_s=60)
        assert child.ready() and not child.blocking and child.size == RANKS
    for comm in (*[child for child in children if child is not None], *made):
        comm.abort()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"min_ctas": 4}, "min_ctas 4 without max_ctas"),
        ({"min_ctas": 4, "max_ctas": 2}, "min_ctas 4 is above max_ctas 2"),
        ({"max_ctas": 65}, "max_ctas 65: allowed is 1 to 64"),
        ({"cta_policy": 3}, "cta_policy 3: allowed is 0 to 2"),
        ({"graph_usage_mode": 3}, "graph_usage_mode 3"),
        ({"rma_contexts": 0}, "rma_contexts 0"),
        ({"cga_cluster_size": 9}, "cga_cluster_size 9: allowed is 0 to 8"),
        ({"blocking": 1}, "blocking is 1; True or False is needed"),
        ({"name": "a\0b"}, "text without zero bytes"),
    ],
)
def test_configurations_that_nccl_would_refuse_or_replace(fields: dict[str, object], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        nccl.Config(**fields)  # type: ignore[arg-type]


def test_an_environment_that_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_COMM_BLOCKING", "1")
    with pytest.raises(ValueError, match="NCCL_COMM_BLOCKING=1 overrides blocking=False"):
        nccl.init(unique_id=nccl.unique_id(), rank=0, size=1, config=nccl.Config(blocking=False))
    monkeypatch.setenv("NCCL_COMM_BLOCKING", "0")
    with pytest.raises(ValueError, match="init_all makes blocking communicators"):
        nccl.init_all(1)


def test_every_field_of_a_configuration() -> None:
    config = nccl.Config(
        min_ctas=1,
        max_ctas=4,
        cga_cluster_size=0,
        nvls_ctas=2,
        cta_policy=1,
        traffic_class=1,
        split_share=1,
        net_name="Socket",
        name="all fields",
        blocking=True,
        shrink_share=1,
        collnet_enable=0,
        channels_per_net_peer=1,
        nvlink_centric_sched=1,
        graph_usage_mode=1,
        rma_contexts=1,
    )
    with nccl.group():
        identity = nccl.unique_id()
        made = [nccl.init(unique_id=identity, rank=rank, size=2, config=config) for rank in range(2)]
    assert sums(made) == [[3.0]] * 2
    for comm in made:
        comm.destroy()
