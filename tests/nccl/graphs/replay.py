# SPDX-License-Identifier: Apache-2.0
"""Collectives captured in graphs and launched again and again; run under mpirun. Prints one line a case on rank 0.

Every result is checked against NumPy after every launch, with other contents each time.
"""

import sys
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

import lagom.nccl as nccl

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
COUNT = 70_001  # more than one chunk, and nothing even


def values(step: int, rank: int, count: int = COUNT) -> np.ndarray:
    return ((np.arange(count) * (rank + 2) + step * 7) % 1000).astype(np.float32)


def summed(step: int, count: int = COUNT) -> np.ndarray:
    return np.sum([values(step, rank, count) for rank in range(SIZE)], axis=0)


def once_captured_launched_often(comm: nccl.Communicator, launches: int = 100) -> None:
    stream = nccl.Stream()
    send, recv = nccl.empty(COUNT), nccl.empty(COUNT)
    with nccl.Graph.capture(stream) as graph:
        comm.all_reduce(send, recv, stream=stream)
    assert (recv.from_host(np.zeros(COUNT)).numpy() == 0).all()
    run = graph.instantiate()
    graph.close()
    for step in range(launches):
        send.from_host(values(step, RANK))
        run.launch(stream)
        if step % 10 == 0:
            stream.synchronize()
            assert (recv.numpy() == summed(step)).all(), step
        stream.synchronize()
    assert (recv.numpy() == summed(launches - 1)).all()
    for _ in range(launches):  # with nothing in between
        run.launch(stream)
    stream.synchronize()
    assert (recv.numpy() == summed(launches - 1)).all()
    run.close()


def two_graphs(comm: nccl.Communicator) -> None:
    stream, other = nccl.Stream(), nccl.Stream()
    data, whole = nccl.empty(COUNT), nccl.empty(1000 * SIZE)
    part = nccl.empty(1000)
    with nccl.Graph.capture(stream) as reducing:
        comm.all_reduce(data, stream=stream)
    with nccl.Graph.capture(stream) as gathering:
        comm.all_gather(part, whole, stream=stream)
        comm.all_reduce(part, stream=stream)
    first, second = reducing.instantiate(), gathering.instantiate()
    for step in range(6):
        data.from_host(values(step, RANK))
        part.from_host(values(step, RANK, 1000))
        first.launch(stream)
        second.launch(other if step % 2 else stream)
        nccl.synchronize()
        assert (data.numpy() == summed(step)).all()
        assert (whole.numpy() == np.concatenate([values(step, rank, 1000) for rank in range(SIZE)])).all()
        assert (part.numpy() == summed(step, 1000)).all()
    for made in (reducing, gathering, first, second):
        made.close()


def captured_beside_enqueued(comm: nccl.Communicator) -> None:
    stream, other = nccl.Stream(), nccl.Stream()
    a, b, c = (nccl.empty(COUNT) for _ in range(3))
    with nccl.Graph.capture(stream) as graph:
        comm.all_reduce(a, stream=stream)
    run = graph.instantiate()
    for step in range(8):
        for offset, buffer in enumerate((a, b, c)):
            buffer.from_host(values(step + offset, RANK))
        comm.all_reduce(b, stream=stream)
        run.launch(stream)
        comm.all_reduce(c, stream=other if step % 2 else stream)
        nccl.synchronize()
        for offset, buffer in enumerate((a, b, c)):
            assert (buffer.numpy() == summed(step + offset)).all(), (step, offset)
    graph.close()
    run.close()


def a_group_over_two_streams(comm: nccl.Communicator) -> None:
    stream, side = nccl.Stream(), nccl.Stream()
    a, b = nccl.empty(COUNT), nccl.empty(1000)
    fork, join = nccl.Event(), nccl.Event()
    with nccl.Graph.capture(stream) as graph:
        fork.record(stream)
        side.wait(fork)
        with nccl.group():
            comm.all_reduce(a, stream=stream)
            comm.all_reduce(b, stream=side)
        join.record(side)
        stream.wait(join)
    run = graph.instantiate()
    for step in range(4):
        a.from_host(values(step, RANK))
        b.from_host(values(step, RANK, 1000))
        run.launch(stream)
        stream.synchronize()
        assert (a.numpy() == summed(step)).all() and (b.numpy() == summed(step, 1000)).all()
    graph.close()
    run.close()


def update(comm: nccl.Communicator) -> None:
    stream = nccl.Stream()
    first, second = nccl.empty(COUNT), nccl.empty(COUNT)
    graphs = []
    for buffer in (first, second):
        with nccl.Graph.capture(stream) as graph:
            comm.all_reduce(buffer, stream=stream)
        graphs.append(graph)
    run = graphs[0].instantiate()
    run.update(graphs[1])
    for buffer in (first, second):
        buffer.from_host(values(3, RANK))
    run.launch(stream)
    stream.synchronize()
    assert (first.numpy() == values(3, RANK)).all() and (second.numpy() == summed(3)).all()
    for made in (*graphs, run):
        made.close()


CASES: tuple[Callable[[nccl.Communicator], None], ...] = (
    once_captured_launched_often,
    two_graphs,
    captured_beside_enqueued,
    a_group_over_two_streams,
    update,
)


def main() -> None:
    modes = [int(word) for word in sys.argv[1:]] or [2]
    for mode in modes:
        comm = nccl.init(WORLD, config=nccl.Config(graph_usage_mode=mode))
        for case in CASES:
            # Without mixing, NCCL wants what is captured apart from what is not.
            if mode != 2 and case is captured_beside_enqueued:
                continue
            case(comm)
            if RANK == 0:
                print(mode, case.__name__, flush=True)
        comm.destroy()  # waits until every plan of a graph has come back
    WORLD.Barrier()
    if RANK == 0:
        print("done", flush=True)


if __name__ == "__main__":
    main()
