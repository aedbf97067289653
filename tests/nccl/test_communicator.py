# SPDX-License-Identifier: Apache-2.0
"""Communicators on 2, 3 and 4 ranks: collectives, groups, split, refused arguments, and the life of a communicator."""

from typing import Any

import numpy as np
import pytest

import lagom.nccl as nccl

pytestmark = pytest.mark.mpi


def test_ranks_and_devices(comm: nccl.Communicator, world: Any) -> None:
    assert (comm.rank, comm.size) == (world.Get_rank(), world.Get_size())
    assert sorted(world.allgather(comm.device)) == list(range(comm.size))
    assert comm.alive and f"rank {comm.rank} of {comm.size}" in repr(comm)


def test_all_reduce_in_place_and_not(comm: nccl.Communicator) -> None:
    send, recv = nccl.empty(1000, "int32").from_host(np.arange(1000) + comm.rank), nccl.empty(1000, "int32")
    comm.all_reduce(send, recv, op="max")
    comm.all_reduce(send)
    nccl.synchronize()
    assert (recv.numpy() == np.arange(1000) + comm.size - 1).all()
    assert (send.numpy() == comm.size * np.arange(1000) + sum(range(comm.size))).all()


def test_all_gather_of_a_part_of_its_own_result(comm: nccl.Communicator) -> None:
    whole = nccl.zeros(10 * comm.size)
    mine = whole[10 * comm.rank : 10 * (comm.rank + 1)].from_host(np.full(10, comm.rank + 1))
    comm.all_gather(mine, whole)
    nccl.synchronize()
    assert whole.numpy().tolist() == [float(1 + i // 10) for i in range(10 * comm.size)]


def test_reduce_scatter(comm: nccl.Communicator) -> None:
    send = nccl.empty(7 * comm.size, "float64").from_host(np.arange(7 * comm.size))
    recv = nccl.empty(7, "float64")
    comm.reduce_scatter(send, recv)
    nccl.synchronize()
    assert (recv.numpy() == comm.size * np.arange(7 * comm.rank, 7 * (comm.rank + 1))).all()


def test_broadcast_and_reduce_with_one_buffer(comm: nccl.Communicator) -> None:
    root = comm.size - 1
    data = nccl.empty(5, "float32").from_host(np.full(5, comm.rank))
    comm.broadcast(data, root=root)
    nccl.synchronize()
    assert (data.numpy() == root).all()
    only_recv = nccl.empty(5, "float32")
    comm.broadcast(data if comm.rank == root else None, only_recv, root=root)
    comm.reduce(data, None if comm.rank else nccl.empty(5), root=0)
    comm.reduce(data, root=0)
    nccl.synchronize()
    assert (only_recv.numpy() == root).all()
    assert (data.numpy() == (root * comm.size if comm.rank == 0 else root)).all()


def test_a_group_in_one_stream(comm: nccl.Communicator) -> None:
    stream = nccl.Stream()
    buffers = [nccl.empty(100 * (i + 1), "float32").from_host(np.full(100 * (i + 1), i)) for i in range(4)]
    with nccl.group():
        for buffer in buffers:
            comm.all_reduce(buffer, stream=stream)
    stream.synchronize()
    for i, buffer in enumerate(buffers):
        assert (buffer.numpy() == i * comm.size).all()


def test_numpy_views_of_device_memory_are_buffers(comm: nccl.Communicator) -> None:
    data = nccl.empty(64, "float16")
    data.numpy()[:] = 2
    comm.all_reduce(data.numpy())
    nccl.synchronize()
    assert (data.numpy() == 2 * comm.size).all()


def test_split(comm: nccl.Communicator, world: Any) -> None:
    half = comm.split(comm.rank % 2, key=-comm.rank)
    assert half is not None
    with half:
        assert half.size == len(range(comm.rank % 2, comm.size, 2))
        data = nccl.empty(3, "int32").from_host([comm.rank] * 3)
        half.all_reduce(data)
        nccl.synchronize()
        assert (data.numpy() == sum(range(comm.rank % 2, comm.size, 2))).all()
    none = comm.split(0 if comm.rank == 0 else None)
    assert (none is None) == (comm.rank != 0)
    if none is not None:
        none.destroy()
    with pytest.raises(ValueError, match="color -2"):
        comm.split(-2)
    world.Barrier()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda c, b: c.all_reduce(b, nccl.empty(9)), "send has 10 elements, recv 9"),
        (lambda c, b: c.all_reduce(b, nccl.empty(10, "int32")), "send is float32, recv int32"),
        (lambda c, b: c.all_reduce(b, op="xor"), "unknown reduction 'xor'; one of sum, prod, max, min, avg"),
        (lambda c, b: c.all_gather(b, b), r"recv has 10 elements; \d ranks x send's 10 are needed"),
        (lambda c, b: c.reduce_scatter(b, b), r"send has 10 elements; \d ranks x recv's 10 needed"),
        (lambda c, b: c.broadcast(b, root=9), "root 9: allowed is 0 to"),
        (lambda c, b: c.reduce(b, b, root=-1), "root -1: allowed is 0 to"),
        (lambda c, b: c.all_reduce(np.zeros(10, np.float32)), "send is pageable host memory"),
        (lambda c, b: c.all_reduce("words"), "send: str is no memory"),
        (lambda c, b: c.all_reduce(b, stream="s"), "not a stream"),
    ],
)
def test_refused_before_nccl_is_called(comm: nccl.Communicator, call: Any, says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        call(comm, nccl.empty(10))
    comm.check()


def test_life(hostcuda: nccl.Library, world: Any) -> None:
    comm = nccl.init(world, config=nccl.Config(max_ctas=2, name="short"))
    comm.destroy()
    comm.destroy()
    comm.abort()
    assert not comm.alive and "ended" in repr(comm)
    with pytest.raises(ValueError, match="destroyed or aborted"):
        comm.all_reduce(nccl.empty(1))
    with pytest.raises(ValueError, match="words"), nccl.init(world):
        raise ValueError("words")


def test_without_mpi(hostcuda: nccl.Library, world: Any) -> None:
    identity = world.bcast(nccl.unique_id() if world.Get_rank() == 0 else None)
    with nccl.init(unique_id=identity, rank=world.Get_rank(), size=world.Get_size()) as comm:
        data = nccl.zeros(3).from_host([1, 2, 3])
        comm.all_reduce(data)
        nccl.synchronize()
        assert (data.numpy() == comm.size * np.array([1, 2, 3])).all()
        if hostcuda.patched:
            comm.set_rules([])
    with pytest.raises(ValueError, match="go together"):
        nccl.init(rank=0, size=1)


def test_all_ranks_fail_where_one_does(hostcuda: nccl.Library, world: Any) -> None:
    last = world.Get_size() - 1
    with pytest.raises(ValueError, match="device 99: this host has 8 devices") as caught:
        nccl.init(world, device=99 if world.Get_rank() == last else None)
    assert caught.value.__notes__ == [f"on rank {last}"]
    with pytest.raises(ValueError, match="ranks 0 and 1 both chose device 3"):
        nccl.init(world, device=3)


def test_memory_that_overlaps_is_refused(comm: nccl.Communicator) -> None:
    part, whole = 16, nccl.zeros(16 * comm.size + 1)
    mine = whole[part * comm.rank : part * (comm.rank + 1)]
    shifted = whole[part * comm.rank + 1 : part * (comm.rank + 1) + 1]
    gathered = whole[: part * comm.size]
    for call in (
        lambda: comm.all_reduce(mine, shifted),
        lambda: comm.all_gather(shifted, gathered),
        lambda: comm.reduce_scatter(gathered, shifted),
        lambda: comm.broadcast(mine, shifted, root=comm.rank),
        lambda: comm.reduce(mine, shifted, root=comm.rank),
    ):
        with pytest.raises(ValueError, match="send and recv overlap"):
            call()
    neighbour = whole[: part * comm.size][-part:] if comm.rank == 0 else whole[:part]
    with pytest.raises(ValueError, match="overlap"):
        comm.all_gather(neighbour, gathered)
    comm.all_gather(mine, gathered)
    comm.reduce_scatter(gathered, mine)
    nccl.synchronize()


def test_a_group_keeps_its_communicators(comm: nccl.Communicator, world: Any) -> None:
    data = nccl.zeros(8).from_host(np.ones(8))
    with nccl.group():
        comm.all_reduce(data)
        for what, call in {
            "destroy": comm.destroy,
            "abort": comm.abort,
            "split": lambda: comm.split(0),
            "init": lambda: nccl.init(world),
        }.items():
            with pytest.raises(ValueError, match=f"{what} inside a group"):
                call()
    nccl.synchronize()
    assert (data.numpy() == comm.size).all()


def test_what_one_rank_stumbles_over_is_heard_by_all(comm: nccl.Communicator, world: Any) -> None:
    last = comm.rank == comm.size - 1
    with pytest.raises(TypeError, match="Config is needed") as caught:
        nccl.init(world, config="x" if last else None)  # type: ignore[arg-type]
    assert f"on rank {comm.size - 1}" in caught.value.__notes__
    with pytest.raises(TypeError, match="device is '1'"):
        nccl.init(world, device="1" if last else None)  # type: ignore[arg-type]
    if nccl.library().patched:
        for wrong in (None, ["x"]):
            with pytest.raises(TypeError if last else nccl.NcclError, match=None if last else "-1 rules"):
                comm.set_rules(wrong if last else [])  # type: ignore[arg-type]


def test_a_root_is_a_whole_number(comm: nccl.Communicator) -> None:
    data = nccl.zeros(8)
    for root in (0.5, "0", True):
        with pytest.raises(TypeError, match="root is"):
            comm.broadcast(data, root=root)  # type: ignore[arg-type]
    for color in (-1, 1 << 40):
        with pytest.raises(ValueError, match="color"):
            comm.split(color)


def test_memory_of_another_device_is_refused(comm: nccl.Communicator) -> None:
    nccl.set_device(comm.size)
    try:
        elsewhere = nccl.zeros(8)
        with pytest.raises(ValueError, match=f"send is memory of device {comm.size}, this communicator's is"):
            comm.all_reduce(elsewhere)
    finally:
        nccl.set_device(comm.device)


def test_a_failed_start_leaves_the_current_device(comm: nccl.Communicator, world: Any) -> None:
    with pytest.raises(ValueError, match="ranks 0 and 1 both chose device"):
        nccl.init(world, device=comm.size)
    assert nccl.zeros(1).device == comm.device
