# SPDX-License-Identifier: Apache-2.0
# hostcuda's own calls: kernels that are known by their cost only, and modelled times. The structures are hostcuda.h's.

cdef struct HostcudaKernel:
    size_t size
    uint32_t version
    const char* name
    double flops
    double bytes_read
    double bytes_written
    uint32_t ctas
    uint32_t threads_per_cta
    uint32_t registers_per_thread
    uint32_t shared_bytes_per_cta

cdef struct HostcudaOpTime:
    uint64_t sequence
    int kind
    uint32_t ctas
    uint64_t start_ns
    uint64_t end_ns
    char name[96]

cdef void* _hostcuda(bytes name) except NULL:
    cdef void* function = NULL if cuda_handle is NULL else dlsym(cuda_handle, name)
    if function is NULL:
        raise LibraryError(
            f"{name.decode()} needs hostcuda; the loaded CUDA runtime is a real one and runs compiled kernels only")
    return function


def launch_described(str name not None, double flops, double bytes_read, double bytes_written, uint32_t ctas,
                     uint32_t threads_per_cta, uint32_t registers_per_thread, uint32_t shared_bytes_per_cta,
                     uintptr_t stream):
    cdef cuda_result (*launch)(const HostcudaKernel*, cuda_stream) noexcept nogil
    cdef HostcudaKernel kernel
    cdef bytes encoded = name.encode()
    cdef cuda_result result
    launch = <cuda_result (*)(const HostcudaKernel*, cuda_stream) noexcept nogil>_hostcuda(b"hostcudaLaunchDescribed")
    memset(&kernel, 0, sizeof(kernel))
    kernel.size = sizeof(kernel)
    kernel.version = 1
    kernel.name = encoded
    kernel.flops = flops
    kernel.bytes_read = bytes_read
    kernel.bytes_written = bytes_written
    kernel.ctas = ctas
    kernel.threads_per_cta = threads_per_cta
    kernel.registers_per_thread = registers_per_thread
    kernel.shared_bytes_per_cta = shared_bytes_per_cta
    with nogil:
        result = launch(&kernel, <cuda_stream>stream)
    check_cuda(result, f"hostcudaLaunchDescribed of {name}")


def host_time_ns():
    """Modelled time of the calling host thread, in nanoseconds."""
    cdef uint64_t (*now)() noexcept nogil
    now = <uint64_t (*)() noexcept nogil>_hostcuda(b"hostcudaHostTimeNs")
    return now()


def stream_mark(uintptr_t stream):
    """Sequence number that the next operation of ``stream`` gets."""
    cdef cuda_result (*mark_of)(cuda_stream, uint64_t*) noexcept nogil
    cdef uint64_t mark = 0
    mark_of = <cuda_result (*)(cuda_stream, uint64_t*) noexcept nogil>_hostcuda(b"hostcudaStreamMark")
    check_cuda(mark_of(<cuda_stream>stream, &mark), "hostcudaStreamMark")
    return mark


def stream_op_times(uintptr_t stream, uint64_t mark):
    """Waits for ``stream``; [(sequence, kind, ctas, start_ns, end_ns, name)] of its operations from ``mark`` on."""
    cdef cuda_result (*times_of)(cuda_stream, uint64_t, HostcudaOpTime*, size_t, size_t*) noexcept nogil
    cdef size_t capacity = 256
    cdef size_t count = 0, i
    cdef cuda_result result
    cdef bytearray space
    cdef HostcudaOpTime* times
    times_of = <cuda_result (*)(cuda_stream, uint64_t, HostcudaOpTime*, size_t, size_t*) noexcept nogil>_hostcuda(
        b"hostcudaStreamOpTimes")
    while True:
        space = bytearray(capacity * sizeof(HostcudaOpTime))
        times = <HostcudaOpTime*><char*>space
        with nogil:
            result = times_of(<cuda_stream>stream, mark, times, capacity, &count)
        check_cuda(result, "hostcudaStreamOpTimes")
        if count <= capacity:
            break
        capacity = count
    return [(times[i].sequence, times[i].kind, times[i].ctas, times[i].start_ns, times[i].end_ns, _text(times[i].name))
            for i in range(count)]
