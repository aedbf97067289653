# SPDX-License-Identifier: Apache-2.0
"""Sends, receives and the collectives made of them, reductions made by the program, registered memory and windows; on
2, 3 and 4 ranks."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lagom.nccl as nccl

pytestmark = pytest.mark.mpi
PART = 1000


@pytest.fixture(scope="module")
def stream(comm: nccl.Communicator) -> Iterator[nccl.Stream]:
    yield nccl.Stream()


def parts(rank: int, ranks: int) -> np.ndarray:
    """What ``rank`` sends: for each rank a part that only these two share."""
    return np.concatenate([np.full(PART, 100 * rank + peer) + np.arange(PART) / PART for peer in range(ranks)])


def part(of: int, to: int) -> np.ndarray:
    return np.full(PART, 100 * of + to) + np.arange(PART) / PART


def test_a_ring_of_sends(comm: nccl.Communicator, stream: nccl.Stream) -> None:
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    mine, got = nccl.empty(PART, "float64").from_host(part(comm.rank, after), stream), nccl.empty(PART, "float64")
    with nccl.group():
        comm.send(mine, after, stream)
        comm.recv(got, before, stream)
    assert (got.to_host(stream) == part(before, comm.rank)).all()


def test_one_after_another_and_to_oneself(comm: nccl.Communicator, stream: nccl.Stream) -> None:
    """Without a group, where only one side waits for the other; within one to the own rank."""
    mine, got = nccl.empty(PART, "float64").from_host(part(comm.rank, 0), stream), nccl.zeros(PART, "float64")
    if comm.rank == 0:
        comm.send(mine, 1, stream)
    elif comm.rank == 1:
        comm.recv(got, 0, stream)
        assert (got.to_host(stream) == part(0, 0)).all()
    with nccl.group():
        comm.send(mine, comm.rank, stream)
        comm.recv(got, comm.rank, stream)
    assert (got.to_host(stream) == part(comm.rank, 0)).all()


def test_alltoall(comm: nccl.Communicator, stream: nccl.Stream) -> None:
    mine = nccl.empty(PART * comm.size, "float64").from_host(parts(comm.rank, comm.size), stream)
    got = nccl.zeros(PART * comm.size, "float64")
    comm.alltoall(mine, got, stream)
    assert (got.to_host(stream) == np.concatenate([part(r, comm.rank) for r in range(comm.size)])).all()


@pytest.mark.parametrize("in_place", [False, True])
def test_gather_and_scatter(comm: nccl.Communicator, stream: nccl.Stream, in_place: bool) -> None:
    root = comm.size - 1
    whole = nccl.zeros(PART * comm.size, "float64")
    mine = nccl.empty(PART, "float64")
    if in_place and comm.rank == root:
        mine = whole[PART * root :]
    mine.from_host(part(comm.rank, 7), stream)
    comm.gather(mine, whole if comm.rank == root else None, root, stream)
    if comm.rank == root:
        assert (whole.to_host(stream) == np.concatenate([part(r, 7) for r in range(comm.size)])).all()
        whole.from_host(parts(root, comm.size), stream)
    comm.scatter(whole if comm.rank == root else None, mine, root, stream)
    assert (mine.to_host(stream) == part(root, comm.rank)).all()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda c, b: c.send(b, c.size), r"peer \d: allowed is 0 to"),
        (lambda c, b: c.recv(b, -1), "peer -1: allowed is 0 to"),
        (lambda c, b: c.alltoall(b[: c.size], b[: c.size]), "alltoall: send and recv overlap"),
        (lambda c, b: c.alltoall(nccl.empty(c.size + 1), nccl.empty(c.size + 1)), r"a multiple of \d, one part"),
        (lambda c, b: c.gather(b, nccl.empty(7), c.rank), "gather: recv has 7 elements"),
        (lambda c, b: c.gather(b, None, c.rank), "gather: recv is None; the root needs it"),
        (lambda c, b: c.scatter(None, b, c.rank), "scatter: send is None; the root needs it"),
        (lambda c, b: c.scatter(nccl.empty(10 * c.size, "int32"), b, c.rank), "the root's send is int32"),
        (lambda c, b: c.all_reduce(b, op=c.pre_mul_sum(2, "int32")), "the reduction is for int32, the data is float32"),
        (lambda c, b: c.pre_mul_sum(1.5, "int32"), "scalar is 1.5; a whole number is needed"),
        (lambda c, b: c.pre_mul_sum(300, "uint8"), "scalar 300: allowed is 0 to 255"),
        (lambda c, b: c.pre_mul_sum(b, "float32"), "scalar is 10 x float32; one float32 is needed"),
        (lambda c, b: c.window(b[:0]), "memory has 0 elements"),
        (lambda c, b: c.window(b[1:]), "a multiple of 4096 is needed"),
        (lambda c, b: c.wait_signals([]), "nothing to wait for"),
        (lambda c, b: c.put_signal(b, 0, None), "no open lagom.nccl.Window"),
        (lambda c, b: c.shrink([]), "other ranks are needed"),
        (lambda c, b: c.shrink([c.rank]), "other ranks are needed"),
        (lambda c, b: c.grow(c.size), "size .: allowed is"),
        (lambda c, b: c.split(0, config="x"), "a lagom.nccl.Config is needed"),
    ],
)
def test_refused_before_nccl_is_called(comm: nccl.Communicator, call: Any, says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        call(comm, nccl.empty(10))
    comm.check()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("on_device", [False, True])
def test_a_sum_of_scaled_inputs(comm: nccl.Communicator, stream: nccl.Stream, dtype: str, on_device: bool) -> None:
    """Each rank has a scalar of its own; small whole numbers are exact in every type."""
    scalar = comm.rank + 2
    given = nccl.empty(1, dtype).from_host([scalar], stream) if on_device else scalar
    values = np.arange(999) % 5
    mine, got = nccl.empty(999, dtype).from_host(values, stream), nccl.empty(999, dtype)
    with comm.pre_mul_sum(given, dtype) as op:
        comm.all_reduce(mine, got, op, stream)
        assert (got.to_host(stream).astype(int) == values * sum(r + 2 for r in range(comm.size))).all()
        comm.reduce(mine, got, op, comm.size - 1, stream)
        if comm.rank == comm.size - 1:
            assert (got.to_host(stream).astype(int) == values * sum(r + 2 for r in range(comm.size))).all()
    with pytest.raises(ValueError, match="has been destroyed"):
        comm.all_reduce(mine, got, op, stream)
    op.destroy()


def test_a_reduction_belongs_to_its_communicator(comm: nccl.Communicator, world: Any) -> None:
    child = comm.split(0)
    assert child is not None
    with child, comm.pre_mul_sum(2, "float32") as op, pytest.raises(ValueError, match="another communicator"):
        child.all_reduce(nccl.zeros(4), op=op)


def test_registered_memory(comm: nccl.Communicator, stream: nccl.Stream) -> None:
    memory = nccl.mem_alloc(1 << 16, "float32")
    assert memory.address % 4096 == 0 and memory.numpy().size == 1 << 16
    with comm.register(memory) as registration:
        assert registration.active
        memory.from_host(np.arange(1 << 16) % 7, stream)
        comm.all_reduce(memory, stream=stream)
        assert (memory.to_host(stream) == comm.size * (np.arange(1 << 16) % 7)).all()
    assert not registration.active
    registration.close()


def test_a_communicator_takes_its_registrations_along(hostcuda: nccl.Library, world: Any) -> None:
    count = 1 << 18
    with nccl.init(world) as comm:
        mine, got = nccl.mem_alloc(count, "int32"), nccl.mem_alloc(count, "int32")
        # Both sides of a send: NCCL needs that, and crashes where a communicator is destroyed with them.
        registration = comm.register(mine)
        comm.register(got)
        op = comm.pre_mul_sum(2, "float32")
        mine.from_host(np.arange(count) + comm.rank)
        with nccl.group():
            comm.send(mine, (comm.rank + 1) % comm.size)
            comm.recv(got, (comm.rank - 1) % comm.size)
        assert (got.to_host() == np.arange(count) + (comm.rank - 1) % comm.size).all()
    registration.close()
    op.destroy()


def test_what_a_communicator_says(comm: nccl.Communicator) -> None:
    said, used = comm.properties(), comm.memory_use()
    assert said.nvml_device == comm.device and said.gin in ("none", "proxy") and said.lsa_teams >= 1
    assert used.total_bytes >= used.persistent_bytes > 0 and not used.suspended


def test_a_child_inherits(comm: nccl.Communicator, world: Any) -> None:
    """A child without a configuration has its parent's, also its channels; one with its own has not."""
    if not nccl.library().patched:
        pytest.skip("only the patched library counts channels")

    def channels(of: nccl.Communicator | None) -> int:
        assert of is not None
        of.counters.enable()
        data = nccl.zeros(1 << 18)
        of.all_reduce(data)
        nccl.synchronize()
        (record,) = of.counters.read()
        return record.used.channels or 0

    with nccl.init(world, config=nccl.Config(max_ctas=1, name="parent")) as parent:
        with parent.split(0) as child:  # type: ignore[union-attr]  # a color is given
            assert channels(child) == 1
        with parent.split(0, config=nccl.Config(max_ctas=2)) as child:  # type: ignore[union-attr]
            assert channels(child) == 2
