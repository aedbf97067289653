# SPDX-License-Identifier: Apache-2.0
# Device memory, and what the device can reach.

from cpython.buffer cimport PyBuffer_FillInfo

cdef class DeviceMemory:
    """One device allocation of ``nbytes`` bytes, freed with the object; ``by_nccl``: ncclMemAlloc instead of cudaMalloc.

    Where device memory is host memory (hostcuda) it offers the buffer protocol, so that NumPy can view it.
    """
    cdef void* pointer
    cdef readonly size_t nbytes
    cdef readonly int device
    cdef bint host_visible
    cdef bint by_nccl

    def __cinit__(self, size_t nbytes, bint by_nccl=False):
        cdef cuda_result result
        # Zero bytes still get an address of their own: NCCL checks that non-empty and empty calls alike pass pointers.
        cdef size_t allocated = nbytes if nbytes > 0 else 16
        self.pointer = NULL
        self.by_nccl = by_nccl
        need(<void*>cuda.Malloc, "cudaMalloc")
        self.device = current_device()
        if by_nccl:
            need(<void*>nccl.MemAlloc, "ncclMemAlloc")
            need(<void*>nccl.MemFree, "ncclMemFree")
            with nogil:
                result = nccl.MemAlloc(&self.pointer, allocated)
            check_nccl(result, f"ncclMemAlloc of {nbytes} bytes")
        else:
            with nogil:
                result = cuda.Malloc(&self.pointer, allocated)
            check_cuda(result, f"cudaMalloc of {nbytes} bytes")
        self.nbytes = nbytes
        self.host_visible = cuda_has("hostcudaVersion")

    def __dealloc__(self):
        # Failing to free at the end of the process is nobody's concern, and an exception cannot leave here.
        if self.pointer is not NULL:
            with nogil:
                if self.by_nccl:
                    nccl.MemFree(self.pointer)
                else:
                    cuda.Free(self.pointer)
            self.pointer = NULL

    @property
    def address(self):
        return <uintptr_t>self.pointer

    def __getbuffer__(self, Py_buffer* view, int flags):
        if not self.host_visible:
            raise BufferError("this memory is on a GPU and the host cannot read it; copy it with to_host()")
        PyBuffer_FillInfo(view, self, self.pointer, <Py_ssize_t>self.nbytes, 0, flags)


def pointer_kind(uintptr_t address):
    """"device", "managed" or "host" (pinned or registered) where the device reaches ``address``, else "unreachable"."""
    cdef cuda_pointer_attributes attributes
    cdef cuda_result result
    need(<void*>cuda.PointerGetAttributes, "cudaPointerGetAttributes")
    memset(&attributes, 0, sizeof(attributes))
    with nogil:
        result = cuda.PointerGetAttributes(&attributes, <const void*>address)
    if result != CUDA_SUCCESS:
        # CUDA before 11 answers memory it does not know with an error instead of a type.
        cuda.GetLastError()
        return "unreachable"
    return {1: "host", 2: "device", 3: "managed"}.get(attributes.type, "unreachable")


def copy(uintptr_t destination, uintptr_t source, size_t nbytes, uintptr_t stream):
    """Copy between any two memories in ``stream``'s order and wait until it is done."""
    cdef cuda_result result
    need(<void*>cuda.MemcpyAsync, "cudaMemcpyAsync")
    with nogil:
        result = cuda.MemcpyAsync(<void*>destination, <const void*>source, nbytes, CUDA_MEMCPY_DEFAULT, <cuda_stream>stream)
        if result == CUDA_SUCCESS:
            result = cuda.StreamSynchronize(<cuda_stream>stream)
    check_cuda(result, f"cudaMemcpyAsync of {nbytes} bytes")


def fill(uintptr_t destination, int byte, size_t nbytes, uintptr_t stream):
    """Set ``nbytes`` bytes to ``byte`` in ``stream``'s order; does not wait."""
    cdef cuda_result result
    need(<void*>cuda.MemsetAsync, "cudaMemsetAsync")
    with nogil:
        result = cuda.MemsetAsync(<void*>destination, byte, nbytes, <cuda_stream>stream)
    check_cuda(result, f"cudaMemsetAsync of {nbytes} bytes")
