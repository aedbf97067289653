# SPDX-License-Identifier: Apache-2.0
# Libraries: found in the process or opened by path, and asked for symbols.

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

cdef void* nccl_handle = NULL
cdef void* cuda_handle = NULL
cdef bint tables_loaded = False
tables_path = ""

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
    _fill_nccl(handle)
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
