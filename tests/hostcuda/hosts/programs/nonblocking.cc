// SPDX-License-Identifier: Apache-2.0
// Communicators that never block: every call says ncclInProgress or is done, and ncclCommGetAsyncError tells how it
// ended.
#include "data.h"

namespace {

constexpr size_t kCount = 5003;

ncclConfig_t unblocked() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

ncclComm_t begin(ncclResult_t* result) {
  OK(cudaSetDevice(number("DEVICE", kRank)));
  ncclConfig_t config = unblocked();
  ncclComm_t comm = nullptr;
  *result = ncclCommInitRankConfig(&comm, kRanks, unique_id(), kRank, &config);
  CHECK(comm != nullptr);
  return comm;
}

ncclComm_t started() {
  ncclResult_t result;
  ncclComm_t comm = begin(&result);
  OK(settled(comm, result));
  return comm;
}

// Split and shrink say ncclSuccess while they go on; only the parent's state tells, and the child comes with it.
ncclComm_t made(ncclComm_t parent, ncclResult_t called, const ncclComm_t& child) {
  OK(called);
  OK(settled(parent, ncclInProgress));
  CHECK(child != nullptr);
  return child;
}

void finish(ncclComm_t comm) {
  OK(settled(comm, ncclCommFinalize(comm)));
  OK(ncclCommDestroy(comm));
}

}  // namespace

CASE(collectives) {
  ncclComm_t comm = started();
  Collectives collectives(comm, stream());
  for (const size_t count : {size_t{1}, kCount}) collectives.every(count);
  finish(comm);
}

// Rank 0 is in progress for certain: the others start when it says so. Until then it refuses calls, and comes up for
// all that.
CASE(in_progress) {
  if (kRank != 0) await("alone.0");
  ncclResult_t result;
  ncclComm_t comm = begin(&result), child = nullptr;
  if (kRank == 0) {
    GIVES(ncclInProgress, result);
    OK(ncclCommGetAsyncError(comm, &result));
    GIVES(ncclInProgress, result);
    Buffer data(1);
    GIVES(ncclInvalidArgument, ncclAllReduce(data.data(), data.data(), 1, ncclFloat, ncclSum, comm, stream()));
    GIVES(ncclInvalidArgument, ncclCommSplit(comm, 0, 0, &child, nullptr));
    CHECK(child == nullptr);
    int size = 0;
    GIVES(ncclInvalidArgument, ncclCommCount(comm, &size));
    OK(ncclCommGetAsyncError(comm, &result));
    GIVES(ncclInvalidArgument, result);  // NCCL shows the refused collective's result until init overwrites it
    post("alone");
    while (result != ncclSuccess) {
      nap(1);
      OK(ncclCommGetAsyncError(comm, &result));
    }
  }
  OK(settled(comm, ncclInProgress));
  Collectives(comm, stream()).every(kCount);
  finish(comm);
}

CASE(split) {
  ncclComm_t parent = started(), child = nullptr, alone = nullptr;
  made(parent, ncclCommSplit(parent, kRank % 2, kRank, &child, nullptr), child);
  Collectives(child, stream()).every(kCount);
  ncclConfig_t blocking = NCCL_CONFIG_INITIALIZER;  // a child need not be as its parent
  blocking.blocking = 1;
  made(parent, ncclCommSplit(parent, kRank, 0, &alone, &blocking), alone);
  Collectives(parent, stream()).every(kCount);
  OK(ncclCommDestroy(alone));
  finish(child);
  finish(parent);
}

CASE(shrink_and_grow) {
  ncclComm_t parent = started(), child = nullptr;
  int gone = 0;
  if (kRank != gone) {
    made(parent, ncclCommShrink(parent, &gone, 1, &child, nullptr, NCCL_SHRINK_DEFAULT), child);
    Collectives(child, stream()).every(kCount);
  }
  ncclComm_t grown = nullptr;
  ncclConfig_t config = unblocked();
  if (kRank != gone) {
    ncclUniqueId id, *told = nullptr;
    if (kRank == 1) {
      OK(ncclCommGetUniqueId(child, &id));
      publish("more", &id, sizeof id);
      told = &id;
    }
    CHECK(ncclCommGrow(child, kRanks, told, -1, &grown, &config) <= ncclInProgress);
  } else {
    const auto id = fetch<ncclUniqueId>("more");
    CHECK(ncclCommGrow(nullptr, kRanks, &id, kRanks - 1, &grown, &config) <= ncclInProgress);
  }
  CHECK(grown != nullptr);
  OK(settled(grown, ncclInProgress));
  Collectives(grown, stream()).every(kCount);
  finish(grown);
  if (child != nullptr) finish(child);
  finish(parent);
}

CASE(group_of_inits) {  // several communicators at once, one group
  OK(cudaSetDevice(number("DEVICE", kRank)));
  ncclUniqueId ids[] = {unique_id("first"), unique_id("second")};
  ncclComm_t comms[2] = {};
  ncclConfig_t config = unblocked();
  OK(ncclGroupStart());
  for (int i = 0; i < 2; ++i) {
    const ncclResult_t result = ncclCommInitRankConfig(&comms[i], kRanks, ids[i], kRank, &config);
    CHECK(result == ncclSuccess || result == ncclInProgress);
  }
  const ncclResult_t ended = ncclGroupEnd();
  CHECK(ended == ncclSuccess || ended == ncclInProgress);
  for (ncclComm_t comm : comms) OK(settled(comm, ncclInProgress));
  for (ncclComm_t comm : comms) Collectives(comm, stream()).every(kCount);
  for (ncclComm_t comm : comms) finish(comm);
}

// Finalize of work that cannot end yet is in progress until the last rank has come.
CASE(finalize_waits) {
  ncclComm_t comm = started();
  Buffer data(kCount);
  data.fill([](size_t) { return 1.f; });
  Collectives(comm, stream()).all_reduce(1);
  if (kRank == 0) {
    for (int r = 1; r < kRanks; ++r) await("waiting." + std::to_string(r));
  }
  OK(settled(comm, ncclAllReduce(data.data(), data.data(), kCount, ncclFloat, ncclSum, comm, stream())));
  ncclResult_t result = ncclCommFinalize(comm);
  if (kRank != 0) {
    GIVES(ncclInProgress, result);
    post("waiting");
  }
  OK(settled(comm, result));
  data.expect("all_reduce that finalize waited for", [](size_t) { return static_cast<float>(kRanks); });
  OK(ncclCommDestroy(comm));
}

int main(int argc, char** argv) { return run_rank(argc, argv); }
