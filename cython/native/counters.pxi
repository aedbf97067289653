# SPDX-License-Identifier: Apache-2.0
# Counters: one record an operation and a rank, as the device saw it.

cdef extern from "nccl_knobs.h":
    enum:
        NCCL_OP_RECORD_VERSION
        NCCL_COUNTERS_STATUS_VERSION
    ctypedef struct ncclOpChannel:
        int32_t channel
        int32_t smId
        int32_t threads
        int32_t chunkBytes
        uint64_t bytes
        uint64_t maxElementCount
        uint64_t startNs
        uint64_t stopNs
        uint64_t waitNs
        uint64_t moveNs
    ctypedef struct ncclOpRecord:
        size_t size
        uint32_t version
        int32_t collective
        uint64_t opIndex
        uint64_t commHash
        int32_t rank
        int32_t nRanks
        int32_t nNodes
        int32_t datatype
        int32_t redOp
        int32_t root
        uint64_t count
        uint64_t bytes
        ncclKnobs asked
        ncclKnobs used
        int32_t rule
        int32_t planLine
        uint64_t planId
        uint64_t replay
        int32_t exact
        int32_t nChannels
        int32_t elementBytes
        ncclOpChannel channels[64]
    ctypedef struct ncclCountersStatus:
        size_t size
        uint32_t version
        int32_t enabled
        uint64_t issued
        uint64_t read
        uint64_t lost
        uint64_t pending

cdef enum:
    RECORDS_A_READ = 64


def counters_enable(CommHandle comm not None, bint enable):
    cdef nccl_result (*function)(nccl_comm, int) noexcept nogil
    cdef nccl_result result
    function = <nccl_result (*)(nccl_comm, int) noexcept nogil>_patched(b"ncclCommCountersEnable")
    comm._open()
    with nogil:
        result = function(comm.comm, enable)
    check_nccl(result, "ncclCommCountersEnable", comm.comm)


def counters_status(CommHandle comm not None):
    """(enabled, issued, read, lost, pending)."""
    cdef nccl_result (*function)(nccl_comm, ncclCountersStatus*) noexcept nogil
    cdef ncclCountersStatus status
    function = <nccl_result (*)(nccl_comm, ncclCountersStatus*) noexcept nogil>_patched(b"ncclCommCountersStatus")
    comm._open()
    memset(&status, 0, sizeof(status))
    status.size = sizeof(status)
    status.version = NCCL_COUNTERS_STATUS_VERSION
    check_nccl(function(comm.comm, &status), "ncclCommCountersStatus", comm.comm)
    return (bool(status.enabled), status.issued, status.read, status.lost, status.pending)


cdef dict _record_to_dict(const ncclOpRecord* r):
    cdef int i
    cdef const ncclOpChannel* c
    channels = []
    for i in range(r.nChannels):
        c = &r.channels[i]
        channels.append((c.channel, c.smId, c.threads, c.chunkBytes, c.bytes, c.maxElementCount, c.startNs, c.stopNs,
                         c.waitNs, c.moveNs))
    return {
        "collective": r.collective, "op_index": r.opIndex, "comm_hash": r.commHash, "rank": r.rank, "ranks": r.nRanks,
        "nodes": r.nNodes, "dtype": r.datatype, "op": r.redOp, "root": r.root, "count": r.count, "nbytes": r.bytes,
        "asked": knobs_to_tuple(&r.asked), "used": knobs_to_tuple(&r.used), "rule": r.rule, "plan_line": r.planLine,
        "plan_id": r.planId, "replay": r.replay, "exact": bool(r.exact), "element_bytes": r.elementBytes,
        "channels": channels,
    }


def counters_read(CommHandle comm not None):
    """All records of finished operations that have not been read yet, in launch order, as dictionaries."""
    cdef nccl_result (*function)(nccl_comm, ncclOpRecord*, int, int*) noexcept nogil
    cdef bytearray space = bytearray(RECORDS_A_READ * sizeof(ncclOpRecord))
    cdef ncclOpRecord* array = <ncclOpRecord*><char*>space
    cdef nccl_result result
    cdef int count = RECORDS_A_READ, i
    function = <nccl_result (*)(nccl_comm, ncclOpRecord*, int, int*) noexcept nogil>_patched(b"ncclCommCountersRead")
    comm._open()
    records = []
    while count == RECORDS_A_READ:
        array[0].size = sizeof(ncclOpRecord)
        array[0].version = NCCL_OP_RECORD_VERSION
        count = 0
        with nogil:
            result = function(comm.comm, array, RECORDS_A_READ, &count)
        check_nccl(result, "ncclCommCountersRead", comm.comm)
        for i in range(count):
            records.append(_record_to_dict(&array[i]))
    return records
