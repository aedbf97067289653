# SPDX-License-Identifier: Apache-2.0
"""Buffers, streams, events and described kernels on hostcuda; one rank."""

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lagom.nccl as nccl
from lagom.nccl import _native
from lagom.nccl.buffers import resolve

pytestmark = pytest.mark.usefixtures("hostcuda")


@pytest.mark.parametrize("dtype", nccl.DTYPES, ids=str)
def test_numpy_sees_the_memory_itself(dtype: nccl.DType) -> None:
    buffer = nccl.empty(100, dtype)
    view = buffer.numpy()
    assert view.shape == (100,) and view.dtype == dtype.numpy and buffer.nbytes == 100 * dtype.itemsize
    view[:] = np.arange(100) % 8
    assert (buffer.to_host() == view).all()
    buffer.from_host(np.ones(100))
    assert (view == 1).all()


def test_slices_share_memory_and_keep_it_alive() -> None:
    whole = nccl.zeros(10, "int32")
    part = whole[3:7]
    part.numpy()[:] = 5
    assert whole.to_host().tolist() == [0, 0, 0, 5, 5, 5, 5, 0, 0, 0]
    assert len(whole[8:20]) == 2 and len(whole[7:3]) == 0
    view = part.numpy()
    del whole, part
    assert view.tolist() == [5, 5, 5, 5]
    with pytest.raises(ValueError, match="step 2"):
        nccl.empty(4)[::2]
    with pytest.raises(TypeError, match="sliced"):
        nccl.empty(4)[0]  # type: ignore[index]


def test_empty_buffers() -> None:
    buffer = nccl.empty(0, "float64")
    assert buffer.address != 0 and buffer.numpy().size == 0 and buffer.to_host().size == 0
    buffer.from_host([]).fill_bytes(3)


def test_other_types_of_the_same_memory() -> None:
    buffer = nccl.zeros(3, "float32").fill_bytes(0x3F)
    nccl.synchronize()
    assert buffer.view("uint8").to_host().tolist() == [0x3F] * 12
    assert buffer.view("float64").count == 1


def test_bad_requests() -> None:
    with pytest.raises(ValueError, match="count -1"):
        nccl.empty(-1)
    with pytest.raises(ValueError, match="no element type 'complex64'"):
        nccl.empty(1, "complex64")
    with pytest.raises(ValueError, match="2 values for a buffer of 3"):
        nccl.empty(3).from_host([1, 2])
    with pytest.raises(ValueError, match="allowed is 0 to 255"):
        nccl.empty(3).fill_bytes(256)
    with pytest.raises(nccl.CudaError) as caught:
        nccl.empty(1 << 45, "uint8")
    assert caught.value.name == "cudaErrorMemoryAllocation" and str(1 << 45) in caught.value.function


def test_copies_are_in_stream_order() -> None:
    stream = nccl.Stream()
    buffer = nccl.zeros(1 << 20, "uint8")
    buffer.fill_bytes(7, stream)
    assert (buffer.to_host(stream) == 7).all()


class Foreign:
    """Somebody else's array: the memory of ``buffer`` behind one protocol, with errors where asked for."""

    def __init__(self, buffer: nccl.DeviceBuffer, **changes: Any) -> None:
        self._buffer = buffer
        self.__cuda_array_interface__ = {**buffer.__cuda_array_interface__, **changes}


def test_cuda_array_interface() -> None:
    buffer = nccl.empty(24, "float32")
    seen = resolve(Foreign(buffer, shape=(2, 3, 4)), "send", written=True)
    assert (seen.address, seen.count, seen.dtype.name) == (buffer.address, 24, "float32")
    assert resolve(Foreign(buffer, shape=(2, 3), strides=(12, 4)), "send", written=False).count == 6
    with pytest.raises(ValueError, match="send is not contiguous"):
        resolve(Foreign(buffer, shape=(2, 3), strides=(16, 4)), "send", written=False)
    with pytest.raises(ValueError, match="recv is read-only"):
        resolve(Foreign(buffer, data=(buffer.address, True)), "recv", written=True)
    with pytest.raises(TypeError, match="no element type"):
        resolve(Foreign(buffer, typestr="<c8"), "send", written=False)


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def dlpack(buffer: nccl.DeviceBuffer, shape: list[int], strides: list[int] | None, code: int, bits: int) -> Any:
    """An object that exports ``buffer`` by DLPack, as PyTorch does with CUDA tensors."""
    sizes = (ctypes.c_int64 * len(shape))(*shape)
    steps = None if strides is None else (ctypes.c_int64 * len(shape))(*strides)
    tensor = DLTensor(buffer.address - 4, 2, 0, len(shape), code, bits, 1, sizes, steps, 4)
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    asked: list[Any] = []

    def export(*, stream: Any = None) -> Any:
        asked.append(stream)
        return make(ctypes.addressof(tensor), b"dltensor", None)

    keep = (buffer, tensor, sizes, steps)
    return SimpleNamespace(__dlpack_device__=lambda: (2, 0), __dlpack__=export, asked=asked, keep=keep)


