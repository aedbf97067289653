# SPDX-License-Identifier: Apache-2.0
# The tables of function pointers, filled once for the process.

cdef extern from "dlfcn.h" nogil:
    ctypedef struct Dl_info:
        const char* dli_fname
        void* dli_fbase
        const char* dli_sname
        void* dli_saddr
    void* dlopen(const char* path, int flags)
    void* dlsym(void* handle, const char* name)
    int dladdr(void* address, Dl_info* info)
    char* dlerror()
    int RTLD_NOW
    int RTLD_LOCAL
    int RTLD_NOLOAD

cdef extern from *:
    """
    /* RTLD_DEFAULT is a GNU extension and needs _GNU_SOURCE before the first system header, which Python.h decides. */
    #ifndef RTLD_DEFAULT
    #define RTLD_DEFAULT ((void*)0)
    #endif
    """
    void* RTLD_DEFAULT

cdef struct NcclTable:
    nccl_result (*GetVersion)(int*) noexcept nogil
    nccl_result (*GetUniqueId)(nccl_unique_id*) noexcept nogil
    nccl_result (*CommInitRankConfig)(nccl_comm*, int, nccl_unique_id, int, nccl_config*) noexcept nogil
    nccl_result (*CommFinalize)(nccl_comm) noexcept nogil
    nccl_result (*CommDestroy)(nccl_comm) noexcept nogil
    nccl_result (*CommAbort)(nccl_comm) noexcept nogil
    nccl_result (*CommSplit)(nccl_comm, int, int, nccl_comm*, nccl_config*) noexcept nogil
    nccl_result (*CommGetAsyncError)(nccl_comm, nccl_result*) noexcept nogil
    nccl_result (*CommCount)(nccl_comm, int*) noexcept nogil
    nccl_result (*CommUserRank)(nccl_comm, int*) noexcept nogil
    nccl_result (*CommCuDevice)(nccl_comm, int*) noexcept nogil
    const char* (*GetErrorString)(nccl_result) noexcept nogil
    const char* (*GetLastError)(nccl_comm) noexcept nogil
    nccl_result (*GroupStart)() noexcept nogil
    nccl_result (*GroupEnd)() noexcept nogil
    nccl_result (*AllReduce)(const void*, void*, size_t, int, int, nccl_comm, cuda_stream) noexcept nogil
    nccl_result (*AllGather)(const void*, void*, size_t, int, nccl_comm, cuda_stream) noexcept nogil
    nccl_result (*ReduceScatter)(const void*, void*, size_t, int, int, nccl_comm, cuda_stream) noexcept nogil
    nccl_result (*Broadcast)(const void*, void*, size_t, int, int, nccl_comm, cuda_stream) noexcept nogil
    nccl_result (*Reduce)(const void*, void*, size_t, int, int, int, nccl_comm, cuda_stream) noexcept nogil

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
    cuda_result (*StreamWaitEvent)(cuda_stream, cuda_event, unsigned int) noexcept nogil
    cuda_result (*EventCreateWithFlags)(cuda_event*, unsigned int) noexcept nogil
    cuda_result (*EventDestroy)(cuda_event) noexcept nogil
    cuda_result (*EventRecord)(cuda_event, cuda_stream) noexcept nogil
    cuda_result (*EventSynchronize)(cuda_event) noexcept nogil
    cuda_result (*EventQuery)(cuda_event) noexcept nogil
    cuda_result (*EventElapsedTime)(float*, cuda_event, cuda_event) noexcept nogil

cdef NcclTable nccl
cdef CudaTable cuda
cdef void* nccl_handle = NULL
cdef void* cuda_handle = NULL
cdef bint tables_loaded = False
tables_path = ""

memset(&nccl, 0, sizeof(nccl))
memset(&cuda, 0, sizeof(cuda))

cdef str _file_of(void* address):
    cdef Dl_info info
    if address is NULL or dladdr(address, &info) == 0 or info.dli_fname is NULL:
        return ""
    return (<bytes>info.dli_fname).decode("utf-8", "surrogateescape")


def file_in_process(str symbol, sonames):
    """Path of the library that already provides ``symbol`` to this process (a preload, or a library that some other module
    opened under one of ``sonames``); "" where there is none."""
    cdef bytes name = symbol.encode()
    cdef void* address = dlsym(RTLD_DEFAULT, name)
    cdef void* handle
    cdef bytes encoded
    if address is NULL:
        for soname in sonames:
            encoded = soname.encode()
            handle = dlopen(encoded, RTLD_NOW | RTLD_NOLOAD)
            if handle is not NULL:
                address = dlsym(handle, name)
                if address is not NULL:
                    break
    return _file_of(address)


cdef void* _open(str path) except NULL:
    cdef bytes encoded = path.encode("utf-8", "surrogateescape")
    cdef const char* name = encoded
    cdef void* handle
    with nogil:
        handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)
    if handle is NULL:
        raise LibraryError(f"cannot open {path}: {_text(dlerror())}")
    return handle


def try_open(str path):
    """Open ``path`` and keep it open; LibraryError where the loader does not find or accept it."""
    _open(path)


