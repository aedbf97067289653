/* SPDX-License-Identifier: Apache-2.0 */
/* Naming in what ranks differ: rank and field. */
#include "setting.h"

#include <cstring>

static std::string differs(int rank, std::string const& field, std::string const& theirs, std::string const& ours) {
  return "ranks differ: " + field + " of rank " + std::to_string(rank) + " is " + theirs + ", of rank 0 " + ours;
}

static std::vector<std::string> fieldsOf(ncclKnobRule const& rule) {
  char line[256];
  ncclPlanFormatRule(&rule, line, sizeof(line));
  std::vector<std::string> fields(1);
  for (const char* c = line; *c != '\0'; c++) {
    if (*c == ',') fields.emplace_back();
    else fields.back() += *c;
  }
  return fields;
}

static std::string ruleDifference(int rank, int index, ncclKnobRule const& theirs, ncclKnobRule const& ours) {
  std::vector<std::string> a = fieldsOf(theirs), b = fieldsOf(ours);
  for (size_t c = 0; c < a.size() && c < b.size(); c++) {
    if (a[c] != b[c]) {
      return differs(rank, std::string(ncclPlanColumn((int)c)) + " of rule " + std::to_string(index), a[c], b[c]);
    }
  }
  return "";
}

std::string lagomDifference(std::vector<lagomProposal> const& all, ncclKnobRule const* rules, int nRules) {
  int nRanks = (int)all.size();
  for (int r = 0; r < nRanks; r++) {
    if (all[r].fault[0] != '\0') return "rank " + std::to_string(r) + ": " + all[r].fault;
  }
  for (int r = 1; r < nRanks; r++) {
    lagomProposal const &a = all[r], &b = all[0];
    if (a.epoch != b.epoch) {
      return differs(r, "the number of changes before", std::to_string(a.epoch), std::to_string(b.epoch));
    }
    if (a.calls != b.calls) {
      return differs(r, "the number of collectives called before", std::to_string(a.calls), std::to_string(b.calls));
    }
    if (a.nRules != b.nRules) {
      return differs(r, "the number of rules", std::to_string(a.nRules), std::to_string(b.nRules));
    }
  }
  for (int r = 1; rules != nullptr && r < nRanks; r++) {
    for (int i = 0; i < nRules; i++) {
      std::string text = ruleDifference(r, i, rules[(size_t)r*nRules + i], rules[i]);
      if (!text.empty()) return text;
    }
  }
  return "";
}
