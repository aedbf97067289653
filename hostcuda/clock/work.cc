// SPDX-License-Identifier: Apache-2.0
#include "clock/work.h"

#include <atomic>
#include <cmath>
#include <stdexcept>
#include <string>

#include "clock/words.h"

namespace hostcuda::clock {
namespace {

// Beyond these a figure is a mistake, and the engine's whole numbers would overflow.
constexpr double kMostFlops = 1e18, kMostBytes = 1e15;

std::uint64_t whole(const std::string& kernel, const char* what, double value, double most) {
  if (value >= 0 && value <= most) return static_cast<std::uint64_t>(std::llround(value));
  throw Error(kernel + ": " + what + " = " + std::to_string(value) + " is outside of 0.." + std::to_string(most));
}

std::uint32_t next_launch_id() {
  static std::atomic<std::uint32_t> next{0};
  return next.fetch_add(1, std::memory_order_relaxed) % kLaunchIds;
}

CtaRoom room(const Gpu& gpu, const std::string& name, std::uint32_t threads, std::uint32_t registers,
             std::uint64_t shared_bytes) {
  try {
    return cta_room(gpu, name, threads, registers, shared_bytes);
  } catch (const std::invalid_argument& error) {
    throw Error(error.what());
  }
}

void fill(Op& op, const Gpu& gpu, const GridWork& work) {
  op.kind = OpKind::grid;
  op.name = work.name;
  op.launch_id = next_launch_id();
  op.epoch = work.epoch;
  op.gap_ps = gpu.stream_gap_ps;
  op.buffer_bytes = work.collective ? work.bytes_in_flight : 0;
  op.room = room(gpu, work.name, work.threads_per_cta,
                 work.registers_per_thread != 0 ? work.registers_per_thread : gpu.grid_registers_per_thread,
                 work.shared_bytes_per_cta);
  op.room.computes = false;
  op.ctas = work.ctas;
  if (work.ctas == 0) throw Error(work.name + ": a grid has at least one CTA");
  SmArray empty(gpu);
  std::uint32_t at_once = 0;
  for (const Placed& placed : empty.place(op.room, work.ctas)) at_once += placed.ctas;
  if (work.collective && at_once < work.ctas) {
    throw Error(work.name + ": its " + std::to_string(work.ctas) + " CTAs wait for each other, but only " +
                std::to_string(at_once) + " of them fit on a " + gpu.name + " at once");
  }
  op.ctas = at_once;
}

void fill(Op& op, const Gpu& gpu, const KernelWork& work) {
  op.kind = OpKind::kernel;
  op.name = work.name;
  op.gap_ps = gpu.stream_gap_ps;
  op.flops = whole(work.name, "flops", work.flops, kMostFlops);
  op.bytes = whole(work.name, "bytes_read", work.bytes_read, kMostBytes) +
             whole(work.name, "bytes_written", work.bytes_written, kMostBytes);
  if (work.ctas == 0) throw Error(work.name + ": a kernel has at least one CTA");
  op.ctas = work.ctas;
  op.room = room(gpu, work.name, work.threads_per_cta, work.registers_per_thread, work.shared_bytes_per_cta);
}

void fill(Op& op, const Gpu& gpu, const CopyWork& work) {
  op.kind = OpKind::copy;
  op.name = work.name;
  op.gap_ps = gpu.copy_start_ps;
  op.host_ahead_ps += gpu.copy_start_ps;
  op.copy_kind = work.kind;
  const std::uint64_t bytes = whole(work.name, "bytes", static_cast<double>(work.bytes), kMostBytes);
  op.bytes = work.kind == CopyKind::within_device ? 2 * bytes : bytes;
  if (work.link_bytes_per_s != 0) {
    op.duration_ps = static_cast<std::uint64_t>(static_cast<unsigned __int128>(bytes) * kPsPerS /
                                                work.link_bytes_per_s);
  }
}

void fill(Op& op, const Gpu&, const EventRecord&) { op.name = "event record"; }
void fill(Op& op, const Gpu&, const EventWait&) { op.name = "event wait"; }
void fill(Op& op, const Gpu&, const GraphLaunch&) { op.name = "graph launch"; }
void fill(Op& op, const Gpu& gpu, const HostFunction&) {
  op.kind = OpKind::host_function;
  op.name = "host function";
  op.duration_ps = gpu.host_function_ps;
}

}  // namespace

void set_work(Op& op, const Gpu& gpu, const Work& work) {
  std::visit([&](const auto& kind) { fill(op, gpu, kind); }, work);
}

}  // namespace hostcuda::clock
