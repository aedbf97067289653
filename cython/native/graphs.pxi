# SPDX-License-Identifier: Apache-2.0
# Graphs captured from streams, and their executable form.


def begin_capture(uintptr_t stream, int mode):
    need(<void*>cuda.StreamBeginCapture, "cudaStreamBeginCapture")
    check_cuda(cuda.StreamBeginCapture(<cuda_stream>stream, mode), "cudaStreamBeginCapture")


def capture_active(uintptr_t stream):
    """Whether ``stream`` takes part in a capture that nothing has broken."""
    cdef int status = 0
    need(<void*>cuda.StreamIsCapturing, "cudaStreamIsCapturing")
    check_cuda(cuda.StreamIsCapturing(<cuda_stream>stream, &status), "cudaStreamIsCapturing")
    return status == CUDA_CAPTURE_ACTIVE


cdef class GraphHandle:
    """A graph, destroyed with the object."""
    cdef cuda_graph graph

    def __cinit__(self):
        self.graph = NULL

    def __dealloc__(self):
        self.destroy()

    def destroy(self):
        if self.graph is not NULL:
            with nogil:
                cuda.GraphDestroy(self.graph)
            self.graph = NULL

    @staticmethod
    def end_capture(uintptr_t stream):
        """What ``stream`` has captured. Where the capture was broken it ends all the same, and CudaError says how."""
        cdef GraphHandle made = GraphHandle()
        need(<void*>cuda.StreamEndCapture, "cudaStreamEndCapture")
        check_cuda(cuda.StreamEndCapture(<cuda_stream>stream, &made.graph), "cudaStreamEndCapture")
        return made

    @property
    def address(self):
        return <uintptr_t>self.graph

    def nodes(self):
        cdef size_t count = 0
        need(<void*>cuda.GraphGetNodes, "cudaGraphGetNodes")
        check_cuda(cuda.GraphGetNodes(self.graph, NULL, &count), "cudaGraphGetNodes")
        return count


cdef class GraphExecHandle:
    """An executable graph, destroyed with the object."""
    cdef cuda_graph_exec executable

    def __cinit__(self, GraphHandle graph not None):
        self.executable = NULL
        need(<void*>cuda.GraphInstantiateWithFlags, "cudaGraphInstantiateWithFlags")
        check_cuda(cuda.GraphInstantiateWithFlags(&self.executable, graph.graph, 0), "cudaGraphInstantiateWithFlags")

    def __dealloc__(self):
        self.destroy()

    def destroy(self):
        if self.executable is not NULL:
            with nogil:
                cuda.GraphExecDestroy(self.executable)
            self.executable = NULL

    @property
    def address(self):
        return <uintptr_t>self.executable

    def launch(self, uintptr_t stream):
        cdef cuda_result result
        with nogil:
            result = cuda.GraphLaunch(self.executable, <cuda_stream>stream)
        check_cuda(result, "cudaGraphLaunch")

    def update(self, GraphHandle graph not None):
        """0 where the parameters of ``graph`` have been taken, else CUDA's number for what stands in the way."""
        cdef cuda_graph_update info
        cdef cuda_result result
        need(<void*>cuda.GraphExecUpdate, "cudaGraphExecUpdate")
        memset(&info, 0, sizeof(info))
        result = cuda.GraphExecUpdate(self.executable, graph.graph, &info)
        if result == CUDA_GRAPH_UPDATE_FAILURE:
            cuda.GetLastError()
            return info.result
        check_cuda(result, "cudaGraphExecUpdate")
        return 0