def test_dlpack() -> None:
    buffer = nccl.empty(24, "bfloat16")
    exporter = dlpack(buffer, [4, 6], [6, 1], 4, 16)
    seen = resolve(exporter, "send", written=True)
    assert (seen.address, seen.count, seen.dtype.name) == (buffer.address, 24, "bfloat16")
    assert exporter.asked == [-1]
    assert resolve(dlpack(buffer, [5], None, 2, 16), "send", written=False).dtype.name == "float16"
    with pytest.raises(ValueError, match="not contiguous"):
        resolve(dlpack(buffer, [4, 3], [6, 1], 4, 16), "send", written=False)
    with pytest.raises(TypeError, match="type code 5 with 64 bits"):
        resolve(dlpack(buffer, [4], None, 5, 64), "send", written=False)


def test_memory_that_the_device_does_not_reach_is_refused() -> None:
    for pageable in (np.zeros(4), bytearray(16), b"sixteen bytes...", memoryview(np.zeros(4, np.float32))):
        with pytest.raises(ValueError, match="pageable host memory"):
            resolve(pageable, "send", written=False)
    with pytest.raises(ValueError, match="recv is read-only"):
        resolve(b"words", "recv", written=True)
    with pytest.raises(ValueError, match="not contiguous"):
        resolve(np.zeros((4, 4))[:, 0], "send", written=False)
    with pytest.raises(TypeError, match="is no memory"):
        resolve(7, "send", written=False)


def test_host_memory_that_the_device_reaches_is_taken() -> None:
    buffer = nccl.empty(16, "float32")
    seen = resolve(buffer.numpy()[4:8], "send", written=True)
    assert (seen.address, seen.count, seen.dtype.name) == (buffer.address + 16, 4, "float32")
    assert _native.pointer_kind(buffer.address) == "device"


def test_events_and_described_kernels_take_modelled_time() -> None:
    stream, start, stop = nccl.Stream(), nccl.Event(), nccl.Event()
    kernel = nccl.Kernel("gemm", flops=1e12, bytes_read=1e6, bytes_written=1e6, ctas=840, threads_per_cta=256)
    times_us = []
    for _ in range(2):
        start.record(stream)
        stream.launch(kernel)
        stop.record(stream)
        stream.synchronize()
        assert stop.done() and stream.done()
        times_us.append(stop.elapsed_us(start))
    # 1e12 operations take milliseconds on any GPU of the described kinds, and the same each time.
    assert 1e3 < times_us[0] < 1e6 and times_us[0] == pytest.approx(times_us[1], rel=1e-3)


def test_op_times_are_repeatable_and_in_order() -> None:
    stream = nccl.Stream()
    mark = stream.mark()
    for name in ("first", "second"):
        stream.launch(nccl.Kernel(name, flops=1e9, ctas=84))
    times = stream.op_times(mark)
    assert [(op.name, op.kind, op.ctas) for op in times] == [("first", "described", 84), ("second", "described", 84)]
    assert times[0].start_ns < times[0].end_ns <= times[1].start_ns < times[1].end_ns
    # The clock counts picoseconds; start and end are each rounded to nanoseconds.
    assert abs((times[0].end_ns - times[0].start_ns) - (times[1].end_ns - times[1].start_ns)) <= 1


def test_a_stream_waits_for_an_event_of_another() -> None:
    one, two, done = nccl.Stream(), nccl.Stream(), nccl.Event()
    marks = one.mark(), two.mark()
    one.launch(nccl.Kernel("long", flops=1e12, ctas=84))
    done.record(one)
    two.wait(done)
    two.launch(nccl.Kernel("short", flops=1e6, ctas=1))
    two.synchronize()
    long = next(op for op in one.op_times(marks[0]) if op.name == "long")
    short = next(op for op in two.op_times(marks[1]) if op.name == "short")
    assert short.start_ns >= long.end_ns


@pytest.mark.parametrize("fields", [{"name": ""}, {"flops": -1}, {"ctas": 0}, {"threads_per_cta": 1025}])
def test_kernels_that_make_no_sense(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="kernel"):
        nccl.Kernel(**{"name": "k", **fields})


def test_streams_of_others() -> None:
    from lagom.nccl.streams import stream_address

    mine = nccl.Stream(priority=-1)
    assert mine.priority == -1 and mine.address != nccl.Stream().address
    assert stream_address(None) == 0 and stream_address(mine) == mine.address and stream_address(5) == 5
    assert stream_address(SimpleNamespace(cuda_stream=6)) == 6
    assert stream_address(SimpleNamespace(__cuda_stream__=lambda: (0, 7))) == 7
    with pytest.raises(TypeError, match="not a stream: str"):
        stream_address("s")
