/* SPDX-License-Identifier: Apache-2.0 */
/* Changing what a communicator's calls run with, on all its ranks or on none. */
#ifndef LAGOM_SETTING_H_
#define LAGOM_SETTING_H_

#include "lagom_comm.h"

#include <string>
#include <vector>

/* What one rank wants. Ranks compare all of it but `fault`, which is what is wrong on this rank alone. */
struct lagomProposal {
  uint64_t calls;   /* collectives that this rank has called */
  uint64_t epoch;   /* changes that were agreed before */
  uint64_t digest;  /* of the rules */
  int32_t nRules;
  int32_t reserved;
  char fault[400];
};

/* The first difference, in the same words on every rank; empty where there is none. `rules`: of all ranks one after the
 * other, `nRules` each, where they differ in nothing but their contents; else nullptr. */
std::string lagomDifference(std::vector<lagomProposal> const& all, ncclKnobRule const* rules, int nRules);

#endif
