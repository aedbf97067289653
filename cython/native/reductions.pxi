# SPDX-License-Identifier: Apache-2.0
# Reductions made by the program.

def create_pre_mul_sum(CommHandle comm not None, uintptr_t scalar, int dtype, bint on_device):
    """Number of a new ncclRedOp_t; ``scalar``: address of one element, read now, or on the device while a call runs."""
    cdef int op = 0
    cdef nccl_result result
    comm._open()
    with nogil:
        result = nccl.RedOpCreatePreMulSum(&op, <void*>scalar, dtype, NCCL_SCALAR_DEVICE if on_device else NCCL_SCALAR_HOST,
                                           comm.comm)
    check_nccl(result, "ncclRedOpCreatePreMulSum")
    return op


def destroy_op(CommHandle comm not None, int op):
    cdef nccl_result result
    comm._open()
    with nogil:
        result = nccl.RedOpDestroy(op, comm.comm)
    check_nccl(result, "ncclRedOpDestroy")
