# SPDX-License-Identifier: Apache-2.0
# Communicators: made, split, watched, ended.

def unique_id():
    """A new unique id, 128 bytes: made by one rank, passed to all."""
    cdef nccl_unique_id identity
    cdef nccl_result result
    need(<void*>nccl.GetUniqueId, "ncclGetUniqueId")
    with nogil:
        result = nccl.GetUniqueId(&identity)
    check_nccl(result, "ncclGetUniqueId")
    return (<char*>identity.internal)[:NCCL_UNIQUE_ID_BYTES]


cdef class _Config:
    # Owns the texts that the C structure points to.
    cdef nccl_config config
    cdef bytes net_name
    cdef bytes comm_name

    def __cinit__(self, dict fields not None):
        cdef nccl_config* c = &self.config
        c.size = sizeof(nccl_config)
        c.magic = NCCL_CONFIG_MAGIC
        c.version = NCCL_CONFIG_VERSION
        c.blocking = 1
        c.cga_cluster_size = fields.get("cga_cluster_size", INT_MIN)
        c.min_ctas = fields.get("min_ctas", INT_MIN)
        c.max_ctas = fields.get("max_ctas", INT_MIN)
        c.split_share = fields.get("split_share", INT_MIN)
        c.traffic_class = fields.get("traffic_class", INT_MIN)
        c.collnet_enable = INT_MIN
        c.cta_policy = fields.get("cta_policy", INT_MIN)
        c.shrink_share = INT_MIN
        c.nvls_ctas = fields.get("nvls_ctas", INT_MIN)
        c.channels_per_net_peer = INT_MIN
        c.nvlink_centric_sched = INT_MIN
        c.graph_usage_mode = INT_MIN
        c.rma_contexts = INT_MIN
        c.net_name = NULL
        c.comm_name = NULL
        if "net_name" in fields:
            self.net_name = fields["net_name"].encode()
            c.net_name = self.net_name
        if "name" in fields:
            self.comm_name = fields["name"].encode()
            c.comm_name = self.comm_name


cdef class CommHandle:
    """Owner of one ncclComm_t. Not destroyed with the object: destroying is collective in effect, so it is asked for."""
    cdef nccl_comm comm

    def __cinit__(self):
        self.comm = NULL

    cdef int _open(self) except -1:
        if self.comm is NULL:
            raise ValueError("the communicator has been destroyed or aborted")
        return 0

    @property
    def alive(self):
        return self.comm is not NULL

    @property
    def address(self):
        return <uintptr_t>self.comm

    @staticmethod
    def create(int size, bytes identity not None, int rank, dict config not None):
        """ncclCommInitRankConfig on the current device; waits for the other ranks."""
        cdef CommHandle self = CommHandle.__new__(CommHandle)
        cdef _Config fields = _Config(config)
        cdef nccl_unique_id unique
        cdef nccl_result result
        if len(identity) != NCCL_UNIQUE_ID_BYTES:
            raise ValueError(f"a unique id has {NCCL_UNIQUE_ID_BYTES} bytes, not {len(identity)}")
        need(<void*>nccl.CommInitRankConfig, "ncclCommInitRankConfig")
        memcpy(unique.internal, <const char*>identity, NCCL_UNIQUE_ID_BYTES)
        with nogil:
            result = nccl.CommInitRankConfig(&self.comm, size, unique, rank, &fields.config)
        if result != NCCL_SUCCESS:
            self.comm = NULL
        check_nccl(result, "ncclCommInitRankConfig")
        return self

    def split(self, int color, int key, dict config not None):
        """ncclCommSplit; None for a rank that passed color -1."""
        cdef CommHandle child = CommHandle.__new__(CommHandle)
        cdef _Config fields = _Config(config)
        cdef nccl_result result
        self._open()
        need(<void*>nccl.CommSplit, "ncclCommSplit")
        with nogil:
            result = nccl.CommSplit(self.comm, color, key, &child.comm, &fields.config)
        check_nccl(result, "ncclCommSplit", self.comm)
        return child if child.comm is not NULL else None

    def rank(self):
        cdef int value = 0
        self._open()
        check_nccl(nccl.CommUserRank(self.comm, &value), "ncclCommUserRank", self.comm)
        return value

    def size(self):
        cdef int value = 0
        self._open()
        check_nccl(nccl.CommCount(self.comm, &value), "ncclCommCount", self.comm)
        return value

    def device(self):
        cdef int value = 0
        self._open()
        check_nccl(nccl.CommCuDevice(self.comm, &value), "ncclCommCuDevice", self.comm)
        return value

    def check_async(self):
        """Raise the error that happened after a call had returned, if there is one."""
        cdef nccl_result state = NCCL_SUCCESS
        cdef nccl_result result
        self._open()
        with nogil:
            result = nccl.CommGetAsyncError(self.comm, &state)
        check_nccl(result, "ncclCommGetAsyncError", self.comm)
        check_nccl(state, "an earlier operation of this communicator", self.comm)

    def destroy(self):
        cdef nccl_comm comm = self.comm
        cdef nccl_result result
        if comm is NULL:
            return
        self.comm = NULL
        with nogil:
            result = nccl.CommDestroy(comm)
        check_nccl(result, "ncclCommDestroy")

    def abort(self):
        cdef nccl_comm comm = self.comm
        cdef nccl_result result
        if comm is NULL:
            return
        self.comm = NULL
        with nogil:
            result = nccl.CommAbort(comm)
        check_nccl(result, "ncclCommAbort")
