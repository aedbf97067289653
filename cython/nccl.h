/* SPDX-License-Identifier: Apache-2.0 */
/* The few names of NCCL's header that nccl_knobs.h needs. The bindings are compiled before NCCL has been fetched, and they
 * reach every function through dlsym, so that the real header is not there and not needed. */
#ifndef LAGOM_CYTHON_NCCL_H
#define LAGOM_CYTHON_NCCL_H

typedef struct ncclComm* ncclComm_t;
typedef int ncclResult_t; /* an enumeration in NCCL, passed as an int */

#endif
