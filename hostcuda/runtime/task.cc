// SPDX-License-Identifier: Apache-2.0
#include "runtime/task.h"

#include <algorithm>
#include <cstring>

#include "runtime/bytes.h"
#include "runtime/capture.h"
#include "runtime/device.h"

namespace hostcuda::rt {
namespace {

constexpr std::size_t kShareBytes = 4 << 20;  // of a copy at a time, so that grids on the same device go on

OpRef make(const Device& device, const KernelTask& task) {
  const Kernel& kernel = *task.kernel;
  const OpRef op = make_op(OpKind::kernel, task.announced.name.empty() ? kernel.name : task.announced.name);
  simt::GridSpec& spec = op->grid;
  spec.entry = kernel.entry;
  spec.args = task.args;
  spec.grid = task.grid;
  spec.block = task.block;
  spec.static_shared_bytes = kernel.static_shared_bytes;
  spec.dynamic_shared_bytes = task.dynamic_shared_bytes;
  spec.name = kernel.name.c_str();
  spec.device = device.place;

  clock::GridWork cost;
  cost.name = op->name;
  cost.ctas = task.grid.x * task.grid.y * task.grid.z;
  cost.threads_per_cta = task.block.x * task.block.y * task.block.z;
  cost.registers_per_thread = kernel.registers;
  cost.shared_bytes_per_cta = kernel.static_shared_bytes + task.dynamic_shared_bytes;
  cost.collective = task.announced.collective;
  cost.epoch = count_launch(device.number, task.announced);
  cost.bytes_in_flight = task.announced.bytes_in_flight;
  op->cost = cost;
  return op;
}

OpRef make(const Device&, const DescribedTask& task) {
  const OpRef op = make_op(OpKind::described, task.cost.name);
  op->cost = task.cost;
  return op;
}

OpRef make(const Device&, const CopyTask& task) {
  const OpRef op = make_op(OpKind::copy, "copy");
  op->cost = task.cost;
  op->work = [task, row = std::size_t{0}, column = std::size_t{0}]() mutable {
    for (std::size_t left = kShareBytes; row < task.row_count(); ++row, column = 0) {
      const std::size_t now = std::min(left, task.bytes - column);
      copy_bytes(task.dst_row(row) + column, task.src_row(row) + column, now);
      column += now;
      left -= now;
      if (column < task.bytes) return false;
    }
    return true;
  };
  return op;
}

OpRef make(const Device&, const SetTask& task) {
  const OpRef op = make_op(OpKind::set, "set");
  clock::CopyWork cost;
  cost.name = "set";
  cost.kind = clock::CopyKind::set;
  cost.bytes = task.width * task.value_bytes * task.rows * task.planes;
  op->cost = cost;
  op->work = [task] {
    for (std::size_t row = 0; row < task.rows * task.planes; ++row) {
      char* at = task.address + row / task.rows * task.layout.plane_pitch + row % task.rows * task.layout.pitch;
      fill(at, task.value, task.value_bytes, task.width * task.value_bytes);
    }
    return true;
  };
  return op;
}

OpRef make(const Device&, const HostTask& task) {
  const OpRef op = make_op(OpKind::host, "host function");
  op->cost = clock::HostFunction{};
  op->work = [task] {
    task.function(task.argument);
    return true;
  };
  return op;
}

OpRef make(const Device&, const RecordTask&) {
  const OpRef op = make_op(OpKind::record);
  op->cost = clock::EventRecord{};
  return op;
}

OpRef make(const Device&, const WaitTask& task) {
  const OpRef op = make_op(OpKind::wait);
  op->cost = clock::EventWait{};
  if (task.event->op) op->dependencies.push_back(task.event->op);
  return op;
}

OpRef make(const Device&, const EmptyTask&) {
  const OpRef op = make_op(OpKind::wait);
  op->cost = clock::EventWait{};
  return op;
}

OpRef make(const Device&, const MemoryTask& task) {
  const OpRef op = make_op(OpKind::memory, "memory operations");
  op->work = memory_work(task.ops);
  return op;
}

OpRef make(const Device& device, const ChildTask&) { return make(device, EmptyTask{}); }

}  // namespace

OpRef op_of(const Task& task) {
  return std::visit([&](const auto& body) { return make(*task.device, body); }, task.body);
}

void issued(const Task& task, const OpRef& op) {
  if (const auto* record = std::get_if<RecordTask>(&task.body)) {
    record->event->op = op;
    record->event->captured = {};
  }
}

cudaError_t submit(const StreamRef& stream, TaskBody body, OpRef* made) {
  Task task{stream->device, stream->priority, std::move(body)};
  if (stream->capture) return capture_task(stream, std::move(task));
  const OpRef op = op_of(task);
  if (const cudaError_t error = enqueue(stream, op); error != cudaSuccess) return error;
  issued(task, op);
  if (made != nullptr) *made = op;
  return cudaSuccess;
}

}  // namespace hostcuda::rt
