// SPDX-License-Identifier: Apache-2.0
// Preloaded into programs that the tests do not write: sees every all-reduce, send and receive, and once the program has
// synchronized the stream reads the buffers itself. Each gets a line in $WATCH_FILE with what was asked for and one number
// for the contents, which the test computes again with NumPy. So a program that does not look at its data, or looks at the
// first element only, is judged by all of it.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "cuda_runtime.h"
#include "nccl.h"

namespace {

template <typename Function>
Function real(Function, const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) std::abort();
  return reinterpret_cast<Function>(found);
}
#define REAL(name) real(&name, #name)

struct Seen {
  const char* what;
  cudaStream_t stream;
  const void* buffer;
  std::size_t count;
  int dtype, peer, rank, ranks;
};
std::mutex lock;
std::vector<Seen> waiting;

// The sum of 32-bit words, each times its place (counted from 1), modulo 2^64.
std::uint64_t contents(const void* device, std::size_t bytes) {
  constexpr std::size_t kPiece = 16 << 20;
  std::vector<std::uint32_t> words(kPiece / 4);
  std::uint64_t sum = 0, place = 0;
  for (std::size_t at = 0; at < bytes; at += kPiece) {
    const std::size_t now = bytes - at < kPiece ? bytes - at : kPiece;
    if (cudaMemcpy(words.data(), static_cast<const char*>(device) + at, now, cudaMemcpyDeviceToHost) != cudaSuccess) {
      std::abort();
    }
    for (std::size_t i = 0; i < now / 4; ++i) sum += words[i] * ++place;
  }
  return sum;
}

void note(const char* what, const void* buffer, std::size_t count, int dtype, int peer, ncclComm_t comm,
          cudaStream_t stream) {
  Seen seen{what, stream, buffer, count, dtype, peer, -1, -1};
  if (ncclCommUserRank(comm, &seen.rank) != ncclSuccess || ncclCommCount(comm, &seen.ranks) != ncclSuccess) std::abort();
  std::lock_guard<std::mutex> guard(lock);
  waiting.push_back(seen);
}

void report(cudaStream_t stream) {
  std::vector<Seen> done;
  {
    std::lock_guard<std::mutex> guard(lock);
    std::vector<Seen> rest;
    for (const Seen& seen : waiting) (seen.stream == stream ? done : rest).push_back(seen);
    waiting = std::move(rest);
  }
  for (const Seen& seen : done) {
    char line[256];
    const int length = std::snprintf(
        line, sizeof line, "%s rank %d of %d dtype %d count %zu peer %d contents %llu\n", seen.what, seen.rank, seen.ranks,
        seen.dtype, seen.count, seen.peer, static_cast<unsigned long long>(contents(seen.buffer, seen.count * 4)));
    std::FILE* file = std::fopen(std::getenv("WATCH_FILE"), "a");
    if (file == nullptr) std::abort();
    std::fwrite(line, 1, static_cast<std::size_t>(length), file);  // one write: several processes append
    std::fclose(file);
  }
}

}  // namespace

#define WATCHED extern "C" __attribute__((visibility("default")))

WATCHED ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t dtype,
                                   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  note("allreduce-in", send, count, dtype, -1, comm, stream);
  note("allreduce-out", receive, count, dtype, -1, comm, stream);
  return REAL(ncclAllReduce)(send, receive, count, dtype, op, comm, stream);
}

WATCHED ncclResult_t ncclSend(const void* buffer, std::size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                              cudaStream_t stream) {
  note("send", buffer, count, dtype, peer, comm, stream);
  return REAL(ncclSend)(buffer, count, dtype, peer, comm, stream);
}

WATCHED ncclResult_t ncclRecv(void* buffer, std::size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                              cudaStream_t stream) {
  note("receive", buffer, count, dtype, peer, comm, stream);
  return REAL(ncclRecv)(buffer, count, dtype, peer, comm, stream);
}

WATCHED cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const cudaError_t result = REAL(cudaStreamSynchronize)(stream);
  if (result == cudaSuccess) report(stream);
  return result;
}
