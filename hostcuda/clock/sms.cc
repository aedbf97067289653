// SPDX-License-Identifier: Apache-2.0
#include "clock/sms.h"

#include <algorithm>
#include <stdexcept>

namespace hostcuda::clock {
namespace {

// Granularity in which an SM hands out its room, compute capability 8.0 to 9.0 (CUDA programming guide and occupancy
// calculator).
constexpr std::uint32_t kWarp = 32, kRegistersPerWarpUnit = 256;
constexpr std::uint64_t kSharedUnit = 128;

template <typename T>
T rounded_up(T value, T unit) {
  return (value + unit - 1) / unit * unit;
}

// How often `unit` goes into what is left of `limit`.
template <typename T>
std::uint64_t times(T limit, T used, T unit) {
  if (used >= limit) return 0;
  return unit == 0 ? UINT32_MAX : (limit - used) / unit;
}

}  // namespace

CtaRoom cta_room(const Gpu& gpu, const std::string& name, std::uint32_t threads, std::uint32_t registers_per_thread,
                 std::uint64_t shared_bytes) {
  const auto refuse = [&](const char* what, std::uint64_t asked, std::uint64_t most) {
    throw std::invalid_argument(name + ": a CTA with " + std::to_string(asked) + " " + what +
                                " fits on no SM of a " + gpu.name + ", which has room for " + std::to_string(most));
  };
  if (threads == 0) throw std::invalid_argument(name + ": a CTA has at least one thread");
  CtaRoom room;
  room.threads = rounded_up(threads, kWarp);
  room.registers = room.threads / kWarp * rounded_up(registers_per_thread * kWarp, kRegistersPerWarpUnit);
  room.shared_bytes = rounded_up(shared_bytes, kSharedUnit) + gpu.shared_bytes_reserved;
  if (room.threads > gpu.threads_per_sm) refuse("threads", threads, gpu.threads_per_sm);
  if (room.registers > gpu.registers_per_sm) refuse("registers", room.registers, gpu.registers_per_sm);
  if (shared_bytes > gpu.shared_bytes_per_cta) refuse("bytes of shared memory", shared_bytes, gpu.shared_bytes_per_cta);
  return room;
}

SmArray::SmArray(const Gpu& gpu) : gpu_(&gpu), sms_(gpu.sms), fits_(gpu.sms) {}

std::uint32_t SmArray::fitting(const Sm& sm, const CtaRoom& room) const {
  return static_cast<std::uint32_t>(std::min({times(gpu_->threads_per_sm, sm.threads, room.threads),
                                              times(gpu_->registers_per_sm, sm.registers, room.registers),
                                              times(gpu_->shared_bytes_per_sm, sm.shared_bytes, room.shared_bytes),
                                              times(gpu_->ctas_per_sm, sm.ctas, 1u)}));
}

Placement SmArray::place(const CtaRoom& room, std::uint32_t want) {
  std::uint64_t possible = 0;
  std::uint32_t lowest = UINT32_MAX;
  for (std::size_t i = 0; i < sms_.size(); ++i) {
    fits_[i] = fitting(sms_[i], room);
    possible += fits_[i];
    if (fits_[i] > 0) lowest = std::min(lowest, sms_[i].ctas);
  }
  if (possible == 0 || want == 0) return {};
  const std::uint64_t wanted = std::min<std::uint64_t>(possible, want);

  // SMs fill up evenly: each gets CTAs until it holds `level` of them or has no room.
  const auto taken = [&](std::size_t i, std::uint32_t level) {
    return level > sms_[i].ctas ? std::min(fits_[i], level - sms_[i].ctas) : 0;
  };
  const auto total = [&](std::uint32_t level) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < sms_.size(); ++i) sum += taken(i, level);
    return sum;
  };
  std::uint32_t level = lowest + 1;
  while (total(level) < wanted) ++level;
  std::uint64_t left_at_top = wanted - total(level - 1);

  Placement placement;
  for (std::size_t i = 0; i < sms_.size(); ++i) {
    std::uint32_t ctas = taken(i, level - 1);
    if (left_at_top > 0 && taken(i, level) > ctas) {
      ++ctas;
      --left_at_top;
    }
    if (ctas > 0) placement.push_back({static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(ctas)});
  }
  take(room, placement);
  return placement;
}

void SmArray::take(const CtaRoom& room, const Placement& placement) {
  for (const Placed& placed : placement) {
    Sm& sm = sms_[placed.sm];
    sm.threads += room.threads * placed.ctas;
    sm.registers += room.registers * placed.ctas;
    sm.shared_bytes += room.shared_bytes * placed.ctas;
    sm.ctas += placed.ctas;
    if (room.computes) sm.computing += placed.ctas;
  }
}

void SmArray::release(const CtaRoom& room, const Placement& placement) {
  for (const Placed& placed : placement) {
    Sm& sm = sms_[placed.sm];
    sm.threads -= room.threads * placed.ctas;
    sm.registers -= room.registers * placed.ctas;
    sm.shared_bytes -= room.shared_bytes * placed.ctas;
    sm.ctas -= placed.ctas;
    if (room.computes) sm.computing -= placed.ctas;
  }
}

}  // namespace hostcuda::clock
