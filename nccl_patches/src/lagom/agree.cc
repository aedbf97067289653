/* SPDX-License-Identifier: Apache-2.0 */
/* What must be the same on all ranks, compared while they initialise.
 *
 * The version that NCCL exchanges first carries a mark of this layout, so a stock rank, or one with another layout,
 * fails in NCCL's own check on every rank. Past that check all ranks know the struct below and exchange it. Whatever is
 * wrong on one rank travels in it, so that all ranks fail and none is left waiting. */
#include "lagom_comm.h"
#include "agreed_variables.h"
#include "ring.h"

#include "bootstrap.h"
#include "comm.h"
#include "core.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

/* The build's own doing: a digest of sources, functions and flags. */
#ifndef LAGOM_BUILD_DIGEST
#define LAGOM_BUILD_DIGEST "unknown"
#endif

static constexpr int layout = 4; /* of lagomAgreement; counts up with every change to it */
static constexpr int versionMark = 0x40000000;

static constexpr int nCompared = sizeof(comparedVariables)/sizeof(comparedVariables[0]);

enum planState : int32_t { planNone, planInForce };

struct lagomAgreement {
  uint64_t planDigest;
  int32_t planState;
  int32_t nRules;
  int32_t required;
  int32_t limitSeconds;
  union ncclSocketAddress ring;
  char build[72];
  char fault[400];
  char variables[nCompared][40]; /* beginning of each value */
  uint64_t variableDigests[nCompared];
};

const char* lagomBuildDigest() { return LAGOM_BUILD_DIGEST; }

bool lagomEnvFlag(const char* name) {
  const char* value = ncclGetEnv(name);
  return value != nullptr && strcmp(value, "1") == 0;
}

int lagomTagVersion(int ncclVersion) { return ncclVersion + versionMark + (layout << 24); }

static uint64_t textDigest(const char* text) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (; *text != '\0'; text++) h = (h ^ (unsigned char)*text)*0x100000001b3ull;
  return h;
}

static std::string readPlan(lagomComm* l) {
  ncclPlan plan;
  ncclPlanError error;
  if (ncclPlanRead(l->planPath.c_str(), &plan, &error) != 0) {
    char where[64] = "";
    if (error.line > 0) snprintf(where, sizeof(where), ":%d:%d", error.line, error.column);
    return "LAGOM_PLAN cannot be used: " + l->planPath + where + ": " + error.reason;
  }
  l->rules.assign(plan.rules, plan.rules + plan.nRules);
  l->planId = plan.digest;
  ncclPlanFree(&plan);
  return "";
}

static const char* setVariable(const char* name) {
  const char* value = ncclGetEnv(name);
  return value == nullptr || value[0] == '\0' ? nullptr : value;
}

ncclResult_t lagomCommInit(struct ncclComm* comm) {
  lagomComm* l = new (std::nothrow) lagomComm;
  if (l == nullptr) {
    WARN("no memory for the communicator's knobs");
    return ncclSystemError;
  }
  comm->lagom = l;
  l->required = lagomEnvFlag("LAGOM_REQUIRE");
  if (const char* path = setVariable("LAGOM_PLAN")) {
    l->planPath = path;
    l->fault = readPlan(l);
  }
  if (const char* pattern = setVariable("LAGOM_COUNTERS_FILE")) {
    std::string fault;
    if (!lagomCsvOpen(pattern, comm->rank, &l->csv, &fault)) l->fault = fault;
  }
  if (const char* channels = setVariable("LAGOM_MAX_CHANNELS")) {
    l->fault = std::string("LAGOM_MAX_CHANNELS is ") + channels +
               ": this version connects no more channels than NCCL itself; unset it";
  }
  const char* falsehood = setVariable("LAGOM_TEST_FALSIFY");
  if (falsehood != nullptr && !lagomFalsehoodKnown(falsehood)) {
    l->fault = std::string("LAGOM_TEST_FALSIFY is ") + falsehood + ": allowed are channels, threads, chunk";
  }
  if (const char* limit = setVariable("LAGOM_TIMEOUT_S")) {
    char* end;
    long seconds = strtol(limit, &end, 10);
    if (*end == '\0' && seconds >= 1 && seconds <= 86400) l->limitSeconds = (int)seconds;
    else l->fault = std::string("LAGOM_TIMEOUT_S is ") + limit + ": allowed are 1 to 86400, in whole seconds";
  }
  for (const char* flag : {"LAGOM_REQUIRE", "LAGOM_COUNTERS"}) {
    const char* value = setVariable(flag);
    if (value == nullptr || lagomEnvFlag(flag) || strcmp(value, "0") == 0) continue;
    l->fault = std::string(flag) + " is " + value + ": allowed are 0 and 1";
  }
  return ncclSuccess;
}

