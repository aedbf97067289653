# SPDX-License-Identifier: Apache-2.0
# Collectives, on addresses and element counts that the caller has checked.

def group_start():
    need(<void*>nccl.GroupStart, "ncclGroupStart")
    check_nccl(nccl.GroupStart(), "ncclGroupStart")


def group_end():
    cdef nccl_result result
    need(<void*>nccl.GroupEnd, "ncclGroupEnd")
    with nogil:
        result = nccl.GroupEnd()
    check_nccl(result, "ncclGroupEnd")


def group_simulate_end():
    """End the group without running it; NCCL's estimate of its last call in microseconds, -1 where it has none."""
    cdef nccl_sim_info info
    cdef nccl_result result
    need(<void*>nccl.GroupSimulateEnd, "ncclGroupSimulateEnd")
    memset(&info, 0, sizeof(info))
    info.size = sizeof(info)
    info.magic = NCCL_SIM_INFO_MAGIC
    info.version = NCCL_CONFIG_VERSION
    info.estimated_time_us = -1
    with nogil:
        result = nccl.GroupSimulateEnd(&info)
    check_nccl(result, "ncclGroupSimulateEnd")
    return info.estimated_time_us


def all_reduce(CommHandle comm not None, uintptr_t send, uintptr_t recv, size_t count, int dtype, int op,
               uintptr_t stream):
    cdef nccl_result result
    comm._open()
    with nogil:
        result = nccl.AllReduce(<const void*>send, <void*>recv, count, dtype, op, comm.comm, <cuda_stream>stream)
    check_nccl(result, "ncclAllReduce", comm.comm)


def all_gather(CommHandle comm not None, uintptr_t send, uintptr_t recv, size_t send_count, int dtype, uintptr_t stream):
    cdef nccl_result result
    comm._open()
    with nogil:
        result = nccl.AllGather(<const void*>send, <void*>recv, send_count, dtype, comm.comm, <cuda_stream>stream)
    check_nccl(result, "ncclAllGather", comm.comm)


def reduce_scatter(CommHandle comm not None, uintptr_t send, uintptr_t recv, size_t recv_count, int dtype, int op,
                   uintptr_t stream):
    cdef nccl_result result
    comm._open()
    with nogil:
        result = nccl.ReduceScatter(<const void*>send, <void*>recv, recv_count, dtype, op, comm.comm, <cuda_stream>stream)
    check_nccl(result, "ncclReduceScatter", comm.comm)


def broadcast(CommHandle comm not None, uintptr_t send, uintptr_t recv, size_t count, int dtype, int root,
              uintptr_t stream):
    cdef nccl_result result
    comm._open()
    with nogil:
        result = nccl.Broadcast(<const void*>send, <void*>recv, count, dtype, root, comm.comm, <cuda_stream>stream)
    check_nccl(result, "ncclBroadcast", comm.comm)


def reduce(CommHandle comm not None, uintptr_t send, uintptr_t recv, size_t count, int dtype, int op, int root,
           uintptr_t stream):
    cdef nccl_result result
    comm._open()
    with nogil:
        result = nccl.Reduce(<const void*>send, <void*>recv, count, dtype, op, root, comm.comm, <cuda_stream>stream)
    check_nccl(result, "ncclReduce", comm.comm)
