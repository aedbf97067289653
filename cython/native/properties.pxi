# SPDX-License-Identifier: Apache-2.0
# What a communicator says of itself: properties, memory, suspended or not.

cdef enum:
    NCCL_PROPERTIES_VERSION = 22907   # the version whose layout nccl_properties has

def comm_properties(CommHandle comm not None):
    """(NVML device, device API, multimem, GIN type, LSA teams, host RMA, railed GIN type) of ncclCommQueryProperties."""
    cdef nccl_properties properties
    cdef nccl_result result
    comm._open()
    need(<void*>nccl.CommQueryProperties, "ncclCommQueryProperties")
    if nccl_version() < NCCL_PROPERTIES_VERSION:
        raise LibraryError(f"ncclCommQueryProperties of {tables_path} has another layout; NCCL 2.29.7 or later is needed")
    memset(&properties, 0, sizeof(properties))
    properties.size = sizeof(properties) - sizeof(properties.reserved)
    properties.magic = NCCL_CONFIG_MAGIC
    properties.version = NCCL_PROPERTIES_VERSION
    with nogil:
        result = nccl.CommQueryProperties(comm.comm, &properties)
    check_nccl(result, "ncclCommQueryProperties")
    return (properties.nvml_device, bool(properties.device_api), bool(properties.multimem), properties.gin_type,
            properties.lsa_teams, bool(properties.host_rma), properties.railed_gin_type)


def comm_memory(CommHandle comm not None, int statistic):
    """One of ncclCommMemStats: 0 bytes that can be suspended, 1 whether they are, 2 bytes that cannot, 3 bytes in all."""
    cdef uint64_t value = 0
    cdef nccl_result result
    comm._open()
    need(<void*>nccl.CommMemStats, "ncclCommMemStats")
    with nogil:
        result = nccl.CommMemStats(comm.comm, statistic, &value)
    check_nccl(result, "ncclCommMemStats")
    return value


def comm_suspend(CommHandle comm not None):
    cdef nccl_result result
    comm._open()
    need(<void*>nccl.CommSuspend, "ncclCommSuspend")
    with nogil:
        result = nccl.CommSuspend(comm.comm, NCCL_SUSPEND_MEMORY)
    check_nccl(result, "ncclCommSuspend")


def comm_resume(CommHandle comm not None):
    cdef nccl_result result
    comm._open()
    need(<void*>nccl.CommResume, "ncclCommResume")
    with nogil:
        result = nccl.CommResume(comm.comm)
    check_nccl(result, "ncclCommResume")
