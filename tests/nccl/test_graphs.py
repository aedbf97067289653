# SPDX-License-Identifier: Apache-2.0
"""Graphs in Python: capture, launch, update, and what is refused."""

from typing import Any

import numpy as np
import pytest

import lagom.nccl as nccl


@pytest.mark.mpi
def test_a_captured_all_reduce(comm: nccl.Communicator) -> None:
    stream = nccl.Stream()
    data = nccl.empty(3001, "float32")
    with nccl.Graph.capture(stream) as graph:
        comm.all_reduce(data, stream=stream)
    run = graph.instantiate()
    assert graph.nodes >= 1
    for step in range(5):
        data.from_host(np.arange(3001) % 100 + comm.rank + step)
        run.launch(stream)
        stream.synchronize()
        expected = comm.size * (np.arange(3001) % 100 + step) + sum(range(comm.size))
        assert (data.numpy() == expected).all()
    run.close()
    graph.close()


@pytest.mark.mpi
def test_rules_are_not_set_while_capturing(patched: nccl.Library, comm: nccl.Communicator, world: Any) -> None:
    stream = nccl.Stream()
    data = nccl.zeros(1000)
    rule = nccl.Rule("all_reduce", knobs=nccl.Knobs(algorithm="ring", channels=1))
    with nccl.Graph.capture(stream, "relaxed") as graph:
        comm.set_rules([rule])  # nothing of this communicator has been captured yet
        comm.all_reduce(data, stream=stream)
        with pytest.raises(nccl.NcclError, match="is being captured"):
            comm.set_rules([])
    comm.set_rules([])
    run = graph.instantiate()  # keeps the rule that it was captured under
    data.from_host(np.full(1000, 1))
    run.launch(stream)
    stream.synchronize()
    assert (data.numpy() == comm.size).all()
    run.close()
    graph.close()


def fill(stream: nccl.Stream, buffer: nccl.DeviceBuffer, byte: int) -> nccl.Graph:
    with nccl.Graph.capture(stream) as graph:
        buffer.fill_bytes(byte, stream)
    return graph


def test_launch_and_update(hostcuda: nccl.Library) -> None:
    stream = nccl.Stream()
    data = nccl.zeros(4, "uint8")
    graph = fill(stream, data, 1)
    assert graph.nodes == 1
    assert not data.numpy().any()
    run = graph.instantiate()
    run.launch(stream)
    stream.synchronize()
    assert data.numpy().tolist() == [1, 1, 1, 1]
    run.update(fill(stream, data, 2))
    run.launch(stream)
    stream.synchronize()
    assert data.numpy().tolist() == [2, 2, 2, 2]
    with nccl.Graph.capture(stream) as other:
        stream.launch(nccl.Kernel("product", flops=1e6))
    with pytest.raises(ValueError, match="the graph does not fit: a node does something of another kind"):
        run.update(other)
    with nccl.Graph.capture(stream) as nothing:
        pass
    assert nothing.nodes == 0
    with pytest.raises(ValueError, match="the graphs have other nodes or edges"):
        run.update(nothing)
    run.close()
    run.close()
    with pytest.raises(ValueError, match="has been closed"):
        run.launch(stream)
    graph.close()
    with pytest.raises(ValueError, match="it has been closed"):
        graph.instantiate()


def test_a_broken_capture(hostcuda: nccl.Library) -> None:
    stream = nccl.Stream()
    data = nccl.zeros(4, "uint8")
    with pytest.raises(nccl.CudaError) as broken, nccl.Graph.capture(stream) as graph:
        assert stream.capturing()
        stream.synchronize()
    assert broken.value.name == "cudaErrorStreamCaptureUnsupported"
    assert not stream.capturing()
    with pytest.raises(ValueError, match="this graph is empty"):
        graph.instantiate()
    # Broken, and nobody looked until the end.
    with pytest.raises(nccl.CudaError) as broken, nccl.Graph.capture(stream), pytest.raises(nccl.CudaError):
        stream.synchronize()
    assert broken.value.name == "cudaErrorStreamCaptureInvalidated"
    with pytest.raises(RuntimeError, match="mine"), nccl.Graph.capture(stream):
        raise RuntimeError("mine")
    with pytest.raises(nccl.CudaError, match="cudaStreamBeginCapture"), nccl.Graph.capture(None):
        pass
    refused = pytest.raises(ValueError, match="mode 'loose' is none of global, thread_local, relaxed")
    with refused, nccl.Graph.capture(stream, "loose"):
        pass
    data.fill_bytes(3, stream)
    stream.synchronize()
    assert data.numpy().tolist() == [3, 3, 3, 3]