cdef void* _symbol(void* handle, bytes name, bint required) except? NULL:
    cdef void* address = dlsym(handle, name)
    if address is NULL and required:
        raise LibraryError(f"{name.decode()} is not in {tables_path}: not a library that lagom can drive")
    return address


def open_nccl(str path):
    """Open ``path`` (a file or a soname) as NCCL and fill its table; returns the file that the loader took."""
    global nccl_handle, tables_loaded, tables_path
    cdef void* handle = _open(path)
    tables_path = path
    nccl.GetVersion = <nccl_result (*)(int*) noexcept nogil>_symbol(handle, b"ncclGetVersion", True)
    nccl.GetUniqueId = <nccl_result (*)(nccl_unique_id*) noexcept nogil>_symbol(handle, b"ncclGetUniqueId", True)
    nccl.GetErrorString = <const char* (*)(nccl_result) noexcept nogil>_symbol(handle, b"ncclGetErrorString", True)
    nccl.GetLastError = <const char* (*)(nccl_comm) noexcept nogil>_symbol(handle, b"ncclGetLastError", False)
    nccl.CommInitRankConfig = <nccl_result (*)(nccl_comm*, int, nccl_unique_id, int, nccl_config*) noexcept nogil>_symbol(
        handle, b"ncclCommInitRankConfig", True)
    nccl.CommFinalize = <nccl_result (*)(nccl_comm) noexcept nogil>_symbol(handle, b"ncclCommFinalize", True)
    nccl.CommDestroy = <nccl_result (*)(nccl_comm) noexcept nogil>_symbol(handle, b"ncclCommDestroy", True)
    nccl.CommAbort = <nccl_result (*)(nccl_comm) noexcept nogil>_symbol(handle, b"ncclCommAbort", True)
    nccl.CommSplit = <nccl_result (*)(nccl_comm, int, int, nccl_comm*, nccl_config*) noexcept nogil>_symbol(
        handle, b"ncclCommSplit", False)
    nccl.CommGetAsyncError = <nccl_result (*)(nccl_comm, nccl_result*) noexcept nogil>_symbol(
        handle, b"ncclCommGetAsyncError", True)
    nccl.CommCount = <nccl_result (*)(nccl_comm, int*) noexcept nogil>_symbol(handle, b"ncclCommCount", True)
    nccl.CommUserRank = <nccl_result (*)(nccl_comm, int*) noexcept nogil>_symbol(handle, b"ncclCommUserRank", True)
    nccl.CommCuDevice = <nccl_result (*)(nccl_comm, int*) noexcept nogil>_symbol(handle, b"ncclCommCuDevice", True)
    nccl.GroupStart = <nccl_result (*)() noexcept nogil>_symbol(handle, b"ncclGroupStart", True)
    nccl.GroupEnd = <nccl_result (*)() noexcept nogil>_symbol(handle, b"ncclGroupEnd", True)
    nccl.AllReduce = <nccl_result (*)(const void*, void*, size_t, int, int, nccl_comm, cuda_stream) noexcept nogil>_symbol(
        handle, b"ncclAllReduce", True)
    nccl.AllGather = <nccl_result (*)(const void*, void*, size_t, int, nccl_comm, cuda_stream) noexcept nogil>_symbol(
        handle, b"ncclAllGather", True)
    nccl.ReduceScatter = <nccl_result (*)(const void*, void*, size_t, int, int, nccl_comm, cuda_stream) noexcept nogil>_symbol(
        handle, b"ncclReduceScatter", True)
    nccl.Broadcast = <nccl_result (*)(const void*, void*, size_t, int, int, nccl_comm, cuda_stream) noexcept nogil>_symbol(
        handle, b"ncclBroadcast", True)
    nccl.Reduce = <nccl_result (*)(const void*, void*, size_t, int, int, int, nccl_comm, cuda_stream) noexcept nogil>_symbol(
        handle, b"ncclReduce", True)
    nccl_handle = handle
    tables_path = _file_of(<void*>nccl.GetVersion) or path
    tables_loaded = cuda_handle is not NULL
    return tables_path


def open_cuda(str path):
    """Open ``path`` (a file or a soname) as the CUDA runtime and fill its table; returns the file that the loader took."""
    global cuda_handle, tables_loaded, tables_path
    cdef void* handle = _open(path)
    cdef str nccl_path = tables_path
    tables_path = path
    try:
        _fill_cuda(handle)
    finally:
        tables_path = nccl_path
    cuda_handle = handle
    tables_loaded = nccl_handle is not NULL
    return _file_of(<void*>cuda.GetDeviceCount) or path


