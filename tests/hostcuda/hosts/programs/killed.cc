// SPDX-License-Identifier: Apache-2.0
// One rank dies while device code is inside a collective. The others say what they see, abort from another thread than
// the one that waits for the stream, and end. VICTIM is the rank that the launcher kills; EXPECT=error tells survivors
// to wait until ncclCommGetAsyncError says so, EXPECT=silence to look for a while and see that nobody tells them.
#include <mutex>

#include "data.h"

namespace {

constexpr size_t kCount = 1 << 20;  // many steps of every rank's FIFO
constexpr int kAbortLimit_s = 5;
constexpr int kLooks = 100;
constexpr int kLook_ms = 10;

bool is_stuck(cudaStream_t stream) { return cudaStreamQuery(stream) == cudaErrorNotReady; }

// What the watching thread does once the rank has died; true where it came as expected.
bool watch(ncclComm_t comm, cudaStream_t stream) {
  const bool error_expected = text("EXPECT") == "error";
  ncclResult_t state = ncclSuccess;
  for (int look = 0; error_expected || look < kLooks; ++look) {
    OK(ncclCommGetAsyncError(comm, &state));
    if (state != ncclSuccess) break;
    nap(kLook_ms);
  }
  if (error_expected) {  // it may come before the next collective as well as inside of one
    say("rank %d: async error %d", kRank, state);
    return state == ncclRemoteError;
  }
  const bool stuck = is_stuck(stream);
  say("rank %d: async error %d, %s", kRank, state, stuck ? "waits" : "does not wait");
  return state == ncclSuccess && stuck;
}

void abort_in_time(ncclComm_t comm) {
  PatientWatch limit(kAbortLimit_s, [] {
    say("rank %d: abort did not return within %d s", kRank, kAbortLimit_s);
    std::_Exit(3);
  });
  const ncclResult_t result = ncclCommAbort(comm);
  say("rank %d: abort gives %d", kRank, result);
}

// `held_back`: survivors enter only when the victim is dead, so it died inside for certain. Otherwise all ranks run one
// collective after another and the launcher's signal falls where it falls.
void die(bool held_back) {
  ncclComm_t comm = init();
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Collectives(comm, stream).all_reduce(1000);
  const bool victim = kRank == number("VICTIM");
  Buffer data(kCount);
  data.fill([](size_t) { return 0.f; });
  if (held_back && !victim) await("dead");
  std::mutex launching;  // an abort frees the communicator
  bool giving_up = false;
  std::thread watcher;
  if (!victim) {
    watcher = std::thread([&] {
      await("dead");
      const bool as_expected = watch(comm, stream);
      {
        std::lock_guard<std::mutex> guard(launching);
        giving_up = true;
      }
      abort_in_time(comm);
      if (!as_expected) std::_Exit(4);
    });
  }
  for (bool posted = false;; posted = true) {
    {
      std::lock_guard<std::mutex> guard(launching);
      if (giving_up) break;
      const ncclResult_t called = ncclAllReduce(data.data(), data.data(), kCount, ncclFloat, ncclSum, comm, stream);
      if (called == ncclRemoteError) break;  // an earlier one has failed meanwhile
      OK(called);
    }
    if (!posted && held_back && victim) nap(100);  // until the device's own thread has started it
    if (!posted) post("inside");
    OK(cudaStreamSynchronize(stream));
  }
  CHECK(!victim);
  watcher.join();
  OK(cudaStreamSynchronize(stream));
  OK(cudaStreamDestroy(stream));
}

}  // namespace

CASE(before_the_others) { die(true); }
CASE(among_the_others) { die(false); }

int main(int argc, char** argv) { return run_rank(argc, argv); }
