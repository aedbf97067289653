# SPDX-License-Identifier: Apache-2.0
# The tables of function pointers, filled once for the process.

cdef struct NcclTable:
    nccl_result (*GetVersion)(int*) noexcept nogil
    const char* (*GetErrorString)(nccl_result) noexcept nogil
    const char* (*GetLastError)(nccl_comm) noexcept nogil
    nccl_result (*MemAlloc)(void**, size_t) noexcept nogil
    nccl_result (*MemFree)(void*) noexcept nogil
    # communicators
    nccl_result (*GetUniqueId)(nccl_unique_id*) noexcept nogil
    nccl_result (*CommInitRankConfig)(nccl_comm*, int, nccl_unique_id, int, nccl_config*) noexcept nogil
    nccl_result (*CommInitRankScalable)(nccl_comm*, int, int, int, nccl_unique_id*, nccl_config*) noexcept nogil
    nccl_result (*CommInitAll)(nccl_comm*, int, const int*) noexcept nogil
    nccl_result (*CommFinalize)(nccl_comm) noexcept nogil
    nccl_result (*CommDestroy)(nccl_comm) noexcept nogil
    nccl_result (*CommAbort)(nccl_comm) noexcept nogil
    nccl_result (*CommRevoke)(nccl_comm, int) noexcept nogil
    nccl_result (*CommSplit)(nccl_comm, int, int, nccl_comm*, nccl_config*) noexcept nogil
    nccl_result (*CommShrink)(nccl_comm, int*, int, nccl_comm*, nccl_config*, int) noexcept nogil
    nccl_result (*CommGetUniqueId)(nccl_comm, nccl_unique_id*) noexcept nogil
    nccl_result (*CommGrow)(nccl_comm, int, const nccl_unique_id*, int, nccl_comm*, nccl_config*) noexcept nogil
    nccl_result (*CommGetAsyncError)(nccl_comm, nccl_result*) noexcept nogil
    nccl_result (*CommCount)(nccl_comm, int*) noexcept nogil
    nccl_result (*CommUserRank)(nccl_comm, int*) noexcept nogil
    nccl_result (*CommCuDevice)(nccl_comm, int*) noexcept nogil
    nccl_result (*CommQueryProperties)(nccl_comm, nccl_properties*) noexcept nogil
    nccl_result (*CommMemStats)(nccl_comm, int, uint64_t*) noexcept nogil
    nccl_result (*CommSuspend)(nccl_comm, int) noexcept nogil
    nccl_result (*CommResume)(nccl_comm) noexcept nogil
    # memory that a communicator knows
    nccl_result (*CommRegister)(nccl_comm, void*, size_t, void**) noexcept nogil
    nccl_result (*CommDeregister)(nccl_comm, void*) noexcept nogil
    nccl_result (*CommWindowRegister)(nccl_comm, void*, size_t, nccl_window*, int) noexcept nogil
    nccl_result (*CommWindowDeregister)(nccl_comm, nccl_window) noexcept nogil
    nccl_result (*WinGetUserPtr)(nccl_comm, nccl_window, void**) noexcept nogil
    nccl_result (*GetPeerDevicePointer)(nccl_window, size_t, int, void**) noexcept nogil
    nccl_result (*GetLsaMultimemDevicePointer)(nccl_window, size_t, void**) noexcept nogil
    # operations
    nccl_result (*GroupStart)() noexcept nogil
    nccl_result (*GroupEnd)() noexcept nogil
    nccl_result (*GroupSimulateEnd)(nccl_sim_info*) noexcept nogil
    nccl_result (*RedOpCreatePreMulSum)(int*, void*, int, int, nccl_comm) noexcept nogil
    nccl_result (*RedOpDestroy)(int, nccl_comm) noexcept nogil
    nccl_result (*AllReduce)(const void*, void*, size_t, int, int, nccl_comm, cuda_stream) noexcept nogil
    nccl_result (*AllGather)(const void*, void*, size_t, int, nccl_comm, cuda_stream) noexcept nogil
    nccl_result (*ReduceScatter)(const void*, void*, size_t, int, int, nccl_comm, cuda_stream) noexcept nogil
    nccl_result (*Broadcast)(const void*, void*, size_t, int, int, nccl_comm, cuda_stream) noexcept nogil
    nccl_result (*Reduce)(const void*, void*, size_t, int, int, int, nccl_comm, cuda_stream) noexcept nogil
    nccl_result (*AlltoAll)(const void*, void*, size_t, int, nccl_comm, cuda_stream) noexcept nogil
    nccl_result (*Gather)(const void*, void*, size_t, int, int, nccl_comm, cuda_stream) noexcept nogil
    nccl_result (*Scatter)(const void*, void*, size_t, int, int, nccl_comm, cuda_stream) noexcept nogil
    nccl_result (*Send)(const void*, size_t, int, int, nccl_comm, cuda_stream) noexcept nogil
    nccl_result (*Recv)(void*, size_t, int, int, nccl_comm, cuda_stream) noexcept nogil
    nccl_result (*PutSignal)(const void*, size_t, int, int, nccl_window, size_t, int, int, unsigned int, nccl_comm,
                             cuda_stream) noexcept nogil
    nccl_result (*Signal)(int, int, int, unsigned int, nccl_comm, cuda_stream) noexcept nogil
    nccl_result (*WaitSignal)(int, nccl_wait_signal*, nccl_comm, cuda_stream) noexcept nogil

