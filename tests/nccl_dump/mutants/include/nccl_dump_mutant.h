/* SPDX-License-Identifier: Apache-2.0 */
/* Test-only: faults of a patched scheduler that a comparison with stock must find, one at a time by its name in
 * NCCL_DUMP_MUTANT. */
#ifndef NCCL_DUMP_MUTANT_H_
#define NCCL_DUMP_MUTANT_H_

#include <stdlib.h>
#include <string.h>

inline bool ncclDumpMutant(const char* name) {
  static const char* chosen = getenv("NCCL_DUMP_MUTANT");
  return chosen != nullptr && strcmp(chosen, name) == 0;
}

#endif
