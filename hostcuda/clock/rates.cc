// SPDX-License-Identifier: Apache-2.0
#include "clock/rates.h"

#include <algorithm>

namespace hostcuda::clock {
namespace {

std::uint64_t left_of(std::uint64_t all, std::uint64_t used) { return used < all ? all - used : 0; }

void kernel_rates(const Gpu& gpu, const Op& op, std::uint64_t buffers, Item& item) {
  // Communication buffers push the kernel's data out of the L2.
  std::uint64_t bytes = op.bytes;
  const std::uint64_t asked = op.flops / gpu.reuse_flops_per_byte;
  if (asked > bytes && buffers > 0) {
    const std::uint64_t lost = scaled(asked - bytes, gpu.reuse_loss_ppm, kPpm);
    bytes += scaled(lost, std::min(buffers, gpu.l2_bytes), gpu.l2_bytes);
  }
  const Wide crowd = Wide{item.level} * kPsPerS;
  const Wide flops_ps = op.flops * crowd * gpu.sms / (Wide{gpu.flops_per_s} * op.ctas);
  const Wide memory_ps = bytes * crowd / (Wide{gpu.sm_memory_bytes_per_s} * op.ctas);
  item.full_ps = std::max({flops_ps, memory_ps, Wide{1}});
  const auto rate = [&](std::uint64_t of_kernel) {
    return static_cast<std::uint64_t>(Wide{of_kernel} * item.ctas * kPsPerS / (item.full_ps * op.ctas));
  };
  item.memory_demand = rate(bytes);
  item.flops_demand = rate(op.flops);
}

void grid_rates(const Gpu& gpu, const Op& op, std::uint64_t buffers, Item& item) {
  item.full_ps = std::max<std::uint64_t>(op.duration_ps, 1);
  // Buffers stay in their share of the L2; what does not fit goes to memory.
  const std::uint64_t share = scaled(gpu.l2_bytes, gpu.l2_buffer_share_ppm, kPpm);
  const std::uint64_t buffered = scaled(op.bytes, gpu.buffer_traffic_ppm, kPpm);
  const std::uint64_t spilt = buffers > share ? scaled(buffered, buffers - share, buffers) : 0;
  item.memory_demand = static_cast<std::uint64_t>(Wide{op.bytes - buffered + spilt} * kPsPerS / item.full_ps);
  item.flops_demand = 0;
}

void copy_rates(const Gpu& gpu, const Op& op, std::uint32_t alike, Item& item) {
  // op.bytes is memory traffic; op.duration_ps what the link alone would take, shared by copies of one kind.
  const Wide memory_ps = Wide{op.bytes} * kPsPerS / gpu.memory_bytes_per_s;
  item.full_ps = std::max({memory_ps, Wide{op.duration_ps} * alike, Wide{1}});
  item.memory_demand = static_cast<std::uint64_t>(Wide{op.bytes} * kPsPerS / item.full_ps);
  item.flops_demand = 0;
}

}  // namespace

std::uint64_t set_rates(const Gpu& gpu, const Drawn& placed, const std::vector<Op*>& ops, std::uint64_t now_ps,
                        std::vector<Item>& items) {
  std::uint64_t buffers = placed.buffer_bytes;
  std::uint32_t copies[5] = {};
  for (Item& item : items) {
    const Op* op = ops[item.op];
    item.buffer_bytes = op->kind == OpKind::grid ? op->buffer_bytes : 0;
    buffers += item.buffer_bytes;
    if (op->kind == OpKind::copy) ++copies[static_cast<int>(op->copy_kind)];
  }

  Wide flops_demand = 0;
  for (Item& item : items) {
    const Op* op = ops[item.op];
    switch (op->kind) {
      case OpKind::kernel: kernel_rates(gpu, *op, buffers, item); break;
      case OpKind::grid: grid_rates(gpu, *op, buffers, item); break;
      default: copy_rates(gpu, *op, copies[static_cast<int>(op->copy_kind)], item);
    }
    flops_demand += item.flops_demand;
  }

  // Arithmetic first: who gets less of it also asks for less memory.
  const std::uint64_t flops = left_of(gpu.flops_per_s, placed.flops_per_s);
  Wide memory_demand = 0;
  for (Item& item : items) {
    if (item.flops_demand > 0 && flops_demand > flops) {
      item.full_ps = item.full_ps * flops_demand / std::max<Wide>(flops, 1) + 1;
      item.flops_demand = static_cast<std::uint64_t>(Wide{item.flops_demand} * flops / flops_demand);
      item.memory_demand = static_cast<std::uint64_t>(Wide{item.memory_demand} * flops / flops_demand);
    }
    memory_demand += item.memory_demand;
  }
  const std::uint64_t memory = left_of(gpu.memory_bytes_per_s, placed.memory_bytes_per_s);
  std::uint64_t next_end_ps = kNever;
  for (Item& item : items) {
    std::uint64_t speed = kFullSpeed;
    if (item.memory_demand > 0 && memory_demand > memory) {
      speed = static_cast<std::uint64_t>(Wide{memory} * kFullSpeed / memory_demand);
      if (memory > 0) speed = std::max<std::uint64_t>(speed, 1);
    }
    // Who goes on as before keeps its end, free of rounding.
    if (speed != item.speed || item.full_ps != item.paced_ps || item.ends_ps == kNever) {
      const Wide pace = Wide{speed} << (kWorkBits - kSpeedBits);
      item.ends_ps = kNever;
      if (speed > 0) item.ends_ps = now_ps + static_cast<std::uint64_t>((item.left * item.full_ps + pace - 1) / pace);
    }
    item.speed = speed;
    item.paced_ps = item.full_ps;
    next_end_ps = std::min(next_end_ps, item.ends_ps);
  }
  return next_end_ps;
}

}  // namespace hostcuda::clock