cdef struct CudaTable:
    cuda_result (*RuntimeGetVersion)(int*) noexcept nogil
    cuda_result (*GetLastError)() noexcept nogil
    const char* (*GetErrorString)(cuda_result) noexcept nogil
    const char* (*GetErrorName)(cuda_result) noexcept nogil
    cuda_result (*GetDeviceCount)(int*) noexcept nogil
    cuda_result (*GetDevice)(int*) noexcept nogil
    cuda_result (*SetDevice)(int) noexcept nogil
    cuda_result (*DeviceGetAttribute)(int*, int, int) noexcept nogil
    cuda_result (*DeviceGetPCIBusId)(char*, int, int) noexcept nogil
    cuda_result (*GetDeviceProperties)(void*, int) noexcept nogil
    cuda_result (*DeviceSynchronize)() noexcept nogil
    cuda_result (*Malloc)(void**, size_t) noexcept nogil
    cuda_result (*Free)(void*) noexcept nogil
    cuda_result (*MemsetAsync)(void*, int, size_t, cuda_stream) noexcept nogil
    cuda_result (*MemcpyAsync)(void*, const void*, size_t, int, cuda_stream) noexcept nogil
    cuda_result (*PointerGetAttributes)(cuda_pointer_attributes*, const void*) noexcept nogil
    cuda_result (*StreamCreateWithPriority)(cuda_stream*, unsigned int, int) noexcept nogil
    cuda_result (*StreamDestroy)(cuda_stream) noexcept nogil
    cuda_result (*StreamSynchronize)(cuda_stream) noexcept nogil
    cuda_result (*StreamQuery)(cuda_stream) noexcept nogil
    cuda_result (*StreamBeginCapture)(cuda_stream, int) noexcept nogil
    cuda_result (*StreamEndCapture)(cuda_stream, cuda_graph*) noexcept nogil
    cuda_result (*StreamIsCapturing)(cuda_stream, int*) noexcept nogil
    cuda_result (*GraphGetNodes)(cuda_graph, void*, size_t*) noexcept nogil
    cuda_result (*GraphDestroy)(cuda_graph) noexcept nogil
    cuda_result (*GraphInstantiateWithFlags)(cuda_graph_exec*, cuda_graph, unsigned long long) noexcept nogil
    cuda_result (*GraphLaunch)(cuda_graph_exec, cuda_stream) noexcept nogil
    cuda_result (*GraphExecUpdate)(cuda_graph_exec, cuda_graph, cuda_graph_update*) noexcept nogil
    cuda_result (*GraphExecDestroy)(cuda_graph_exec) noexcept nogil
    cuda_result (*StreamWaitEvent)(cuda_stream, cuda_event, unsigned int) noexcept nogil
    cuda_result (*EventCreateWithFlags)(cuda_event*, unsigned int) noexcept nogil
    cuda_result (*EventDestroy)(cuda_event) noexcept nogil
    cuda_result (*EventRecord)(cuda_event, cuda_stream) noexcept nogil
    cuda_result (*EventSynchronize)(cuda_event) noexcept nogil
    cuda_result (*EventQuery)(cuda_event) noexcept nogil
    cuda_result (*EventElapsedTime)(float*, cuda_event, cuda_event) noexcept nogil

cdef NcclTable nccl
cdef CudaTable cuda

memset(&nccl, 0, sizeof(nccl))
memset(&cuda, 0, sizeof(cuda))

cdef int _take(void* handle, void** slot, bytes name, bint required) except -1:
    slot[0] = _symbol(handle, name, required)
    return 0


