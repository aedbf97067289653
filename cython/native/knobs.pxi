# SPDX-License-Identifier: Apache-2.0
# Knob rules of a communicator; only the patched NCCL has them.

cdef extern from "nccl_knobs.h":
    enum:
        NCCL_KNOBS_INFO_VERSION
    ctypedef struct ncclKnobsInfo:
        size_t size
        uint32_t version
        int32_t ncclVersion
        char build[72]

cdef void* _patched(bytes name) except NULL:
    cdef void* function = NULL if nccl_handle is NULL else dlsym(nccl_handle, name)
    if function is NULL:
        raise LibraryError(f"knobs and counters need the patched NCCL, and {tables_path or 'no library'} is not: "
                           f"it has no {name.decode()} (build one with `lagom build`)")
    return function


def knobs_info():
    """Build digest of the patched library, or None where the loaded one is not patched."""
    cdef nccl_result (*function)(ncclKnobsInfo*) noexcept nogil
    cdef ncclKnobsInfo info
    if not nccl_has("ncclGetKnobsInfo"):
        return None
    function = <nccl_result (*)(ncclKnobsInfo*) noexcept nogil>_patched(b"ncclGetKnobsInfo")
    memset(&info, 0, sizeof(info))
    info.size = sizeof(info)
    info.version = NCCL_KNOBS_INFO_VERSION
    check_nccl(function(&info), "ncclGetKnobsInfo")
    return _text(info.build)


def set_rules(CommHandle comm not None, list rules):
    """ncclCommSetKnobRules. None: what this rank was given is no list of rules; all ranks are refused."""
    cdef nccl_result (*function)(nccl_comm, const ncclKnobRule*, int) noexcept nogil
    cdef int count = -1 if rules is None else len(rules)
    cdef bytearray space = bytearray(max(1, count) * sizeof(ncclKnobRule))
    cdef ncclKnobRule* array = <ncclKnobRule*><char*>space
    cdef nccl_result result
    cdef int i
    function = <nccl_result (*)(nccl_comm, const ncclKnobRule*, int) noexcept nogil>_patched(b"ncclCommSetKnobRules")
    comm._open()
    for i in range(count):
        rule_from_tuple(&array[i], rules[i])
    with nogil:
        result = function(comm.comm, array, count)
    check_nccl(result, "ncclCommSetKnobRules", comm.comm)


def get_rules(CommHandle comm not None):
    """Rules in force, those of a preloaded plan included."""
    cdef nccl_result (*function)(nccl_comm, ncclKnobRule*, int, int*) noexcept nogil
    cdef int count = 0, i
    cdef bytearray space
    cdef ncclKnobRule* array
    function = <nccl_result (*)(nccl_comm, ncclKnobRule*, int, int*) noexcept nogil>_patched(b"ncclCommGetKnobRules")
    comm._open()
    check_nccl(function(comm.comm, NULL, 0, &count), "ncclCommGetKnobRules", comm.comm)
    space = bytearray(max(1, count) * sizeof(ncclKnobRule))
    array = <ncclKnobRule*><char*>space
    for i in range(count):
        array[i].size = sizeof(ncclKnobRule)
        array[i].version = NCCL_KNOB_RULE_VERSION
    check_nccl(function(comm.comm, array, count, &count), "ncclCommGetKnobRules", comm.comm)
    return [rule_to_tuple(&array[i]) for i in range(count)]
