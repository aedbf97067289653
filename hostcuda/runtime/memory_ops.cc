// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory_ops.h"

#include <utility>

#include "runtime/bytes.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/memory.h"
#include "runtime/task.h"

namespace hostcuda::rt {
namespace {

template <typename Word>
Word load(const void* address) {
  return __atomic_load_n(static_cast<const Word*>(address), __ATOMIC_ACQUIRE);
}

// Greater or equal is cyclic: a counter that wraps around still counts up.
template <typename Word, typename Signed>
bool holds(const MemoryOp& op) {
  const Word found = load<Word>(op.address), wanted = static_cast<Word>(op.value);
  switch (op.condition) {
    case Condition::greater_or_equal: return static_cast<Signed>(found - wanted) >= 0;
    case Condition::equal: return found == wanted;
    case Condition::any_bit: return (found & wanted) != 0;
    case Condition::any_zero_bit: return static_cast<Word>(~(found | wanted)) != 0;
  }
  return false;
}

bool done(const MemoryOp& op) {
  switch (op.kind) {
    case MemoryOp::Kind::wait:
      return op.bytes == 4 ? holds<std::uint32_t, std::int32_t>(op) : holds<std::uint64_t, std::int64_t>(op);
    case MemoryOp::Kind::write:
      if (op.bytes == 4) {
        __atomic_store_n(static_cast<std::uint32_t*>(op.address), static_cast<std::uint32_t>(op.value),
                         __ATOMIC_SEQ_CST);
      } else {
        __atomic_store_n(static_cast<std::uint64_t*>(op.address), op.value, __ATOMIC_SEQ_CST);
      }
      return true;
    case MemoryOp::Kind::fence:
      __atomic_thread_fence(__ATOMIC_SEQ_CST);
      return true;
  }
  return true;
}

bool is_reachable(const MemoryOp& op) {
  if (op.kind == MemoryOp::Kind::fence) return true;
  const auto at = reinterpret_cast<std::uint64_t>(op.address);
  const MemoryInfo info = memory_at(op.address);
  return at % op.bytes == 0 && info.kind != MemoryKind::none && info.base + info.bytes - at >= op.bytes;
}

}  // namespace

std::function<bool()> memory_work(std::vector<MemoryOp> ops) {
  return [ops = std::move(ops), next = std::size_t{0}]() mutable {
    touch([&] {
      while (next < ops.size() && done(ops[next])) ++next;
    });
    return next == ops.size();
  };
}

cudaError_t enqueue_memory_ops(cudaStream_t handle, std::vector<MemoryOp> ops) {
  HC_DEVICE(here);
  (void)here;
  for (const MemoryOp& op : ops) {
    if (!is_reachable(op)) return report(cudaErrorInvalidValue);
  }
  std::lock_guard<std::mutex> guard(runtime_lock());
  const StreamRef stream = find_stream(handle);
  if (!stream) return report(cudaErrorInvalidResourceHandle);
  return report(submit(stream, MemoryTask{std::move(ops)}));
}

}  // namespace hostcuda::rt
