// SPDX-License-Identifier: Apache-2.0
// Virtual time in device code. Every store that another thread may wait for leaves its time in the shadow of the place
// it writes; whoever waits takes the later of its own time and the stamp's plus the latency of the link in between.
// Times count from the start of each rank's grid; absolute arrivals travel beside them. Integer picoseconds
// throughout, and no time ever depends on how often something was polled.
#pragma once

#include <emmintrin.h>

#include <cstdint>

#include "clock/clock.h"
#include "runtime/va.h"
#include "simt/device_thread.h"

namespace hostcuda::shim {

// 16 bytes: {epoch:16 | time_ps:48, arrival_ps}. One aligned access, so that a reader never sees half of one.
typedef long long StampWords __attribute__((vector_size(16), may_alias));

inline constexpr unsigned kEpochShift = 48;
inline constexpr std::uint64_t kTimeMask = (std::uint64_t{1} << kEpochShift) - 1;
// A counter's shadow keeps the times of its last values: a reader may find a later value than the one it needs. Where
// data waits for each other, no writer runs further ahead than the FIFO's eight steps. Steps without data wait for
// nothing, and an all-reduce of less than an element a rank has 2 (ranks - 1) of them in a row. NCCL gives each counter
// a page, so there is room.
inline constexpr std::uint64_t kCounterHistory = 64;

[[gnu::always_inline]] inline std::uint8_t link_class(const simt::DeviceThread* self, const void* address) {
  return self->view->link_class_of_owner[rt::page_owner(address)];
}

[[gnu::always_inline]] inline StampWords stamp_now(const simt::DeviceThread* self, const void* address) {
  const clock::LaunchClock& clock = *self->view->clock;
  std::uint64_t when = self->vt_ps + clock.latency_ps[link_class(self, address)];
  return StampWords{(long long)(std::uint64_t{clock.epoch} << kEpochShift | (when & kTimeMask)),
                    (long long)self->arrival_ps};
}

[[gnu::always_inline]] inline void put_stamp(void* shadow, StampWords stamp) {
  *static_cast<volatile StampWords*>(shadow) = stamp;
}

// A stamp of another launch says nothing about this one.
[[gnu::always_inline]] inline void take_stamp(simt::DeviceThread* self, const void* address, const void* shadow) {
  StampWords stamp = *static_cast<const volatile StampWords*>(shadow);
  const clock::LaunchClock& clock = *self->view->clock;
  auto word = std::uint64_t(stamp[0]);
  if (word >> kEpochShift != clock.epoch) return;
  // A maximum and nothing else: stamps may be met in any order and any number of times.
  std::uint64_t when = (word & kTimeMask) + clock.latency_ps[link_class(self, address)] + clock.poll_ps;
  if (when > self->vt_ps) self->vt_ps = when;
  if (std::uint64_t(stamp[1]) > self->arrival_ps) self->arrival_ps = std::uint64_t(stamp[1]);
}

// ---- lines: data and flag in one access (LL, LL128) ----

// Before the line itself is stored.
[[gnu::always_inline]] inline void write_line_stamp(void* line) {
  if (rt::page_owner(line) == rt::kOwnerNone) return;
  put_stamp(rt::shadow_of(line), stamp_now(hostcuda_device_thread, line));
}

// After the line was loaded. An old line has an old stamp, so polling it changes nothing.
[[gnu::always_inline]] inline void read_line_stamp(const void* line) {
  if (rt::page_owner(line) == rt::kOwnerNone) return;
  take_stamp(hostcuda_device_thread, line, rt::shadow_of(line));
}

// ---- step counters (head, tail) ----

[[gnu::always_inline]] inline char* counter_entry(const volatile void* counter, std::uint64_t value) {
  auto* shadow = static_cast<char*>(rt::shadow_of(const_cast<const void*>(counter)));
  return shadow + value % kCounterHistory * sizeof(StampWords);
}

// Before the only writer of `counter` stores `value`. Skipped values were reached at the same time.
inline void counter_stored(const volatile void* counter, std::uint64_t value) {
  const void* address = const_cast<const void*>(counter);
  if (rt::page_owner(address) == rt::kOwnerNone) return;
  StampWords stamp = stamp_now(hostcuda_device_thread, address);
  std::uint64_t before = *static_cast<const volatile std::uint64_t*>(counter);
  std::uint64_t first = value - before > kCounterHistory ? value - kCounterHistory + 1 : before + 1;
  for (std::uint64_t v = first; v <= value; ++v) put_stamp(counter_entry(counter, v), stamp);
}

// After a wait until `counter` had reached `needed`, whether or not the wait had to look. While a FIFO is new its first
// slots are free without anybody saying so: what is needed is not above 0, and that entry is a later value's.
inline void counter_waited(const volatile void* counter, std::uint64_t needed) {
  if (std::int64_t(needed) <= 0) return;
  const void* address = const_cast<const void*>(counter);
  if (rt::page_owner(address) == rt::kOwnerNone) return;
  take_stamp(hostcuda_device_thread, address, counter_entry(counter, needed));
}

// ---- bytes ----

// What `threads` threads together load and store in one go, and how much of it crosses links. Every one of them
// calls with the same figures and takes the same time; one of them counts.
struct Traffic {
  std::uint64_t loaded = 0, stored = 0;
  std::uint64_t linked[clock::kLinkClasses] = {};  // by class of link

  [[gnu::always_inline]] void load(const simt::DeviceThread* self, const void* from, std::uint64_t bytes) {
    loaded += bytes;
    linked[link_class(self, from)] += bytes;
  }
  [[gnu::always_inline]] void store(const simt::DeviceThread* self, const void* to, std::uint64_t bytes) {
    stored += bytes;
    linked[link_class(self, to)] += bytes;
  }
};

inline std::uint64_t traffic_ps(const clock::LaunchClock& clock, const Traffic& traffic, unsigned threads) {
  std::uint64_t most = clock::copy_ps(clock, traffic.loaded, traffic.stored, threads);
  for (int c = 1; c < int(clock::kLinkClasses); ++c) {
    if (!traffic.linked[c]) continue;
    std::uint64_t link = clock::link_ps(clock, c, traffic.linked[c]);
    if (link > most) most = link;
  }
  return most;
}

inline void charge(simt::DeviceThread* self, const Traffic& traffic, unsigned threads, bool counts) {
  self->vt_ps += traffic_ps(*self->view->clock, traffic, threads);
  if (counts) {
    self->view->bytes_loaded += traffic.loaded;
    self->view->bytes_stored += traffic.stored;
  }
}

// A fence that other devices see waits until everything stored before has arrived.
[[gnu::always_inline]] inline void system_fence() {
  __sync_synchronize();
  simt::DeviceThread* self = hostcuda_device_thread;
  self->vt_ps += self->view->clock->fence_ps;
}

// ---- clocks that device code reads ----

// Bit 63, 23 bits of launch number, 40 bits of nanoseconds since the grid's start: absolute time is known only when
// the host synchronizes, and the clock then rewrites such words in registered ranges.
[[gnu::always_inline]] inline unsigned long long device_timer() {
  const simt::DeviceThread* self = hostcuda_device_thread;
  std::uint64_t launch = self->view->clock->launch_id & ((1u << 23) - 1);
  std::uint64_t ns = self->vt_ps / 1000 & ((std::uint64_t{1} << 40) - 1);
  return std::uint64_t{1} << 63 | launch << 40 | ns;
}

}  // namespace hostcuda::shim
