# SPDX-License-Identifier: Apache-2.0
# Memory that a communicator knows beforehand: registered buffers and windows.

cdef class RegistrationHandle:
    """One ncclCommRegister; NCCL answers with a null handle where it does not register (another setting, another path)."""
    cdef void* handle
    cdef CommHandle comm

    def __cinit__(self, CommHandle comm not None, uintptr_t address, size_t nbytes):
        cdef nccl_result result
        self.handle = NULL
        self.comm = comm
        comm._open()
        need(<void*>nccl.CommRegister, "ncclCommRegister")
        with nogil:
            result = nccl.CommRegister(comm.comm, <void*>address, nbytes, &self.handle)
        check_nccl(result, "ncclCommRegister")

    @property
    def active(self):
        return self.handle is not NULL and self.comm.comm is not NULL

    def close(self):
        cdef void* handle = self.handle
        cdef nccl_result result
        self.handle = NULL
        # A communicator that has ended has taken its registrations with it.
        if handle is NULL or self.comm.comm is NULL:
            return
        with nogil:
            result = nccl.CommDeregister(self.comm.comm, handle)
        check_nccl(result, "ncclCommDeregister")


cdef class WindowHandle:
    """One ncclCommWindowRegister. Inside a group NCCL writes the window when the group ends: keep the object."""
    cdef nccl_window window
    cdef CommHandle comm

    def __cinit__(self, CommHandle comm not None, uintptr_t address, size_t nbytes, bint symmetric, bint strict_ordering):
        cdef int flags = ((NCCL_WINDOW_SYMMETRIC if symmetric else 0) |
                          (NCCL_WINDOW_STRICT_ORDERING if strict_ordering else 0))
        cdef nccl_result result
        self.window = NULL
        self.comm = comm
        comm._open()
        need(<void*>nccl.CommWindowRegister, "ncclCommWindowRegister")
        with nogil:
            result = nccl.CommWindowRegister(comm.comm, <void*>address, nbytes, &self.window, flags)
        check_nccl(result, "ncclCommWindowRegister")

    @property
    def active(self):
        return self.window is not NULL and self.comm.comm is not NULL

    @property
    def address(self):
        return <uintptr_t>self.window

    def user_address(self):
        """Address that was registered, as NCCL has it."""
        cdef void* pointer = NULL
        self._open()
        need(<void*>nccl.WinGetUserPtr, "ncclWinGetUserPtr")
        check_nccl(nccl.WinGetUserPtr(self.comm.comm, self.window, &pointer), "ncclWinGetUserPtr")
        return <uintptr_t>pointer

    def peer_address(self, int peer, size_t offset_bytes):
        """Where this process's device reaches ``peer``'s memory; 0 where it does not."""
        cdef void* pointer = NULL
        cdef nccl_result result
        self._open()
        need(<void*>nccl.GetPeerDevicePointer, "ncclGetPeerDevicePointer")
        with nogil:
            result = nccl.GetPeerDevicePointer(self.window, offset_bytes, peer, &pointer)
        check_nccl(result, "ncclGetPeerDevicePointer")
        return <uintptr_t>pointer

    def multimem_address(self, size_t offset_bytes):
        """Where a multimem instruction reaches all ranks of this host; 0 where there is no multicast."""
        cdef void* pointer = NULL
        cdef nccl_result result
        self._open()
        need(<void*>nccl.GetLsaMultimemDevicePointer, "ncclGetLsaMultimemDevicePointer")
        with nogil:
            result = nccl.GetLsaMultimemDevicePointer(self.window, offset_bytes, &pointer)
        check_nccl(result, "ncclGetLsaMultimemDevicePointer")
        return <uintptr_t>pointer

    cdef int _open(self) except -1:
        self.comm._open()
        if self.window is NULL:
            raise ValueError("the window has been closed, its group has not ended, or this communicator supports none")
        return 0

    def close(self):
        cdef nccl_window window = self.window
        cdef nccl_result result
        self.window = NULL
        if window is NULL or self.comm.comm is NULL:
            return
        with nogil:
            result = nccl.CommWindowDeregister(self.comm.comm, window)
        check_nccl(result, "ncclCommWindowDeregister")
