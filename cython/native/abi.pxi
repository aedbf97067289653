# SPDX-License-Identifier: Apache-2.0
# The binary interface of NCCL 2.x and of the CUDA runtime, as far as it is called here. Declared by hand and not taken from
# nccl.h, because the bindings are compiled before NCCL has been fetched and must also work with a stock library.

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset
from libc.limits cimport INT_MIN

ctypedef uint8_t bint_c   # C's bool
ctypedef int nccl_result
ctypedef int cuda_result
ctypedef void* nccl_comm
ctypedef void* nccl_window
ctypedef void* cuda_stream
ctypedef void* cuda_event
ctypedef void* cuda_graph
ctypedef void* cuda_graph_exec

cdef enum:
    NCCL_SUCCESS = 0
    NCCL_IN_PROGRESS = 7
    NCCL_UNIQUE_ID_BYTES = 128
    NCCL_CONFIG_MAGIC = 0xcafebeef
    # The version whose layout nccl_config below has; NCCL takes fields that came later from its defaults.
    NCCL_CONFIG_VERSION = 22900
    NCCL_SPLIT_NO_COLOR = -1
    NCCL_SHRINK_ABORT = 1
    NCCL_WINDOW_SYMMETRIC = 1
    NCCL_WINDOW_STRICT_ORDERING = 2
    NCCL_SUSPEND_MEMORY = 1
    NCCL_SCALAR_DEVICE = 0
    NCCL_SCALAR_HOST = 1
    NCCL_SIM_INFO_MAGIC = 0x74685283

    CUDA_SUCCESS = 0
    CUDA_NOT_READY = 600
    CUDA_GRAPH_UPDATE_FAILURE = 910
    CUDA_CAPTURE_ACTIVE = 1
    CUDA_STREAM_NON_BLOCKING = 1
    CUDA_MEMCPY_DEFAULT = 4

cdef struct nccl_unique_id:
    char internal[128]

cdef struct nccl_config:
    size_t size
    unsigned int magic
    unsigned int version
    int blocking
    int cga_cluster_size
    int min_ctas
    int max_ctas
    const char* net_name
    int split_share
    int traffic_class
    const char* comm_name
    int collnet_enable
    int cta_policy
    int shrink_share
    int nvls_ctas
    int channels_per_net_peer
    int nvlink_centric_sched
    int graph_usage_mode
    int rma_contexts

cdef struct nccl_sim_info:
    size_t size
    unsigned int magic
    unsigned int version
    float estimated_time_us

cdef struct nccl_properties:
    size_t size
    unsigned int magic
    unsigned int version
    int rank
    int ranks
    int cuda_device
    int nvml_device
    bint_c device_api
    bint_c multimem
    int gin_type
    int lsa_teams
    bint_c host_rma
    int railed_gin_type
    char reserved[64]   # later versions may append

cdef struct nccl_wait_signal:
    int count
    int peer
    int signal
    int context

cdef struct cuda_pointer_attributes:
    int type
    int device
    void* device_pointer
    void* host_pointer
    char reserved[128]   # CUDA 13 appended fields; more may follow

cdef struct cuda_graph_update:
    int result
    void* error_node
    void* error_from_node
