// SPDX-License-Identifier: Apache-2.0
// A job to ask NCCL's RAS about: CALLS all-reduces on every rank, rank 0 enqueues one more that the others do not join.
#include "data.h"

CASE(running) {
  ncclComm_t comm = init(), child = nullptr;
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Collectives collectives(comm, stream);
  for (int i = 0; i < number("CALLS"); ++i) collectives.all_reduce(1000);
  OK(ncclCommSplit(comm, kRank == 0 ? NCCL_SPLIT_NOCOLOR : 0, kRank, &child, nullptr));
  Buffer more(1 << 18);
  if (kRank == 0) OK(ncclAllReduce(more.data(), more.data(), 1 << 18, ncclFloat, ncclSum, comm, stream));
  post("ready");
  await("asked");
  if (text("EXPECT") != "death") {
    if (kRank != 0) OK(ncclAllReduce(more.data(), more.data(), 1 << 18, ncclFloat, ncclSum, comm, stream));
    OK(cudaStreamSynchronize(stream));
    if (child != nullptr) OK(ncclCommDestroy(child));
    OK(ncclCommDestroy(comm));
  } else {
    if (child != nullptr) OK(ncclCommAbort(child));
    OK(ncclCommAbort(comm));
  }
  OK(cudaStreamDestroy(stream));
}

int main(int argc, char** argv) { return run_rank(argc, argv); }
