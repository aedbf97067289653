# SPDX-License-Identifier: Apache-2.0
# Machine code for a GPU: loaded, looked up and launched by the driver, which is opened when it is first needed.

cdef enum:
    CUDA_FUNCTION_MAX_DYNAMIC_SHARED = 8

cdef struct DriverTable:
    cuda_result (*ModuleLoadData)(void**, const void*) noexcept nogil
    cuda_result (*ModuleUnload)(void*) noexcept nogil
    cuda_result (*ModuleGetFunction)(void**, void*, const char*) noexcept nogil
    cuda_result (*FuncSetAttribute)(void*, int, int) noexcept nogil
    cuda_result (*LaunchKernel)(void*, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                                unsigned int, cuda_stream, void**, void**) noexcept nogil
    cuda_result (*GetErrorName)(cuda_result, const char**) noexcept nogil
    cuda_result (*GetErrorString)(cuda_result, const char**) noexcept nogil

cdef DriverTable driver
cdef bint driver_loaded = False

memset(&driver, 0, sizeof(driver))


def open_driver(str path):
    """Open ``path`` (a file or a soname) as the CUDA driver and fill its table; returns the file that the loader took."""
    global driver_loaded, tables_path
    cdef void* handle = _open(path)
    cdef str nccl_path = tables_path
    tables_path = path
    try:
        driver.ModuleLoadData = <cuda_result (*)(void**, const void*) noexcept nogil>_symbol(handle, b"cuModuleLoadData", True)
        driver.ModuleUnload = <cuda_result (*)(void*) noexcept nogil>_symbol(handle, b"cuModuleUnload", True)
        driver.ModuleGetFunction = <cuda_result (*)(void**, void*, const char*) noexcept nogil>_symbol(
            handle, b"cuModuleGetFunction", True)
        driver.FuncSetAttribute = <cuda_result (*)(void*, int, int) noexcept nogil>_symbol(handle, b"cuFuncSetAttribute", True)
        driver.LaunchKernel = <cuda_result (*)(
            void*, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
            cuda_stream, void**, void**) noexcept nogil>_symbol(handle, b"cuLaunchKernel", True)
        driver.GetErrorName = <cuda_result (*)(cuda_result, const char**) noexcept nogil>_symbol(
            handle, b"cuGetErrorName", True)
        driver.GetErrorString = <cuda_result (*)(cuda_result, const char**) noexcept nogil>_symbol(
            handle, b"cuGetErrorString", True)
    finally:
        tables_path = nccl_path
    driver_loaded = True
    return _file_of(<void*>driver.LaunchKernel) or path


cdef int check_driver(cuda_result result, str function) except -1:
    cdef const char* name = NULL
    cdef const char* text = NULL
    if result == CUDA_SUCCESS:
        return 0
    driver.GetErrorName(result, &name)
    driver.GetErrorString(result, &text)
    raise CudaError(function, result, _text(name), _text(text))


cdef int need_driver() except -1:
    if not driver_loaded:
        raise LibraryError("no CUDA driver has been opened yet")
    return 0


cdef class ModuleHandle:
    """A module of machine code (a cubin) in the current device's context, unloaded with the object."""
    cdef void* module

    def __cinit__(self, bytes image not None):
        cdef const char* data = image
        cdef cuda_result result
        self.module = NULL
        need_driver()
        with nogil:
            result = driver.ModuleLoadData(&self.module, data)
        check_driver(result, "cuModuleLoadData")

    def __dealloc__(self):
        if self.module is not NULL:
            with nogil:
                driver.ModuleUnload(self.module)
            self.module = NULL

    def function(self, str name not None):
        """The CUfunction of that name."""
        cdef void* function = NULL
        cdef bytes encoded = name.encode()
        check_driver(driver.ModuleGetFunction(&function, self.module, encoded), f"cuModuleGetFunction of {name}")
        return <uintptr_t>function


def allow_shared(uintptr_t function, int nbytes):
    """Let a CTA of the CUfunction take so many bytes of dynamic shared memory."""
    need_driver()
    check_driver(driver.FuncSetAttribute(<void*>function, CUDA_FUNCTION_MAX_DYNAMIC_SHARED, nbytes),
                 f"cuFuncSetAttribute of {nbytes} bytes of shared memory")


def launch_function(uintptr_t function, str name not None, uint32_t ctas, uint32_t threads, uint32_t shared_bytes,
                    bytes arguments not None, uintptr_t stream):
    """Launch a CUfunction that takes one structure, ``arguments``, in ``stream``'s order."""
    cdef const char* packed = arguments
    cdef void* parameters[1]
    cdef cuda_result result
    need_driver()
    parameters[0] = <void*>packed
    with nogil:
        result = driver.LaunchKernel(<void*>function, ctas, 1, 1, threads, 1, 1, shared_bytes, <cuda_stream>stream, parameters,
                                     NULL)
    check_driver(result, f"cuLaunchKernel of {name}")
