// SPDX-License-Identifier: Apache-2.0
// Memory operations of streams: a stream that waits until a word in memory has some value, or writes one. Other
// streams, hosts and processes take part through the memory alone, so a wait polls; while nothing else runs on its
// device it does so ever more seldom, like grids that wait for other ranks.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace hostcuda::rt {

enum class Condition { greater_or_equal, equal, any_bit, any_zero_bit };

struct MemoryOp {
  enum class Kind { wait, write, fence } kind = Kind::fence;
  void* address = nullptr;
  std::uint64_t value = 0;
  unsigned bytes = 4;  // of the word: 4 or 8
  Condition condition = Condition::greater_or_equal;
};

// Does what can be done of `ops`, in order: true when nothing is left, false where one of them waits.
std::function<bool()> memory_work(std::vector<MemoryOp> ops);

// Puts them into the stream as one operation, or as one node of the graph that it is captured into.
// cudaErrorInvalidValue where a word is misaligned or no device can reach it.
cudaError_t enqueue_memory_ops(cudaStream_t stream, std::vector<MemoryOp> ops);

}  // namespace hostcuda::rt
