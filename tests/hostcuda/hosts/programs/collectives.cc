// SPDX-License-Identifier: Apache-2.0
// Every collective and point-to-point call on one communicator, all data checked.
//   COUNTS=1,3,1000 collectives every
#include "data.h"

static std::vector<size_t> counts() {
  std::vector<size_t> list;
  std::string told = text("COUNTS");
  for (char* at = told.data(); *at != '\0';) {
    list.push_back(std::strtoul(at, &at, 10));
    if (*at == ',') ++at;
  }
  CHECK(!list.empty());
  return list;
}

CASE(every) {
  ncclComm_t comm = init();
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Collectives collectives(comm, stream);
  for (const size_t count : counts()) collectives.every(count);
  say("rank %d: %d calls right", kRank, collectives.checked());
  OK(cudaStreamDestroy(stream));
  OK(ncclCommDestroy(comm));
}

// The same with several devices a process, a thread each.
CASE(threads) {
  const int devices = number("DEVICES"), ranks = kRanks * devices;
  const ncclUniqueId id = unique_id();
  std::vector<std::thread> threads;
  for (int device = 0; device < devices; ++device) {
    threads.emplace_back([=] {
      OK(cudaSetDevice(device));
      ncclComm_t comm;
      OK(ncclCommInitRank(&comm, ranks, id, kRank * devices + device));
      cudaStream_t stream;
      OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      Collectives collectives(comm, stream);
      for (const size_t count : counts()) collectives.every(count);
      say("rank %d: device %d: %d calls right", kRank, device, collectives.checked());
      OK(cudaStreamDestroy(stream));
      OK(ncclCommDestroy(comm));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The modelled times of a fixed sequence of calls, as events tell them.
CASE(times) {
  ncclComm_t comm = init();
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  constexpr size_t kMost = 1 << 16;
  Buffer data(kMost);
  data.fill([](size_t) { return 0.f; });
  std::string line;
  for (const size_t count : {size_t{1}, size_t{1000}, kMost}) {
    cudaEvent_t begin, end;
    OK(cudaEventCreate(&begin));
    OK(cudaEventCreate(&end));
    OK(cudaEventRecord(begin, stream));
    for (int i = 0; i < 3; ++i) OK(ncclAllReduce(data.data(), data.data(), count, ncclFloat, ncclSum, comm, stream));
    OK(cudaEventRecord(end, stream));
    OK(cudaStreamSynchronize(stream));
    float milliseconds = 0;
    OK(cudaEventElapsedTime(&milliseconds, begin, end));
    char number[32];
    std::snprintf(number, sizeof number, " %.9g", static_cast<double>(milliseconds) * 1e3);
    line += number;
    OK(cudaEventDestroy(begin));
    OK(cudaEventDestroy(end));
  }
  say("rank %d: us%s", kRank, line.c_str());
  OK(ncclCommDestroy(comm));
}

int main(int argc, char** argv) { return run_rank(argc, argv); }
