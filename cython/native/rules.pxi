# SPDX-License-Identifier: Apache-2.0
# Rules between C and Python: a flat tuple of integers in the order below; -1 is "not set" on both sides.
#   (collective, min_bytes, max_bytes, nodes, ranks, call_index, call_period, line,
#    algorithm, protocol, channels, threads, chunk_bytes)

from libc.stdint cimport int32_t

cdef extern from "nccl_plan.h":
    enum:
        NCCL_KNOBS_VERSION
        NCCL_KNOB_RULE_VERSION
    ctypedef struct ncclKnobs:
        size_t size
        uint32_t version
        int32_t algorithm
        int32_t protocol
        int32_t nChannels
        int32_t nThreads
        int32_t chunkBytes
    ctypedef struct ncclKnobRule:
        size_t size
        uint32_t version
        int32_t collective
        int64_t minBytes
        int64_t maxBytes
        int32_t nNodes
        int32_t nRanks
        int32_t callIndex
        int32_t callPeriod
        int32_t line
        int32_t reserved
        ncclKnobs knobs

cdef tuple knobs_to_tuple(const ncclKnobs* knobs):
    return (knobs.algorithm, knobs.protocol, knobs.nChannels, knobs.nThreads, knobs.chunkBytes)


cdef tuple rule_to_tuple(const ncclKnobRule* rule):
    return (rule.collective, rule.minBytes, rule.maxBytes, rule.nNodes, rule.nRanks, rule.callIndex, rule.callPeriod,
            rule.line) + knobs_to_tuple(&rule.knobs)


cdef int rule_from_tuple(ncclKnobRule* rule, tuple fields) except -1:
    memset(rule, 0, sizeof(ncclKnobRule))
    rule.size = sizeof(ncclKnobRule)
    rule.version = NCCL_KNOB_RULE_VERSION
    rule.knobs.size = sizeof(ncclKnobs)
    rule.knobs.version = NCCL_KNOBS_VERSION
    (rule.collective, rule.minBytes, rule.maxBytes, rule.nNodes, rule.nRanks, rule.callIndex, rule.callPeriod, rule.line,
     rule.knobs.algorithm, rule.knobs.protocol, rule.knobs.nChannels, rule.knobs.nThreads,
     rule.knobs.chunkBytes) = fields
    return 0
