# SPDX-License-Identifier: Apache-2.0
# Communicators: made, split, watched, ended.

cdef nccl_unique_id _unique(bytes identity) except *:
    cdef nccl_unique_id unique
    if len(identity) != NCCL_UNIQUE_ID_BYTES:
        raise ValueError(f"a unique id has {NCCL_UNIQUE_ID_BYTES} bytes, not {len(identity)}")
    memcpy(unique.internal, <const char*>identity, NCCL_UNIQUE_ID_BYTES)
    return unique


def unique_id():
    """A new unique id, 128 bytes: made by one rank, passed to all."""
    cdef nccl_unique_id identity
    cdef nccl_result result
    need(<void*>nccl.GetUniqueId, "ncclGetUniqueId")
    with nogil:
        result = nccl.GetUniqueId(&identity)
    check_nccl(result, "ncclGetUniqueId")
    return (<char*>identity.internal)[:NCCL_UNIQUE_ID_BYTES]


cdef class CommHandle:
    """Owner of one ncclComm_t. Not destroyed with the object: destroying is collective in effect, so it is asked for.

    Inside a group, and where it does not block, NCCL writes the pointer later: keep the object until it is ready.
    """
    cdef nccl_comm comm
    cdef _Config config

    def __cinit__(self):
        self.comm = NULL
        self.config = None

    cdef int _open(self) except -1:
        if self.comm is NULL:
            raise ValueError("the communicator has been destroyed or aborted, or its group has not ended yet")
        return 0

    cdef nccl_config* _configure(self, fields, CommHandle parent) except? NULL:
        # Without fields a child inherits, and NCCL copies the parent's pointer to the name.
        if fields is None:
            self.config = None if parent is None else parent.config
            return NULL
        self.config = _Config(fields)
        return &self.config.config

    @property
    def alive(self):
        return self.comm is not NULL

    @property
    def address(self):
        return <uintptr_t>self.comm

    @staticmethod
    def create(int size, list identities not None, int rank, dict config not None):
        """ncclCommInitRankConfig, or -Scalable with several unique ids, on the current device; waits for the others."""
        cdef CommHandle self = CommHandle.__new__(CommHandle)
        cdef int count = len(identities), i
        cdef bytearray space = bytearray(max(1, count) * sizeof(nccl_unique_id))
        cdef nccl_unique_id* ids = <nccl_unique_id*><char*>space
        cdef nccl_config* fields = self._configure(config, None)
        cdef nccl_result result
        for i in range(count):
            ids[i] = _unique(identities[i])
        if count == 1:
            need(<void*>nccl.CommInitRankConfig, "ncclCommInitRankConfig")
            with nogil:
                result = nccl.CommInitRankConfig(&self.comm, size, ids[0], rank, fields)
        else:
            need(<void*>nccl.CommInitRankScalable, "ncclCommInitRankScalable")
            with nogil:
                result = nccl.CommInitRankScalable(&self.comm, size, rank, count, ids, fields)
        self._failed(result)
        check_nccl(result, "ncclCommInitRankConfig" if count == 1 else "ncclCommInitRankScalable")
        return self

    @staticmethod
    def create_all(list devices not None):
        """ncclCommInitAll: one communicator a device, all in this process."""
        cdef int count = len(devices), i
        cdef bytearray comms_space = bytearray(max(1, count) * sizeof(nccl_comm))
        cdef bytearray devices_space = bytearray(max(1, count) * sizeof(int))
        cdef nccl_comm* comms = <nccl_comm*><char*>comms_space
        cdef int* chosen = <int*><char*>devices_space
        cdef CommHandle one
        cdef nccl_result result
        need(<void*>nccl.CommInitAll, "ncclCommInitAll")
        for i in range(count):
            chosen[i] = devices[i]
        with nogil:
            result = nccl.CommInitAll(comms, count, chosen)
        check_nccl(result, "ncclCommInitAll")
        handles = []
        for i in range(count):
            one = CommHandle.__new__(CommHandle)
            one.comm = comms[i]
            handles.append(one)
        return handles

    def split(self, int color, int key, config):
        """ncclCommSplit; the handle stays without communicator where color is -1. ``config`` None: the parent's."""
        cdef CommHandle child = CommHandle.__new__(CommHandle)
        cdef nccl_config* fields = child._configure(config, self)
        cdef nccl_result result
        self._open()
        need(<void*>nccl.CommSplit, "ncclCommSplit")
        with nogil:
            result = nccl.CommSplit(self.comm, color, key, &child.comm, fields)
        child._failed(result)
        check_nccl(result, "ncclCommSplit")
        return child

    def shrink(self, list excluded not None, bint abort, config):
        """ncclCommShrink, on the ranks that stay."""
        cdef CommHandle child = CommHandle.__new__(CommHandle)
        cdef nccl_config* fields = child._configure(config, self)
        cdef int count = len(excluded), i
        cdef bytearray space = bytearray(max(1, count) * sizeof(int))
        cdef int* ranks = <int*><char*>space
        cdef int flags = NCCL_SHRINK_ABORT if abort else 0
        cdef nccl_result result
        self._open()
        need(<void*>nccl.CommShrink, "ncclCommShrink")
        for i in range(count):
            ranks[i] = excluded[i]
        with nogil:
            result = nccl.CommShrink(self.comm, ranks, count, &child.comm, fields, flags)
        child._failed(result)
        check_nccl(result, "ncclCommShrink")
        return child

    def grow_id(self):
        """ncclCommGetUniqueId: the unique id of the next grow, on one rank of the communicator."""
        cdef nccl_unique_id identity
        cdef nccl_result result
        self._open()
        need(<void*>nccl.CommGetUniqueId, "ncclCommGetUniqueId")
        with nogil:
            result = nccl.CommGetUniqueId(self.comm, &identity)
        check_nccl(result, "ncclCommGetUniqueId")
        return (<char*>identity.internal)[:NCCL_UNIQUE_ID_BYTES]

    @staticmethod
    def grow(CommHandle parent, int size, identity, int rank, config):
        """ncclCommGrow: with ``parent`` on its ranks (rank -1), without it on a new one."""
        cdef CommHandle child = CommHandle.__new__(CommHandle)
        cdef nccl_config* fields = child._configure(config, parent)
        cdef nccl_comm comm = NULL
        cdef nccl_unique_id unique
        cdef nccl_unique_id* given = NULL
        cdef nccl_result result
        if parent is not None:
            parent._open()
            comm = parent.comm
        need(<void*>nccl.CommGrow, "ncclCommGrow")
        if identity is not None:
            unique = _unique(identity)
            given = &unique
        with nogil:
            result = nccl.CommGrow(comm, size, given, rank, &child.comm, fields)
        child._failed(result)
        check_nccl(result, "ncclCommGrow")
        return child

    cdef void _failed(self, nccl_result result):
        if result != NCCL_SUCCESS and result != NCCL_IN_PROGRESS:
            self.comm = NULL

    def rank(self):
        cdef int value = 0
        self._open()
        check_nccl(nccl.CommUserRank(self.comm, &value), "ncclCommUserRank")
        return value

    def size(self):
        cdef int value = 0
        self._open()
        check_nccl(nccl.CommCount(self.comm, &value), "ncclCommCount")
        return value

    def device(self):
        cdef int value = 0
        self._open()
        check_nccl(nccl.CommCuDevice(self.comm, &value), "ncclCommCuDevice")
        return value

    def state(self):
        """What ncclCommGetAsyncError says: 0 fine, 7 in progress, else the code of an error."""
        cdef nccl_result state = NCCL_SUCCESS
        cdef nccl_result result
        self._open()
        with nogil:
            result = nccl.CommGetAsyncError(self.comm, &state)
        check_nccl(result, "ncclCommGetAsyncError")
        return state

    def check_async(self):
        """Raise the error that happened after a call had returned, if there is one; else whether nothing is in progress."""
        cdef nccl_result state = self.state()
        check_nccl(state, "an earlier operation of this communicator")
        return state != NCCL_IN_PROGRESS

    def finalize(self):
        cdef nccl_result result
        self._open()
        with nogil:
            result = nccl.CommFinalize(self.comm)
        check_nccl(result, "ncclCommFinalize")

    def revoke(self):
        cdef nccl_result result
        self._open()
        need(<void*>nccl.CommRevoke, "ncclCommRevoke")
        with nogil:
            result = nccl.CommRevoke(self.comm, 0)
        check_nccl(result, "ncclCommRevoke")

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
