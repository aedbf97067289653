# SPDX-License-Identifier: Apache-2.0
# Reading a DLPack capsule (the unversioned layout, which every producer can make).

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid

cdef struct DLTensor:
    void* data
    int device_type
    int device_id
    int ndim
    uint8_t code
    uint8_t bits
    uint16_t lanes
    int64_t* shape
    int64_t* strides
    uint64_t byte_offset


def read_dlpack(capsule):
    """(address, shape, strides in elements or None, type code, bits, lanes) of a "dltensor" capsule.

    The capsule is left unconsumed, so its own destructor frees the tensor: keep it for as long as the memory is used.
    """
    if not PyCapsule_IsValid(capsule, b"dltensor"):
        raise BufferError("not a DLPack capsule named 'dltensor'")
    cdef DLTensor* tensor = <DLTensor*>PyCapsule_GetPointer(capsule, b"dltensor")
    cdef int i
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = None if tensor.strides is NULL else tuple(tensor.strides[i] for i in range(tensor.ndim))
    return (<uintptr_t>tensor.data + tensor.byte_offset, shape, strides, tensor.code, tensor.bits, tensor.lanes)
