/* SPDX-License-Identifier: Apache-2.0 */
/* ncclCommSetKnobRules: a job of the communicator like its initialisation, so that it can be grouped, runs behind a
 * non-blocking communicator, and comes after earlier jobs. All ranks exchange what they want; where they agree they tell
 * each other so once more, and only then the rules change. The second exchange is why a rank that comes after the others
 * have given up cannot go on alone. */
#include "setting.h"
#include "ring.h"

#include "comm.h"
#include "core.h"
#include "group.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

using Clock = std::chrono::steady_clock;

struct lagomSettingJob {
  struct ncclAsyncJob base;
  struct ncclComm* comm;
  std::vector<ncclKnobRule> rules;
  lagomProposal mine;
};

/* The others must learn of it: a rank that only returned would leave them waiting. */
static std::string faultOf(struct ncclComm* comm, const ncclKnobRule* rules, int nRules) {
  if (nRules < 0 || (nRules > 0 && rules == nullptr)) {
    return std::to_string(nRules) + " rules at " + (rules == nullptr ? "NULL" : "an address") +
           "; allowed: 0 or more, not NULL";
  }
  bool capturing = false;
  if (ncclStrongStreamCapturing(&comm->sharedRes->deviceStream, &capturing) != ncclSuccess) {
    return "cannot tell whether a stream is being captured";
  }
  if (capturing) return "not while a stream that this communicator was used on is being captured";
  for (int i = 0; i < nRules; i++) {
    char reason[300];
    if (ncclPlanCheckRule(&rules[i], nullptr, reason, sizeof(reason)) != 0) {
      return "rule " + std::to_string(i) + ": " + reason;
    }
  }
  return "";
}

/* Empty where all ranks want the same. False: *difference says why it cannot be known. */
static bool compare(lagomSettingJob* job, Clock::time_point deadline, std::string* difference) {
  struct ncclComm* comm = job->comm;
  lagomRing* ring = comm->lagom->ring;
  std::vector<lagomProposal> all(comm->nRanks);
  all[comm->rank] = job->mine;
  if (!lagomRingGather(comm, ring, all.data(), sizeof(lagomProposal), deadline, difference)) return false;
  *difference = lagomDifference(all, nullptr, 0);
  bool same = true;
  for (lagomProposal const& p : all) same &= p.digest == all[0].digest;
  if (!difference->empty() || same) return true;
  size_t n = job->rules.size();
  std::vector<ncclKnobRule> rules(n*comm->nRanks);
  std::copy(job->rules.begin(), job->rules.end(), rules.begin() + n*comm->rank);
  if (!lagomRingGather(comm, ring, rules.data(), n*sizeof(ncclKnobRule), deadline, difference)) return false;
  *difference = lagomDifference(all, rules.data(), (int)n);
  return true;
}

/* Always a success to the group: an error there would abort the group's other communicators. What came of it is
 * job->base.lagomOutcome. */
static ncclResult_t run(struct ncclAsyncJob* base) {
  lagomSettingJob* job = (lagomSettingJob*)base;
  struct ncclComm* comm = job->comm;
  lagomComm* l = comm->lagom;
  Clock::time_point deadline = Clock::now() + std::chrono::seconds(l->limitSeconds);
  std::string text;
  std::vector<uint64_t> agreed(comm->nRanks, job->mine.epoch + 1);
  bool known = compare(job, deadline, &text);
  if (known && text.empty()) known = lagomRingGather(comm, l->ring, agreed.data(), sizeof(uint64_t), deadline, &text);
  std::lock_guard<std::mutex> lock(l->mutex);
  if (!known) {
    WARN("ncclCommSetKnobRules: %s (%d s, LAGOM_TIMEOUT_S); the communicator can only be aborted", text.c_str(),
         l->limitSeconds);
    l->lost = true;
    base->lagomOutcome = ncclRemoteError;
  } else if (!text.empty()) {
    WARN("ncclCommSetKnobRules: %s; the old rules stay", text.c_str());
    base->lagomOutcome = l->refusal = ncclInvalidUsage;
  } else {
    l->rules = std::move(job->rules);
    l->planId = l->rules.empty() ? 0 : ncclPlanDigest(l->rules.data(), (int)l->rules.size());
    l->epoch += 1;
  }
  return ncclSuccess;
}

static void destroy(void* base) {
  lagomSettingJob* job = (lagomSettingJob*)base;
  job->comm->lagom->settingNow -= 1;
  delete job;
}

ncclResult_t lagomAsyncError(struct ncclComm* comm) {
  lagomComm* l = comm->lagom;
  if (l == nullptr) return ncclSuccess;
  std::lock_guard<std::mutex> lock(l->mutex);
  if (l->lost) return ncclRemoteError;
  ncclResult_t refusal = comm->config.blocking ? ncclSuccess : l->refusal;
  l->refusal = ncclSuccess;
  return refusal;
}

NCCL_API(ncclResult_t, ncclCommSetKnobRules, ncclComm_t comm, const ncclKnobRule* rules, int nRules);
ncclResult_t ncclCommSetKnobRules(ncclComm_t comm, const ncclKnobRule* rules, int nRules) {
  NCCLCHECK(CommCheck(comm, "ncclCommSetKnobRules", "comm"));
  NCCLCHECK(ncclCommEnsureReady(comm));
  lagomComm* l = comm->lagom;
  lagomSettingJob* job = nullptr;
  ncclResult_t ret = ncclSuccess;
  NCCLCHECK(ncclGroupStartInternal());
  NEW_NOTHROW_GOTO(job, lagomSettingJob, ret, exit);
  job->comm = comm;
  job->base.lagomOutcome = ncclSuccess;
  memset(&job->mine, 0, sizeof(job->mine));
  snprintf(job->mine.fault, sizeof(job->mine.fault), "%s", faultOf(comm, rules, nRules).c_str());
  if (job->mine.fault[0] == '\0' && nRules > 0) job->rules.assign(rules, rules + nRules);
  job->mine.nRules = nRules;
  job->mine.digest = ncclPlanDigest(job->rules.data(), (int)job->rules.size());
  {
    std::lock_guard<std::mutex> lock(l->mutex);
    job->mine.calls = l->calls;
    job->mine.epoch = l->epoch;
    l->settingNow += 1;
  }
  NCCLCHECKGOTO(ncclAsyncLaunch(&job->base, run, nullptr, destroy, comm), ret, exit);
exit:
  ncclGroupErrCheck(ret);
  NCCLCHECK(ncclGroupEndInternal());
  if (ret == ncclSuccess && !comm->config.blocking) NCCLCHECK(ncclCommGetAsyncError(comm, &ret));
  return ret;
}
