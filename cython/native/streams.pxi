# SPDX-License-Identifier: Apache-2.0
# Streams and events.

cdef class StreamHandle:
    """A stream of the current device, destroyed with the object; ``priority`` as CUDA counts it (lower is more urgent)."""
    cdef cuda_stream stream
    cdef readonly int priority

    def __cinit__(self, int priority=0):
        self.stream = NULL
        self.priority = priority
        need(<void*>cuda.StreamCreateWithPriority, "cudaStreamCreateWithPriority")
        check_cuda(cuda.StreamCreateWithPriority(&self.stream, CUDA_STREAM_NON_BLOCKING, priority),
                   "cudaStreamCreateWithPriority")

    def __dealloc__(self):
        if self.stream is not NULL:
            with nogil:
                cuda.StreamDestroy(self.stream)
            self.stream = NULL

    @property
    def address(self):
        return <uintptr_t>self.stream


def stream_synchronize(uintptr_t stream):
    cdef cuda_result result
    need(<void*>cuda.StreamSynchronize, "cudaStreamSynchronize")
    with nogil:
        result = cuda.StreamSynchronize(<cuda_stream>stream)
    check_cuda(result, "cudaStreamSynchronize")


def stream_query(uintptr_t stream):
    """Whether everything in ``stream`` has been done."""
    cdef cuda_result result
    need(<void*>cuda.StreamQuery, "cudaStreamQuery")
    with nogil:
        result = cuda.StreamQuery(<cuda_stream>stream)
    if result == CUDA_NOT_READY:
        cuda.GetLastError()
        return False
    check_cuda(result, "cudaStreamQuery")
    return True


cdef class EventHandle:
    """An event of the current device that keeps its time, destroyed with the object."""
    cdef cuda_event event

    def __cinit__(self):
        self.event = NULL
        need(<void*>cuda.EventCreateWithFlags, "cudaEventCreateWithFlags")
        check_cuda(cuda.EventCreateWithFlags(&self.event, 0), "cudaEventCreateWithFlags")

    def __dealloc__(self):
        if self.event is not NULL:
            with nogil:
                cuda.EventDestroy(self.event)
            self.event = NULL

    @property
    def address(self):
        return <uintptr_t>self.event

    def record(self, uintptr_t stream):
        cdef cuda_result result
        with nogil:
            result = cuda.EventRecord(self.event, <cuda_stream>stream)
        check_cuda(result, "cudaEventRecord")

    def wait_in(self, uintptr_t stream):
        """Let ``stream`` wait for this event."""
        cdef cuda_result result
        with nogil:
            result = cuda.StreamWaitEvent(<cuda_stream>stream, self.event, 0)
        check_cuda(result, "cudaStreamWaitEvent")

    def synchronize(self):
        cdef cuda_result result
        with nogil:
            result = cuda.EventSynchronize(self.event)
        check_cuda(result, "cudaEventSynchronize")

    def query(self):
        cdef cuda_result result
        with nogil:
            result = cuda.EventQuery(self.event)
        if result == CUDA_NOT_READY:
            cuda.GetLastError()
            return False
        check_cuda(result, "cudaEventQuery")
        return True

    def elapsed_ms(self, EventHandle since not None):
        cdef float milliseconds = 0
        cdef cuda_result result
        with nogil:
            result = cuda.EventElapsedTime(&milliseconds, since.event, self.event)
        check_cuda(result, "cudaEventElapsedTime")
        return milliseconds
