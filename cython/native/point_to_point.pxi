# SPDX-License-Identifier: Apache-2.0
# Send, receive and what NCCL builds of them, and the one-sided calls, on addresses and counts that the caller has checked.

def alltoall(CommHandle comm not None, uintptr_t send, uintptr_t recv, size_t count, int dtype, uintptr_t stream):
    cdef nccl_result result
    comm._open()
    need(<void*>nccl.AlltoAll, "ncclAlltoAll")
    with nogil:
        result = nccl.AlltoAll(<const void*>send, <void*>recv, count, dtype, comm.comm, <cuda_stream>stream)
    check_nccl(result, "ncclAlltoAll")


def gather(CommHandle comm not None, uintptr_t send, uintptr_t recv, size_t count, int dtype, int root, uintptr_t stream):
    cdef nccl_result result
    comm._open()
    need(<void*>nccl.Gather, "ncclGather")
    with nogil:
        result = nccl.Gather(<const void*>send, <void*>recv, count, dtype, root, comm.comm, <cuda_stream>stream)
    check_nccl(result, "ncclGather")


def scatter(CommHandle comm not None, uintptr_t send, uintptr_t recv, size_t count, int dtype, int root, uintptr_t stream):
    cdef nccl_result result
    comm._open()
    need(<void*>nccl.Scatter, "ncclScatter")
    with nogil:
        result = nccl.Scatter(<const void*>send, <void*>recv, count, dtype, root, comm.comm, <cuda_stream>stream)
    check_nccl(result, "ncclScatter")


def send(CommHandle comm not None, uintptr_t memory, size_t count, int dtype, int peer, uintptr_t stream):
    cdef nccl_result result
    comm._open()
    with nogil:
        result = nccl.Send(<const void*>memory, count, dtype, peer, comm.comm, <cuda_stream>stream)
    check_nccl(result, "ncclSend")


def recv(CommHandle comm not None, uintptr_t memory, size_t count, int dtype, int peer, uintptr_t stream):
    cdef nccl_result result
    comm._open()
    with nogil:
        result = nccl.Recv(<void*>memory, count, dtype, peer, comm.comm, <cuda_stream>stream)
    check_nccl(result, "ncclRecv")


def put_signal(CommHandle comm not None, uintptr_t memory, size_t count, int dtype, int peer, WindowHandle window not None,
               size_t offset_bytes, int signal, int context, uintptr_t stream):
    cdef nccl_result result
    comm._open()
    need(<void*>nccl.PutSignal, "ncclPutSignal")
    with nogil:
        result = nccl.PutSignal(<const void*>memory, count, dtype, peer, window.window, offset_bytes, signal, context, 0,
                                comm.comm, <cuda_stream>stream)
    check_nccl(result, "ncclPutSignal")


def signal(CommHandle comm not None, int peer, int signal, int context, uintptr_t stream):
    cdef nccl_result result
    comm._open()
    need(<void*>nccl.Signal, "ncclSignal")
    with nogil:
        result = nccl.Signal(peer, signal, context, 0, comm.comm, <cuda_stream>stream)
    check_nccl(result, "ncclSignal")


def wait_signals(CommHandle comm not None, list waits not None, uintptr_t stream):
    """``waits``: tuples (number of signals, peer, signal index, context)."""
    cdef int count = len(waits), i
    cdef bytearray space = bytearray(max(1, count) * sizeof(nccl_wait_signal))
    cdef nccl_wait_signal* array = <nccl_wait_signal*><char*>space
    cdef nccl_result result
    comm._open()
    need(<void*>nccl.WaitSignal, "ncclWaitSignal")
    for i in range(count):
        array[i].count, array[i].peer, array[i].signal, array[i].context = waits[i]
    with nogil:
        result = nccl.WaitSignal(count, array, comm.comm, <cuda_stream>stream)
    check_nccl(result, "ncclWaitSignal")
