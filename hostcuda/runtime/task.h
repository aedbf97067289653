// SPDX-License-Identifier: Apache-2.0
// What a call asks of a device, apart from where it goes. Put into a stream it becomes an operation; where the stream
// is being captured it becomes a node of a graph, from which operations are made at every launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "runtime/clock_glue.h"
#include "runtime/launch.h"
#include "runtime/memory_ops.h"
#include "runtime/stream.h"
#include "simt/grid.h"

namespace hostcuda::rt {

struct Graph;

struct KernelTask {
  const Kernel* kernel = nullptr;
  std::vector<std::byte> args;  // copied when the launch was called
  simt::Dim3 grid, block;
  std::size_t dynamic_shared_bytes = 0;
  Announced announced;
};

struct DescribedTask {
  clock::KernelWork cost;
};

// Rows of `bytes`, a pitch apart; `rows` of them make a plane, and planes follow each other a plane's pitch apart.
struct Layout {
  std::size_t pitch = 0, plane_pitch = 0;
};
struct CopyTask {
  char* dst = nullptr;
  const char* src = nullptr;
  Layout dst_layout, src_layout;
  std::size_t bytes = 0, rows = 1, planes = 1;
  clock::CopyWork cost;
  std::shared_ptr<std::vector<char>> staged;  // what `src` points into, where the source was pageable

  std::size_t row_count() const { return rows * planes; }
  char* dst_row(std::size_t row) const {
    return dst + row / rows * dst_layout.plane_pitch + row % rows * dst_layout.pitch;
  }
  const char* src_row(std::size_t row) const {
    return src + row / rows * src_layout.plane_pitch + row % rows * src_layout.pitch;
  }
};

struct SetTask {
  char* address = nullptr;
  Layout layout;
  std::uint32_t value = 0;
  unsigned value_bytes = 1;
  std::size_t width = 0, rows = 1, planes = 1;  // width in elements
};

struct HostTask {
  cudaHostFn_t function = nullptr;
  void* argument = nullptr;
};

struct RecordTask {
  EventRef event;
};
struct WaitTask {
  EventRef event;
};
struct EmptyTask {};
struct ChildTask {
  std::shared_ptr<Graph> graph;
};
struct MemoryTask {
  std::vector<MemoryOp> ops;
};

using TaskBody = std::variant<KernelTask, DescribedTask, CopyTask, SetTask, HostTask, RecordTask, WaitTask, EmptyTask,
                              ChildTask, MemoryTask>;

struct Task {
  Device* device = nullptr;
  int priority = 0;  // of the stream that it was captured from
  TaskBody body;
};

// An operation that does it once. Counts the launch of a communication kernel. With the lock held.
OpRef op_of(const Task& task);

// What must be done besides once `op`, made from `task`, has been enqueued: an event remembers it. With the lock held.
void issued(const Task& task, const OpRef& op);

// Puts `task` into `stream` in program order: into its graph where it is being captured, else as an operation, which
// `*made` then is. With the lock held.
cudaError_t submit(const StreamRef& stream, TaskBody body, OpRef* made = nullptr);

}  // namespace hostcuda::rt
