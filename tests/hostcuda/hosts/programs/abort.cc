// SPDX-License-Identifier: Apache-2.0
// Aborts where nothing has failed: while others have not come, twice over, from signals and at the end of a process.
#include <csignal>

#include "data.h"

namespace {

constexpr size_t kCount = 1 << 18;

void abort_in_time(ncclComm_t comm) {
  PatientWatch limit(5, [] {
    say("rank %d: abort did not return within 5 s", kRank);
    std::_Exit(3);
  });
  say("rank %d: abort gives %d", kRank, ncclCommAbort(comm));
}

ncclComm_t begin_alone() {
  OK(cudaSetDevice(number("DEVICE", kRank)));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  const ncclResult_t result = ncclCommInitRankConfig(&comm, kRanks + 1, unique_id(), kRank, &config);
  CHECK(result == ncclSuccess || result == ncclInProgress);
  return comm;
}

}  // namespace

// A rank that never comes: init goes on waiting, as NCCL has no limit there, and can be given up.
CASE(init) {
  ncclComm_t comm = begin_alone();
  nap(number("NAP_MS", 500));
  ncclResult_t state;
  OK(ncclCommGetAsyncError(comm, &state));
  GIVES(ncclInProgress, state);
  abort_in_time(comm);
}

CASE(init_at_once) { abort_in_time(begin_alone()); }

// One rank does not come to a split.
CASE(split) {
  OK(cudaSetDevice(number("DEVICE", kRank)));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t parent = nullptr, child = nullptr;
  ncclResult_t result = ncclCommInitRankConfig(&parent, kRanks, unique_id(), kRank, &config);
  OK(settled(parent, result));
  Collectives(parent, new_stream()).all_reduce(1000);
  if (kRank != 0) {
    result = ncclCommSplit(parent, 0, kRank, &child, nullptr);
    CHECK(result == ncclSuccess || result == ncclInProgress);
    nap(200);
    OK(ncclCommGetAsyncError(parent, &result));
    GIVES(ncclInProgress, result);
    CHECK(child == nullptr);
    post("splitting");
  } else {
    for (int r = 1; r < kRanks; ++r) await("splitting." + std::to_string(r));
  }
  abort_in_time(parent);
}

CASE(inside) {
  ncclComm_t comm = init();
  cudaStream_t stream = new_stream();
  Collectives(comm, stream).all_reduce(1000);
  Buffer data(kCount);
  if (kRank != 0) OK(ncclAllReduce(data.data(), data.data(), kCount, ncclFloat, ncclSum, comm, stream));
  meet("hanging");  // what an aborted rank's proxy has not sent yet is lost, and another rank waits for it
  abort_in_time(comm);
  OK(cudaStreamSynchronize(stream));
  OK(ncclCommAbort(nullptr));
  OK(ncclCommDestroy(nullptr));
}

CASE(finalized) {
  ncclComm_t comm = init();
  Collectives(comm, new_stream()).all_reduce(1000);
  OK(ncclCommFinalize(comm));
  meet("finalized");
  abort_in_time(comm);
}

// A communicator made anew after an abort, on the same devices and streams.
CASE(again) {
  cudaStream_t stream = nullptr;
  for (int round = 0; round < 3; ++round) {
    OK(cudaSetDevice(number("DEVICE", kRank)));
    ncclComm_t comm;
    OK(ncclCommInitRank(&comm, kRanks, unique_id("id" + std::to_string(round)), kRank));
    if (stream == nullptr) stream = new_stream();
    Collectives(comm, stream).every(1000);
    Buffer data(kCount);
    if (kRank != round % kRanks) {
      OK(ncclAllReduce(data.data(), data.data(), kCount, ncclFloat, ncclSum, comm, stream));
      nap(20);
      GIVES(cudaErrorNotReady, cudaStreamQuery(stream));
    }
    meet("hanging" + std::to_string(round));
    abort_in_time(comm);
    OK(cudaStreamSynchronize(stream));
  }
}

// The parent's abort ends what the child that shares its resources is in.
CASE(shared_child) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.splitShare = 1;
  OK(cudaSetDevice(number("DEVICE", kRank)));
  ncclComm_t parent, child = nullptr;
  OK(ncclCommInitRankConfig(&parent, kRanks, unique_id(), kRank, &config));
  OK(ncclCommSplit(parent, 0, kRank, &child, nullptr));
  cudaStream_t stream = new_stream();
  Collectives(child, stream).all_reduce(1000);
  Buffer data(kCount);
  if (kRank != 0) OK(ncclAllReduce(data.data(), data.data(), kCount, ncclFloat, ncclSum, child, stream));
  meet("hanging");
  abort_in_time(child);
  OK(cudaStreamSynchronize(stream));
  abort_in_time(parent);
}

// ---- ends of a process that destroy nothing ----

namespace {

// A rank in a collective that cannot end, because rank 0 does not join it.
void stuck() {
  ncclComm_t comm = init();
  cudaStream_t stream = new_stream();
  Collectives(comm, stream).all_reduce(1000);
  Buffer* data = new Buffer(kCount);
  if (kRank != 0) OK(ncclAllReduce(data->data(), data->data(), kCount, ncclFloat, ncclSum, comm, stream));
  nap(50);
  post("inside");
}

}  // namespace

CASE(signalled) {
  std::signal(SIGINT, SIG_DFL);  // a shell ignores it for what it starts in the background
  stuck();
  for (;;) nap(1000);
}

CASE(handled) {  // a program that has a handler of its own ends as it likes
  std::signal(SIGTERM, [](int) { std::_Exit(42); });
  stuck();
  for (;;) nap(1000);
}

CASE(returns) { stuck(); }
CASE(exits_at_once) {
  stuck();
  meet("about to exit");
  std::_Exit(0);
}

CASE(idle_return) {
  ncclComm_t comm = init();
  Collectives(comm, new_stream()).every(1000);
  meet("used");
}

int main(int argc, char** argv) { return run_rank(argc, argv); }