cdef int _fill_nccl(void* handle) except -1:
    # What is not required came with a later NCCL than 2.19; whoever calls it without having it gets one line.
    _take(handle, <void**>&nccl.GetVersion, b"ncclGetVersion", True)
    _take(handle, <void**>&nccl.GetErrorString, b"ncclGetErrorString", True)
    _take(handle, <void**>&nccl.GetLastError, b"ncclGetLastError", False)
    _take(handle, <void**>&nccl.MemAlloc, b"ncclMemAlloc", False)
    _take(handle, <void**>&nccl.MemFree, b"ncclMemFree", False)
    _take(handle, <void**>&nccl.GetUniqueId, b"ncclGetUniqueId", True)
    _take(handle, <void**>&nccl.CommInitRankConfig, b"ncclCommInitRankConfig", True)
    _take(handle, <void**>&nccl.CommInitRankScalable, b"ncclCommInitRankScalable", False)
    _take(handle, <void**>&nccl.CommInitAll, b"ncclCommInitAll", True)
    _take(handle, <void**>&nccl.CommFinalize, b"ncclCommFinalize", True)
    _take(handle, <void**>&nccl.CommDestroy, b"ncclCommDestroy", True)
    _take(handle, <void**>&nccl.CommAbort, b"ncclCommAbort", True)
    _take(handle, <void**>&nccl.CommRevoke, b"ncclCommRevoke", False)
    _take(handle, <void**>&nccl.CommSplit, b"ncclCommSplit", False)
    _take(handle, <void**>&nccl.CommShrink, b"ncclCommShrink", False)
    _take(handle, <void**>&nccl.CommGetUniqueId, b"ncclCommGetUniqueId", False)
    _take(handle, <void**>&nccl.CommGrow, b"ncclCommGrow", False)
    _take(handle, <void**>&nccl.CommGetAsyncError, b"ncclCommGetAsyncError", True)
    _take(handle, <void**>&nccl.CommCount, b"ncclCommCount", True)
    _take(handle, <void**>&nccl.CommUserRank, b"ncclCommUserRank", True)
    _take(handle, <void**>&nccl.CommCuDevice, b"ncclCommCuDevice", True)
    _take(handle, <void**>&nccl.CommQueryProperties, b"ncclCommQueryProperties", False)
    _take(handle, <void**>&nccl.CommMemStats, b"ncclCommMemStats", False)
    _take(handle, <void**>&nccl.CommSuspend, b"ncclCommSuspend", False)
    _take(handle, <void**>&nccl.CommResume, b"ncclCommResume", False)
    _take(handle, <void**>&nccl.CommRegister, b"ncclCommRegister", False)
    _take(handle, <void**>&nccl.CommDeregister, b"ncclCommDeregister", False)
    _take(handle, <void**>&nccl.CommWindowRegister, b"ncclCommWindowRegister", False)
    _take(handle, <void**>&nccl.CommWindowDeregister, b"ncclCommWindowDeregister", False)
    _take(handle, <void**>&nccl.WinGetUserPtr, b"ncclWinGetUserPtr", False)
    _take(handle, <void**>&nccl.GetPeerDevicePointer, b"ncclGetPeerDevicePointer", False)
    _take(handle, <void**>&nccl.GetLsaMultimemDevicePointer, b"ncclGetLsaMultimemDevicePointer", False)
    _take(handle, <void**>&nccl.GroupStart, b"ncclGroupStart", True)
    _take(handle, <void**>&nccl.GroupEnd, b"ncclGroupEnd", True)
    _take(handle, <void**>&nccl.GroupSimulateEnd, b"ncclGroupSimulateEnd", False)
    _take(handle, <void**>&nccl.RedOpCreatePreMulSum, b"ncclRedOpCreatePreMulSum", True)
    _take(handle, <void**>&nccl.RedOpDestroy, b"ncclRedOpDestroy", True)
    _take(handle, <void**>&nccl.AllReduce, b"ncclAllReduce", True)
    _take(handle, <void**>&nccl.AllGather, b"ncclAllGather", True)
    _take(handle, <void**>&nccl.ReduceScatter, b"ncclReduceScatter", True)
    _take(handle, <void**>&nccl.Broadcast, b"ncclBroadcast", True)
    _take(handle, <void**>&nccl.Reduce, b"ncclReduce", True)
    _take(handle, <void**>&nccl.AlltoAll, b"ncclAlltoAll", False)
    _take(handle, <void**>&nccl.Gather, b"ncclGather", False)
    _take(handle, <void**>&nccl.Scatter, b"ncclScatter", False)
    _take(handle, <void**>&nccl.Send, b"ncclSend", True)
    _take(handle, <void**>&nccl.Recv, b"ncclRecv", True)
    _take(handle, <void**>&nccl.PutSignal, b"ncclPutSignal", False)
    _take(handle, <void**>&nccl.Signal, b"ncclSignal", False)
    _take(handle, <void**>&nccl.WaitSignal, b"ncclWaitSignal", False)
    return 0


