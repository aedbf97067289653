# SPDX-License-Identifier: Apache-2.0
# Devices: which there are, which one this thread uses.

cdef enum:
    CUDA_ATTRIBUTE_MULTIPROCESSORS = 16
    CUDA_ATTRIBUTE_CC_MAJOR = 75
    CUDA_ATTRIBUTE_CC_MINOR = 76


def device_count():
    cdef int count = 0
    cdef cuda_result result
    need(<void*>cuda.GetDeviceCount, "cudaGetDeviceCount")
    with nogil:
        result = cuda.GetDeviceCount(&count)
    check_cuda(result, "cudaGetDeviceCount")
    return count


def set_device(int device):
    cdef cuda_result result
    need(<void*>cuda.SetDevice, "cudaSetDevice")
    with nogil:
        result = cuda.SetDevice(device)
    check_cuda(result, "cudaSetDevice")


def current_device():
    cdef int device = 0
    need(<void*>cuda.GetDevice, "cudaGetDevice")
    check_cuda(cuda.GetDevice(&device), "cudaGetDevice")
    return device


def device_synchronize():
    cdef cuda_result result
    need(<void*>cuda.DeviceSynchronize, "cudaDeviceSynchronize")
    with nogil:
        result = cuda.DeviceSynchronize()
    check_cuda(result, "cudaDeviceSynchronize")


def device_facts(int device):
    """(name, PCI bus id, compute capability as (major, minor), number of SMs) of one device."""
    cdef char bus[64]
    # cudaDeviceProp grows from release to release; only its first field, the name, is read.
    cdef char properties[16384]
    cdef int major = 0, minor = 0, sms = 0
    need(<void*>cuda.GetDeviceProperties, "cudaGetDeviceProperties")
    memset(bus, 0, sizeof(bus))
    memset(properties, 0, sizeof(properties))
    check_cuda(cuda.DeviceGetPCIBusId(bus, sizeof(bus), device), "cudaDeviceGetPCIBusId")
    check_cuda(cuda.GetDeviceProperties(properties, device), "cudaGetDeviceProperties")
    check_cuda(cuda.DeviceGetAttribute(&major, CUDA_ATTRIBUTE_CC_MAJOR, device), "cudaDeviceGetAttribute")
    check_cuda(cuda.DeviceGetAttribute(&minor, CUDA_ATTRIBUTE_CC_MINOR, device), "cudaDeviceGetAttribute")
    check_cuda(cuda.DeviceGetAttribute(&sms, CUDA_ATTRIBUTE_MULTIPROCESSORS, device), "cudaDeviceGetAttribute")
    return _text(properties), _text(bus), (major, minor), sms
