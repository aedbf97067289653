# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs: work of streams, captured once and launched any number of times."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from . import _native
from .library import library
from .streams import stream_address

MODES = ("global", "thread_local", "relaxed")

# cudaGraphExecUpdateResult
_UPDATE_REASONS = {
    1: "an error that CUDA does not explain",
    2: "the graphs have other nodes or edges",
    3: "a node does something of another kind",
    4: "a kernel is another one",
    5: "a parameter of a node cannot change",
    6: "a node cannot be changed at all",
    7: "a kernel is one that cannot take the place of the other",
    8: "an attribute of a node cannot change",
}


class Graph:
    """What was captured from a stream. Addresses and counts are those of the captured calls; the buffers' contents are
    read at each launch, so keep the buffers, and the communicators of captured collectives, as long as it is launched.

    with nccl.Graph.capture(stream) as graph:
        comm.all_reduce(data, stream=stream)
    step = graph.instantiate()
    step.launch(stream)
    """

    def __init__(self) -> None:
        self._handle: _native.GraphHandle | None = None

    @classmethod
    @contextmanager
    def capture(cls, stream: Any, mode: str = "global") -> Iterator["Graph"]:
        """Capture what is enqueued in ``stream`` (see :func:`stream_address`) and in streams that join it by events.

        Nothing runs meanwhile; the graph is filled when the block ends, and an exception in the block discards it.
        ``mode`` says who may not allocate or synchronize meanwhile: ``"global"`` all threads, ``"thread_local"`` this
        one, ``"relaxed"`` nobody. ValueError for another mode; CudaError where CUDA refuses or the block broke a rule
        of capture.
        """
        if mode not in MODES:
            raise ValueError(f"mode {mode!r} is none of {', '.join(MODES)}")
        library()
        address = stream_address(stream)
        graph = cls()
        _native.begin_capture(address, MODES.index(mode))
        try:
            yield graph
        except BaseException:
            _discard(address)
            raise
        graph._handle = _native.GraphHandle.end_capture(address)

    @property
    def nodes(self) -> int:
        """How many nodes it has."""
        return self._native_handle().nodes()

    def instantiate(self) -> "GraphExec":
        """An executable graph; this one may change or go afterwards. CudaError where CUDA refuses."""
        return GraphExec(_native.GraphExecHandle(self._native_handle()))

    def close(self) -> None:
        """Destroy it; executable graphs made from it live on. Twice is once."""
        if self._handle is not None:
            self._handle.destroy()
            self._handle = None

    def _native_handle(self) -> _native.GraphHandle:
        if self._handle is None:
            raise ValueError("this graph is empty: its capture has not ended, was broken, or it has been closed")
        return self._handle


class GraphExec:
    """A graph that can be launched. Its launches follow each other, whatever their streams."""

    def __init__(self, handle: _native.GraphExecHandle) -> None:
        self._handle: _native.GraphExecHandle | None = handle

    def launch(self, stream: Any = None) -> None:
        """Enqueue it in ``stream`` (see :func:`stream_address`)."""
        self._native_handle().launch(stream_address(stream))

    def update(self, graph: Graph) -> None:
        """Take the parameters of ``graph``, which has to have the same nodes and edges. ValueError, with the reason and
        nothing changed, where it has not or CUDA cannot change a parameter."""
        reason = self._native_handle().update(graph._native_handle())
        if reason:
            raise ValueError(f"the graph does not fit: {_UPDATE_REASONS.get(reason, f'CUDA says {reason}')}")

    def close(self) -> None:
        """Destroy it; a launch that runs ends first. Twice is once."""
        if self._handle is not None:
            self._handle.destroy()
            self._handle = None

    def _native_handle(self) -> _native.GraphExecHandle:
        if self._handle is None:
            raise ValueError("this executable graph has been closed")
        return self._handle


def _discard(address: int) -> None:
    with suppress(_native.CudaError):  # broken by what is being raised
        _native.GraphHandle.end_capture(address)
