/* SPDX-License-Identifier: Apache-2.0 */
/* Test-only, for a stock and for a patched tree: what NCCL launches, as text that two runs can be compared by.
 *
 * NCCL_DUMP_FILE=<path>  append one JSON object a line for each kernel launch and each proxy operation
 * NCCL_DUMP_DRY=1        and do neither: descriptors of collectives that would take too long, or would never end */
#ifndef NCCL_DUMP_H_
#define NCCL_DUMP_H_

#include <cuda.h>

struct ncclComm;
struct ncclKernelPlan;
struct ncclProxyConnector;
struct ncclProxyOp;

/* From the program, so that buffers and streams have the same name in every run whatever their address and order; it
 * finds this by dlsym. A communicator is named by its configuration. */
extern "C" void ncclDumpName(const void* handle, int name);
/* Right before the kernel is launched. True where it must not be. */
bool ncclDumpLaunch(struct ncclComm* comm, struct ncclKernelPlan* plan, CUlaunchConfig const* config);
/* Right before the operation is given to the proxy. True where it must not be. */
bool ncclDumpProxyOp(struct ncclComm* comm, struct ncclProxyConnector* connector, struct ncclProxyOp* op);

#endif
