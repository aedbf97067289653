# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3, binding=True, embedsignature=True
"""The one plan parser, nccl_plan.c, as libnccl has it compiled in too. Rules are flat tuples, see native/rules.pxi."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

include "native/rules.pxi"

cdef extern from "nccl_plan.h" nogil:
    ctypedef struct ncclPlan:
        ncclKnobRule* rules
        int nRules
        uint64_t digest
    ctypedef struct ncclPlanError:
        int line
        int column
        char file[512]
        char reason[512]
    ctypedef struct ncclPlanCall:
        int32_t collective
        int32_t nNodes
        int32_t nRanks
        uint64_t bytes
    int ncclPlanParse(const char* text, size_t length, const char* file, ncclPlan* plan, ncclPlanError* error)
    int ncclPlanRead(const char* path, ncclPlan* plan, ncclPlanError* error)
    void ncclPlanFree(ncclPlan* plan)
    int ncclPlanMatch(const ncclKnobRule* rules, int count, const ncclPlanCall* call)
    int ncclPlanCheckRule(const ncclKnobRule* rule, int* field, char* reason, size_t reason_bytes)
    int64_t ncclPlanChunkGrain(int protocol)
    int64_t ncclPlanChunkMax(int algorithm, int protocol)
    int ncclPlanFormatRule(const ncclKnobRule* rule, char* out, size_t out_bytes)
    const char* ncclPlanHeader()
    const char* ncclPlanColumn(int index)
    uint64_t ncclPlanDigest(const ncclKnobRule* rules, int count)
    const char* ncclPlanCollectiveName(int collective)
    const char* ncclPlanAlgorithmName(int algorithm)
    const char* ncclPlanProtocolName(int protocol)
    int ncclPlanCollective(const char* name)
    int ncclPlanAlgorithm(const char* name)
    int ncclPlanProtocol(const char* name)


class PlanError(ValueError):
    """A plan that cannot be used. Attributes: ``file``, ``line`` and ``column`` (from 1; 0 where there is no place) and
    ``reason``."""

    def __init__(self, file, line, column, reason):
        self.file = file
        self.line = line
        self.column = column
        self.reason = reason
        place = file
        if line:
            place += f":{line}"
            if column:
                place += f":{column}"
        super().__init__(f"{place}: {reason}")

    def __reduce__(self):
        return (type(self), (self.file, self.line, self.column, self.reason))


cdef str _text(const char* words):
    return None if words is NULL else (<bytes>words).decode("utf-8", "replace")


cdef ncclKnobRule* _array(list rules, bytearray space) except NULL:
    cdef ncclKnobRule* array
    cdef int i
    space.extend(bytes(max(1, len(rules)) * sizeof(ncclKnobRule)))
    array = <ncclKnobRule*><char*>space
    for i in range(len(rules)):
        rule_from_tuple(&array[i], rules[i])
    return array


def parse(bytes text not None, str file not None):
    """(rules, digest) of a plan's text; PlanError where it is wrong."""
    cdef ncclPlan plan
    cdef ncclPlanError error
    cdef bytes name = file.encode("utf-8", "surrogateescape")
    cdef int i
    memset(&plan, 0, sizeof(plan))
    memset(&error, 0, sizeof(error))
    if ncclPlanParse(text, len(text), name, &plan, &error) != 0:
        raise PlanError(file, error.line, error.column, _text(error.reason))
    try:
        return [rule_to_tuple(&plan.rules[i]) for i in range(plan.nRules)], plan.digest
    finally:
        ncclPlanFree(&plan)


def read(str file not None):
    """(rules, digest) of a plan's file, read as NCCL itself reads it; PlanError where it is wrong or no file."""
    cdef ncclPlan plan
    cdef ncclPlanError error
    cdef bytes name = file.encode("utf-8", "surrogateescape")
    cdef int i
    if b"\0" in name:
        raise PlanError(file, 0, 0, "no file has a zero byte in its name")
    memset(&plan, 0, sizeof(plan))
    memset(&error, 0, sizeof(error))
    if ncclPlanRead(name, &plan, &error) != 0:
        raise PlanError(file, error.line, error.column, _text(error.reason))
    try:
        return [rule_to_tuple(&plan.rules[i]) for i in range(plan.nRules)], plan.digest
    finally:
        ncclPlanFree(&plan)


def check(tuple rule not None):
    """None where the rule is fine, else (name of the column at fault or None, reason)."""
    cdef ncclKnobRule c_rule
    cdef char reason[512]
    cdef int field = -1
    rule_from_tuple(&c_rule, rule)
    reason[0] = 0
    if ncclPlanCheckRule(&c_rule, &field, reason, sizeof(reason)) == 0:
        return None
    return (_text(ncclPlanColumn(field)) if field >= 0 else None), _text(reason)


def format_rule(tuple rule not None):
    """One line of a plan, without its newline."""
    cdef ncclKnobRule c_rule
    cdef char line[1024]
    rule_from_tuple(&c_rule, rule)
    ncclPlanFormatRule(&c_rule, line, sizeof(line))
    return _text(line)


def match(list rules not None, int collective, int nodes, int ranks, uint64_t nbytes):
    """Index of the first rule that matches, -1 where none does."""
    cdef ncclPlanCall call
    cdef bytearray space = bytearray()
    cdef ncclKnobRule* array = _array(rules, space)
    call.collective = collective
    call.nNodes = nodes
    call.nRanks = ranks
    call.bytes = nbytes
    return ncclPlanMatch(array, len(rules), &call)


def digest(list rules not None):
    """A number that two lists of rules share when they mean the same."""
    cdef bytearray space = bytearray()
    cdef ncclKnobRule* array = _array(rules, space)
    return ncclPlanDigest(array, len(rules))


def header():
    return _text(ncclPlanHeader())


def collective_name(int code):
    return _text(ncclPlanCollectiveName(code))


def algorithm_name(int code):
    return _text(ncclPlanAlgorithmName(code))


def protocol_name(int code):
    return _text(ncclPlanProtocolName(code))


def collective_code(str name not None):
    cdef bytes encoded = name.encode()
    return ncclPlanCollective(encoded)


def algorithm_code(str name not None):
    cdef bytes encoded = name.encode()
    return ncclPlanAlgorithm(encoded)


def protocol_code(str name not None):
    cdef bytes encoded = name.encode()
    return ncclPlanProtocol(encoded)


def chunk_grain(int protocol):
    """Grain of a chunk in bytes."""
    return ncclPlanChunkGrain(protocol)


def chunk_max(int algorithm, int protocol):
    """Largest chunk in bytes with NCCL's default buffers, 0 where the pair has none."""
    return ncclPlanChunkMax(algorithm, protocol)