static void describe(struct ncclComm* comm, lagomAgreement* mine) {
  lagomComm* l = comm->lagom;
  memset(mine, 0, sizeof(*mine));
  l->ring = new (std::nothrow) lagomRing;
  if (l->ring == nullptr || lagomRingListen(comm, l->ring, &mine->ring) != ncclSuccess) {
    l->fault = "no socket for later agreements";
  }
  mine->limitSeconds = l->limitSeconds;
  mine->planState = l->planPath.empty() ? planNone : planInForce;
  mine->planDigest = l->planId;
  mine->nRules = (int32_t)l->rules.size();
  mine->required = l->required;
  snprintf(mine->build, sizeof(mine->build), "%s", lagomBuildDigest());
  snprintf(mine->fault, sizeof(mine->fault), "%s", l->fault.c_str());
  for (int v = 0; v < nCompared; v++) {
    const char* value = ncclGetEnv(comparedVariables[v]);
    if (value == nullptr) continue;
    snprintf(mine->variables[v], sizeof(mine->variables[v]), "%s", value);
    mine->variableDigests[v] = textDigest(value);
  }
}

static const char* planText(lagomAgreement const& a, char* text, size_t bytes) {
  if (a.planState == planNone) snprintf(text, bytes, "no plan");
  else snprintf(text, bytes, "%d rule%s, digest %016llx", a.nRules, a.nRules == 1 ? "" : "s",
                (unsigned long long)a.planDigest);
  return text;
}

/* Says what is wrong, if anything is: the same words on every rank. */
static bool complain(std::vector<lagomAgreement> const& all) {
  int nRanks = (int)all.size();
  for (int r = 0; r < nRanks; r++) {
    if (all[r].fault[0] != '\0') {
      WARN("rank %d: %s", r, all[r].fault);
      return true;
    }
  }
  for (int r = 1; r < nRanks; r++) {
    if (strcmp(all[r].build, all[0].build) != 0) {
      WARN("ranks differ: library build of rank %d is %s, of rank 0 %s", r, all[r].build, all[0].build);
      return true;
    }
    if (all[r].planState != all[0].planState || all[r].planDigest != all[0].planDigest ||
        all[r].nRules != all[0].nRules) {
      char mine[80], first[80];
      WARN("ranks differ: LAGOM_PLAN of rank %d has %s, of rank 0 %s", r, planText(all[r], mine, sizeof(mine)),
           planText(all[0], first, sizeof(first)));
      return true;
    }
    if (all[r].limitSeconds != all[0].limitSeconds) {
      WARN("ranks differ: LAGOM_TIMEOUT_S of rank %d is %d, of rank 0 %d", r, all[r].limitSeconds, all[0].limitSeconds);
      return true;
    }
    for (int v = 0; v < nCompared; v++) {
      if (all[r].variableDigests[v] == all[0].variableDigests[v]) continue;
      WARN("ranks differ: %s of rank %d is '%s', of rank 0 '%s'", comparedVariables[v], r, all[r].variables[v],
           all[0].variables[v]);
      return true;
    }
  }
  for (int r = 0; r < nRanks; r++) {
    if (all[r].required && all[r].planState != planInForce) {
      WARN("LAGOM_REQUIRE is set on rank %d, but LAGOM_PLAN names no plan", r);
      return true;
    }
  }
  return false;
}

ncclResult_t lagomAgree(struct ncclComm* comm) {
  std::vector<lagomAgreement> all(comm->nRanks);
  describe(comm, &all[comm->rank]);
  NCCLCHECK(bootstrapAllGather(comm->bootstrap, all.data(), sizeof(lagomAgreement)));
  if (complain(all)) return ncclInvalidUsage;
  comm->lagom->ring->nextAddress = all[(comm->rank + 1) % comm->nRanks].ring;
  if (!comm->lagom->planPath.empty() && comm->rank == 0) {
    INFO(NCCL_INIT|NCCL_TUNING, "LAGOM_PLAN %s in force: %zu rules, digest %016llx", comm->lagom->planPath.c_str(),
         comm->lagom->rules.size(), (unsigned long long)comm->lagom->planId);
  }
  return ncclSuccess;
}

ncclResult_t lagomCommFree(struct ncclComm* comm) {
  if (comm->lagom == nullptr) return ncclSuccess;
  ncclResult_t result = lagomCountersFree(comm);
  if (comm->lagom->ring != nullptr) lagomRingClose(comm->lagom->ring);
  delete comm->lagom->ring;
  delete comm->lagom;
  comm->lagom = nullptr;
  return result;
}
