/* SPDX-License-Identifier: Apache-2.0 */
/* A tuner plug-in that hands every call on to the one in $ADAPTED_TUNER.
 *
 * NCCL 2.29.7 passes its cost table as one block of floats; NCCL's example and mixed plug-ins of that release take it for
 * an array of pointers to rows, and end the process at the first call that matches, on any machine. Their own unit tests
 * pass such an array. So does this file, and brings back what they changed, so that their code runs as it is. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#include "tuner.h"

static const ncclTuner_v5_t* adapted(void) {
  static const ncclTuner_v5_t* found;
  if (found == NULL) {
    void* library = dlopen(getenv("ADAPTED_TUNER"), RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) found = (const ncclTuner_v5_t*)dlsym(library, "ncclTunerPlugin_v5");
    if (found == NULL) abort();
  }
  return found;
}

static ncclResult_t init(void** context, uint64_t comm_id, size_t ranks, size_t nodes, ncclDebugLogger_t log,
                         ncclNvlDomainInfo_v5_t* domains, ncclTunerConstants_v5_t* constants) {
  return adapted()->init(context, comm_id, ranks, nodes, log, domains, constants);
}

static ncclResult_t get_coll_info(void* context, ncclFunc_t function, size_t bytes, int pipe_ops, float** table,
                                  int algorithms, int protocols, int registered, int* channels) {
  float* block = (float*)table;
  float* rows[NCCL_NUM_ALGORITHMS];
  for (int i = 0; i < algorithms && i < NCCL_NUM_ALGORITHMS; ++i) rows[i] = block + i * protocols;
  return adapted()->getCollInfo(context, function, bytes, pipe_ops, rows, algorithms, protocols, registered, channels);
}

static ncclResult_t finalize(void* context) { return adapted()->finalize(context); }

__attribute__((visibility("default"))) const ncclTuner_v5_t ncclTunerPlugin_v5 = {
    .name = "Adapter", .init = init, .getCollInfo = get_coll_info, .finalize = finalize};
