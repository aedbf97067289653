// SPDX-License-Identifier: Apache-2.0
// The patched library's own promises where communicators come from others or are still in the making: children start
// from LAGOM_PLAN again, all ranks of a child are compared afresh, and nothing of ours touches one that is not ready.
// CHANGED is "VARIABLE=value": what the rank CHANGER does to its environment between parent and child.
#include <functional>
#include <memory>

#include "data.h"
#include "nccl_knobs.h"

namespace {

constexpr size_t kCount = 1000;

void use(ncclComm_t comm) { Collectives(comm, stream()).all_reduce(kCount); }

std::vector<ncclKnobRule> rules(ncclComm_t comm) {
  int count = 0;
  OK(ncclCommGetKnobRules(comm, nullptr, 0, &count));
  std::vector<ncclKnobRule> all(static_cast<size_t>(count));
  OK(ncclCommGetKnobRules(comm, all.data(), count, &count));
  return all;
}

ncclKnobRule rule(int channels) {
  ncclKnobRule made = NCCL_KNOB_RULE_INITIALIZER;
  made.collective = ncclKnobAllReduce;
  made.knobs.nChannels = channels;
  return made;
}

// The plan of these tests has one rule, for two channels.
void expect_the_plans(ncclComm_t comm) {
  const auto found = rules(comm);
  CHECK(found.size() == 1 && found[0].knobs.nChannels == 2 && found[0].line == 1);
}

void change_environment() {
  if (kRank != number("CHANGER")) return;
  const std::string told = text("CHANGED");
  const auto equals = told.find('=');
  CHECK(equals != std::string::npos);
  const std::string name = told.substr(0, equals), value = told.substr(equals + 1);
  if (value.empty()) ::unsetenv(name.c_str());
  if (!value.empty()) ::setenv(name.c_str(), value.c_str(), 1);
}

using Make = std::function<ncclResult_t(ncclComm_t parent, ncclComm_t* child)>;

ncclResult_t split(ncclComm_t parent, ncclComm_t* child) { return ncclCommSplit(parent, 0, kRank, child, nullptr); }

ncclResult_t shrink(ncclComm_t parent, ncclComm_t* child) {
  int gone = 0;
  return ncclCommShrink(parent, &gone, 1, child, nullptr, NCCL_SHRINK_DEFAULT);
}

ncclResult_t grow(ncclComm_t parent, ncclComm_t* child) {
  ncclUniqueId id, *told = nullptr;
  if (kRank == 0) {
    OK(ncclCommGetUniqueId(parent, &id));
    publish("more", &id, sizeof id);
    told = &id;
  } else if (parent == nullptr) {
    id = fetch<ncclUniqueId>("more");
    told = &id;
  }
  return ncclCommGrow(parent, kRanks, told, parent == nullptr ? kRank : -1, child, nullptr);
}

// All ranks but the last, which joins a grown communicator later.
ncclComm_t init_all_but_the_last() {
  OK(cudaSetDevice(number("DEVICE", kRank)));
  if (kRank == kRanks - 1) return nullptr;
  ncclComm_t comm;
  OK(ncclCommInitRank(&comm, kRanks - 1, unique_id(), kRank));
  return comm;
}

void inherits_nothing(ncclComm_t parent, bool takes_part, const Make& make) {
  if (parent != nullptr) {
    expect_the_plans(parent);
    const ncclKnobRule own[] = {rule(1), rule(2), rule(1)};
    OK(ncclCommSetKnobRules(parent, own, 3));
  }
  ncclComm_t child = nullptr;
  if (takes_part) {
    OK(make(parent, &child));
    expect_the_plans(child);
    use(child);
    const ncclKnobRule other = rule(1);
    OK(ncclCommSetKnobRules(child, &other, 1));
  }
  if (parent != nullptr) CHECK(rules(parent).size() == 3);
  if (child != nullptr) OK(ncclCommDestroy(child));
  if (parent != nullptr) {
    use(parent);
    OK(ncclCommDestroy(parent));
  }
}

// Every rank of the child hears the same words; the parent goes on as if nothing had been.
void refuses(ncclComm_t parent, bool takes_part, const Make& make) {
  change_environment();
  if (takes_part) {
    ncclComm_t child = nullptr;
    GIVES(ncclInvalidUsage, make(parent, &child));
    std::string said = ncclGetLastError(nullptr);
    for (char& c : said) c = c == '\n' ? ' ' : c;
    say("rank %d: %s", kRank, said.c_str());
    if (child != nullptr) OK(ncclCommAbort(child));
  }
  if (parent != nullptr) {
    use(parent);
    ncclComm_t again = nullptr;  // what failed once fails for its reason only
    OK(ncclCommSplit(parent, kRank, 0, &again, nullptr));
    OK(ncclCommDestroy(again));
    OK(ncclCommDestroy(parent));
  }
}

}  // namespace

