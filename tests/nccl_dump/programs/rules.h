/* SPDX-License-Identifier: Apache-2.0 */
/* Rules on a communicator, where the library has any: this program runs with a stock one as well. */
#ifndef RULES_H_
#define RULES_H_

#include "ranks.h"

#include "nccl_knobs.h"

#include <dlfcn.h>
#include <vector>

inline bool libraryHasKnobs() { return dlsym(RTLD_DEFAULT, "ncclCommSetKnobRules") != nullptr; }

/* Three ways of not tuning a call: rules for all of them that are gone again, rules that match all and set nothing,
 * rules that match none. The members are this process's ranks of one communicator: they agree, so all are asked
 * before any is waited for. */
inline void setIdleRules(std::vector<ncclComm_t> const& members, int way) {
  auto set = (decltype(&ncclCommSetKnobRules))dlsym(RTLD_DEFAULT, "ncclCommSetKnobRules");
  if (set == nullptr) return;
  ncclKnobRule rules[ncclKnobNumCollectives];
  for (int c = 0; c < ncclKnobNumCollectives; c++) {
    rules[c] = NCCL_KNOB_RULE_INITIALIZER;
    rules[c].collective = c;
    if (way != 1) {
      rules[c].knobs.algorithm = ncclKnobRing;
      rules[c].knobs.protocol = ncclKnobSimple;
      rules[c].knobs.nChannels = 1;
      rules[c].knobs.nThreads = 128;
      rules[c].knobs.chunkBytes = 1024;
    }
    if (way == 2) rules[c].minBytes = (int64_t)1 << 60;
  }
  for (bool last : {false, true}) {
    if (last && way != 0) break;
    NCCL(ncclGroupStart());
    for (ncclComm_t comm : members) NCCL(last ? set(comm, nullptr, 0) : set(comm, rules, ncclKnobNumCollectives));
    NCCL(ncclGroupEnd());
  }
}

#endif