cdef int _fill_cuda(void* handle) except -1:
    cuda.RuntimeGetVersion = <cuda_result (*)(int*) noexcept nogil>_symbol(handle, b"cudaRuntimeGetVersion", True)
    cuda.GetLastError = <cuda_result (*)() noexcept nogil>_symbol(handle, b"cudaGetLastError", True)
    cuda.GetErrorString = <const char* (*)(cuda_result) noexcept nogil>_symbol(handle, b"cudaGetErrorString", True)
    cuda.GetErrorName = <const char* (*)(cuda_result) noexcept nogil>_symbol(handle, b"cudaGetErrorName", True)
    cuda.GetDeviceCount = <cuda_result (*)(int*) noexcept nogil>_symbol(handle, b"cudaGetDeviceCount", True)
    cuda.GetDevice = <cuda_result (*)(int*) noexcept nogil>_symbol(handle, b"cudaGetDevice", True)
    cuda.SetDevice = <cuda_result (*)(int) noexcept nogil>_symbol(handle, b"cudaSetDevice", True)
    cuda.DeviceGetAttribute = <cuda_result (*)(int*, int, int) noexcept nogil>_symbol(handle, b"cudaDeviceGetAttribute", True)
    cuda.DeviceGetPCIBusId = <cuda_result (*)(char*, int, int) noexcept nogil>_symbol(handle, b"cudaDeviceGetPCIBusId", True)
    # CUDA 12 put the present structure behind a new name; CUDA 13 took the old name back. Only the leading name is read.
    cdef void* properties = _symbol(handle, b"cudaGetDeviceProperties_v2", False)
    if properties is NULL:
        properties = _symbol(handle, b"cudaGetDeviceProperties", True)
    cuda.GetDeviceProperties = <cuda_result (*)(void*, int) noexcept nogil>properties
    cuda.DeviceSynchronize = <cuda_result (*)() noexcept nogil>_symbol(handle, b"cudaDeviceSynchronize", True)
    cuda.Malloc = <cuda_result (*)(void**, size_t) noexcept nogil>_symbol(handle, b"cudaMalloc", True)
    cuda.Free = <cuda_result (*)(void*) noexcept nogil>_symbol(handle, b"cudaFree", True)
    cuda.MemsetAsync = <cuda_result (*)(void*, int, size_t, cuda_stream) noexcept nogil>_symbol(
        handle, b"cudaMemsetAsync", True)
    cuda.MemcpyAsync = <cuda_result (*)(void*, const void*, size_t, int, cuda_stream) noexcept nogil>_symbol(
        handle, b"cudaMemcpyAsync", True)
    cuda.PointerGetAttributes = <cuda_result (*)(cuda_pointer_attributes*, const void*) noexcept nogil>_symbol(
        handle, b"cudaPointerGetAttributes", True)
    cuda.StreamCreateWithPriority = <cuda_result (*)(cuda_stream*, unsigned int, int) noexcept nogil>_symbol(
        handle, b"cudaStreamCreateWithPriority", True)
    cuda.StreamDestroy = <cuda_result (*)(cuda_stream) noexcept nogil>_symbol(handle, b"cudaStreamDestroy", True)
    cuda.StreamSynchronize = <cuda_result (*)(cuda_stream) noexcept nogil>_symbol(handle, b"cudaStreamSynchronize", True)
    cuda.StreamQuery = <cuda_result (*)(cuda_stream) noexcept nogil>_symbol(handle, b"cudaStreamQuery", True)
    cuda.StreamWaitEvent = <cuda_result (*)(cuda_stream, cuda_event, unsigned int) noexcept nogil>_symbol(
        handle, b"cudaStreamWaitEvent", True)
    cuda.EventCreateWithFlags = <cuda_result (*)(cuda_event*, unsigned int) noexcept nogil>_symbol(
        handle, b"cudaEventCreateWithFlags", True)
    cuda.EventDestroy = <cuda_result (*)(cuda_event) noexcept nogil>_symbol(handle, b"cudaEventDestroy", True)
    cuda.EventRecord = <cuda_result (*)(cuda_event, cuda_stream) noexcept nogil>_symbol(handle, b"cudaEventRecord", True)
    cuda.EventSynchronize = <cuda_result (*)(cuda_event) noexcept nogil>_symbol(handle, b"cudaEventSynchronize", True)
    cuda.EventQuery = <cuda_result (*)(cuda_event) noexcept nogil>_symbol(handle, b"cudaEventQuery", True)
    cuda.EventElapsedTime = <cuda_result (*)(float*, cuda_event, cuda_event) noexcept nogil>_symbol(
        handle, b"cudaEventElapsedTime", True)
    return 0


def nccl_has(str symbol):
    """Whether the loaded NCCL exports ``symbol``."""
    cdef bytes name = symbol.encode()
    return nccl_handle is not NULL and dlsym(nccl_handle, name) is not NULL


def cuda_has(str symbol):
    """Whether the loaded CUDA runtime exports ``symbol``."""
    cdef bytes name = symbol.encode()
    return cuda_handle is not NULL and dlsym(cuda_handle, name) is not NULL


def nccl_version():
    """NCCL's version code, 22907 for 2.29.7."""
    cdef int version = 0
    need(<void*>nccl.GetVersion, "ncclGetVersion")
    check_nccl(nccl.GetVersion(&version), "ncclGetVersion")
    return version


def cuda_version():
    """Version code of the CUDA runtime, 13000 for 13.0."""
    cdef int version = 0
    need(<void*>cuda.RuntimeGetVersion, "cudaRuntimeGetVersion")
    check_cuda(cuda.RuntimeGetVersion(&version), "cudaRuntimeGetVersion")
    return version