CASE(split_inherits_nothing) { inherits_nothing(init(), true, split); }
CASE(shrink_inherits_nothing) { inherits_nothing(init(), kRank != 0, shrink); }
CASE(grow_inherits_nothing) { inherits_nothing(init_all_but_the_last(), true, grow); }

CASE(split_compares) { refuses(init(), true, split); }
CASE(shrink_compares) { refuses(init(), kRank != 0, shrink); }
CASE(grow_compares) { refuses(init_all_but_the_last(), true, grow); }

// While a communicator is in the making every call of ours is refused, as NCCL's own are; afterwards all work.
CASE(in_progress) {
  if (kRank != 0) await("alone.0");
  OK(cudaSetDevice(number("DEVICE", kRank)));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  ncclResult_t result = ncclCommInitRankConfig(&comm, kRanks, unique_id(), kRank, &config);
  const ncclKnobRule own = rule(1);
  auto records = std::make_unique<ncclOpRecord>();
  records->size = sizeof(ncclOpRecord);
  records->version = NCCL_OP_RECORD_VERSION;
  ncclCountersStatus status{};
  status.size = sizeof status;
  status.version = NCCL_COUNTERS_STATUS_VERSION;
  int count = 0;
  if (kRank == 0) {
    GIVES(ncclInProgress, result);
    GIVES(ncclInvalidArgument, ncclCommSetKnobRules(comm, &own, 1));
    GIVES(ncclInvalidArgument, ncclCommGetKnobRules(comm, nullptr, 0, &count));
    GIVES(ncclInvalidArgument, ncclCommCountersEnable(comm, 1));
    GIVES(ncclInvalidArgument, ncclCommCountersRead(comm, records.get(), 1, &count));
    GIVES(ncclInvalidArgument, ncclCommCountersStatus(comm, &status));
    post("alone");
  }
  OK(settled(comm, result));
  CHECK(rules(comm).empty());
  OK(settled(comm, ncclCommSetKnobRules(comm, &own, 1)));
  OK(ncclCommCountersEnable(comm, 1));
  use(comm);
  OK(ncclCommCountersRead(comm, records.get(), 1, &count));
  CHECK(count == 1 && records->used.nChannels == 1 && records->exact == 1);
  OK(settled(comm, ncclCommFinalize(comm)));
  OK(ncclCommDestroy(comm));
}

// Two operations and one that is given up half-way: that one is no record, but lost.
CASE(aborted_operation) {
  ncclComm_t comm = init(), alone = nullptr;
  OK(ncclCommCountersEnable(comm, 1));
  use(comm);
  use(comm);
  Buffer data(1 << 18);
  if (kRank != 0) {
    OK(ncclAllReduce(data.data(), data.data(), 1 << 18, ncclFloat, ncclSum, comm, stream()));
    nap(50);
    GIVES(cudaErrorNotReady, cudaStreamQuery(stream()));
  }
  meet("hanging");
  // After a revoke the communicator lives on and can be asked.
  OK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
  OK(cudaStreamSynchronize(stream()));
  std::vector<ncclOpRecord> records(4);
  records[0].size = sizeof(ncclOpRecord);
  records[0].version = NCCL_OP_RECORD_VERSION;
  int count = 0;
  OK(ncclCommCountersRead(comm, records.data(), 4, &count));
  CHECK(count == 2 && records[0].count == kCount && records[1].count == kCount);
  ncclCountersStatus status{};
  status.size = sizeof status;
  status.version = NCCL_COUNTERS_STATUS_VERSION;
  OK(ncclCommCountersStatus(comm, &status));
  say("rank %d: issued %d, read %d, lost %d, pending %d", kRank, int(status.issued), int(status.read), int(status.lost),
      int(status.pending));
  OK(ncclCommSplit(comm, kRank, 0, &alone, nullptr));
  OK(ncclCommDestroy(alone));
  OK(ncclCommDestroy(comm));
}

int main(int argc, char** argv) { return run_rank(argc, argv); }
