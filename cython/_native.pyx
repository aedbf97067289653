# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3, binding=True, embedsignature=True, freethreading_compatible=False
"""Calls into libnccl and the CUDA runtime, both found at run time.

One extension module, one concept a file: the files below share C types and the two tables of function pointers. Nothing
here looks for a library or interprets arguments; `lagom.nccl` does that in Python and passes addresses and counts.
Every call that can block releases the GIL, and every result goes through one error check.
"""

cdef extern from *:
    """
    #define NCCL_KNOBS_WITHOUT_NCCL_H /* the bindings are compiled before NCCL has been fetched */
    """

include "native/abi.pxi"
include "native/errors.pxi"
include "native/loading.pxi"
include "native/tables.pxi"
include "native/device.pxi"
include "native/memory.pxi"
include "native/streams.pxi"
include "native/graphs.pxi"
include "native/dlpack.pxi"
include "native/config.pxi"
include "native/communicator.pxi"
include "native/properties.pxi"
include "native/collectives.pxi"
include "native/point_to_point.pxi"
include "native/reductions.pxi"
include "native/registration.pxi"
include "native/described.pxi"
include "native/modules.pxi"
include "native/rules.pxi"
include "native/knobs.pxi"
include "native/counters.pxi"