cdef int _fill_cuda(void* handle) except -1:
    _take(handle, <void**>&cuda.RuntimeGetVersion, b"cudaRuntimeGetVersion", True)
    _take(handle, <void**>&cuda.GetLastError, b"cudaGetLastError", True)
    _take(handle, <void**>&cuda.GetErrorString, b"cudaGetErrorString", True)
    _take(handle, <void**>&cuda.GetErrorName, b"cudaGetErrorName", True)
    _take(handle, <void**>&cuda.GetDeviceCount, b"cudaGetDeviceCount", True)
    _take(handle, <void**>&cuda.GetDevice, b"cudaGetDevice", True)
    _take(handle, <void**>&cuda.SetDevice, b"cudaSetDevice", True)
    _take(handle, <void**>&cuda.DeviceGetAttribute, b"cudaDeviceGetAttribute", True)
    _take(handle, <void**>&cuda.DeviceGetPCIBusId, b"cudaDeviceGetPCIBusId", True)
    # CUDA 12 put the present structure behind a new name; CUDA 13 took the old name back. Only the leading name is read.
    _take(handle, <void**>&cuda.GetDeviceProperties, b"cudaGetDeviceProperties_v2", False)
    if cuda.GetDeviceProperties is NULL:
        _take(handle, <void**>&cuda.GetDeviceProperties, b"cudaGetDeviceProperties", True)
    _take(handle, <void**>&cuda.DeviceSynchronize, b"cudaDeviceSynchronize", True)
    _take(handle, <void**>&cuda.Malloc, b"cudaMalloc", True)
    _take(handle, <void**>&cuda.Free, b"cudaFree", True)
    _take(handle, <void**>&cuda.MemsetAsync, b"cudaMemsetAsync", True)
    _take(handle, <void**>&cuda.MemcpyAsync, b"cudaMemcpyAsync", True)
    _take(handle, <void**>&cuda.PointerGetAttributes, b"cudaPointerGetAttributes", True)
    _take(handle, <void**>&cuda.StreamCreateWithPriority, b"cudaStreamCreateWithPriority", True)
    _take(handle, <void**>&cuda.StreamDestroy, b"cudaStreamDestroy", True)
    _take(handle, <void**>&cuda.StreamSynchronize, b"cudaStreamSynchronize", True)
    _take(handle, <void**>&cuda.StreamQuery, b"cudaStreamQuery", True)
    _take(handle, <void**>&cuda.StreamBeginCapture, b"cudaStreamBeginCapture", True)
    _take(handle, <void**>&cuda.StreamEndCapture, b"cudaStreamEndCapture", True)
    _take(handle, <void**>&cuda.StreamIsCapturing, b"cudaStreamIsCapturing", True)
    _take(handle, <void**>&cuda.GraphGetNodes, b"cudaGraphGetNodes", True)
    _take(handle, <void**>&cuda.GraphDestroy, b"cudaGraphDestroy", True)
    _take(handle, <void**>&cuda.GraphInstantiateWithFlags, b"cudaGraphInstantiateWithFlags", True)
    _take(handle, <void**>&cuda.GraphLaunch, b"cudaGraphLaunch", True)
    _take(handle, <void**>&cuda.GraphExecUpdate, b"cudaGraphExecUpdate", True)
    _take(handle, <void**>&cuda.GraphExecDestroy, b"cudaGraphExecDestroy", True)
    _take(handle, <void**>&cuda.StreamWaitEvent, b"cudaStreamWaitEvent", True)
    _take(handle, <void**>&cuda.EventCreateWithFlags, b"cudaEventCreateWithFlags", True)
    _take(handle, <void**>&cuda.EventDestroy, b"cudaEventDestroy", True)
    _take(handle, <void**>&cuda.EventRecord, b"cudaEventRecord", True)
    _take(handle, <void**>&cuda.EventSynchronize, b"cudaEventSynchronize", True)
    _take(handle, <void**>&cuda.EventQuery, b"cudaEventQuery", True)
    _take(handle, <void**>&cuda.EventElapsedTime, b"cudaEventElapsedTime", True)
    return 0
