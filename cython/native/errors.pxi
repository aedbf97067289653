# SPDX-License-Identifier: Apache-2.0
# Errors as exceptions.

class LibraryError(RuntimeError):
    """No usable library, or a library without what was asked for."""


class NcclError(RuntimeError):
    """A NCCL call failed.

    Attributes: ``function`` (the C function), ``code`` (ncclResult_t), ``name`` (NCCL's text for the code) and ``text``
    (ncclGetLastError: what NCCL itself says went wrong; empty where it says nothing).
    """

    def __init__(self, function, code, name, text):
        self.function = function
        self.code = code
        self.name = name
        self.text = text
        super().__init__(f"{function} failed: {text or name} (code {code}" + (f", {name})" if text else ")"))

    def __reduce__(self):
        return (type(self), (self.function, self.code, self.name, self.text))


class CudaError(RuntimeError):
    """A CUDA runtime call failed. Attributes: ``function``, ``code`` (cudaError_t), ``name``, ``text``."""

    def __init__(self, function, code, name, text):
        self.function = function
        self.code = code
        self.name = name
        self.text = text
        super().__init__(f"{function} failed: {text} ({name}, code {code})")

    def __reduce__(self):
        return (type(self), (self.function, self.code, self.name, self.text))


cdef str _text(const char* words):
    return "" if words is NULL else (<bytes>words).decode("utf-8", "replace").strip()


cdef int check_nccl(nccl_result result, str function, nccl_comm comm=NULL) except -1:
    # A non-blocking communicator answers "in progress"; that is no failure of the call.
    if result == NCCL_SUCCESS or result == NCCL_IN_PROGRESS:
        return 0
    cdef str name = _text(nccl.GetErrorString(result))
    cdef str text = _text(nccl.GetLastError(comm)) if nccl.GetLastError is not NULL else ""
    raise NcclError(function, result, name, text)


cdef int check_cuda(cuda_result result, str function) except -1:
    if result == CUDA_SUCCESS:
        return 0
    # The runtime keeps the last error of a thread until it is asked for; leaving it would make a later, innocent
    # cudaGetLastError inside NCCL report it.
    if cuda.GetLastError is not NULL:
        cuda.GetLastError()
    raise CudaError(function, result, _text(cuda.GetErrorName(result)), _text(cuda.GetErrorString(result)))


cdef int need(void* function, str name) except -1:
    """Refuse by name what the loaded library does not have; calling a null pointer would end the process."""
    if function is NULL:
        if not tables_loaded:
            raise LibraryError("no NCCL library has been loaded yet: call lagom.nccl.library() first")
        raise LibraryError(f"{name} is not in the loaded library ({tables_path}); a newer one is needed")
    return 0
