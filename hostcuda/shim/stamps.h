// SPDX-License-Identifier: Apache-2.0
// Virtual time in device code. Every store that another thread may wait for leaves its time in the shadow of the place
// it writes; whoever waits takes the later of its own time and the stamp's plus the latency of the link in between.
// Times count from the start of each rank's grid; absolute arrivals travel beside them. Integer picoseconds
// throughout, and no time ever depends on how often something was polled.
#pragma once

#include <emmintrin.h>

#include <cstdint>

#include "clock/clock.h"
#include "runtime/multicast_page.h"
#include "runtime/va.h"
#include "simt/device_thread.h"

namespace hostcuda::shim {

// 16 bytes: {epoch:16 | time_ps:48, arrival_ps}. One aligned access, so that a reader never sees half of one.
typedef long long StampWords __attribute__((vector_size(16), may_alias));

inline constexpr unsigned kEpochShift = 48;
inline constexpr std::uint64_t kTimeMask = (std::uint64_t{1} << kEpochShift) - 1;

// What lies behind a multicast address; ends the grid where that is nothing.
inline const rt::MulticastPage& multicast_page(const void* address) {
  const rt::MulticastPage* page = rt::is_multicast(address) ? hostcuda_multicast_page(address) : nullptr;
  if (page == nullptr) simt::device_fail("a multimem instruction on an address that is no multicast address");
  if (page->error != nullptr) simt::device_fail(page->error);
  return *page;
}

// A counter's shadow keeps the times of its last values: a reader may find a later value than the one it needs. Where
// data waits for each other, no writer runs further ahead than the FIFO's eight steps. Steps without data wait for
// nothing, and an all-reduce of less than an element a rank has 2 (ranks - 1) of them in a row. NCCL gives each counter
// a page, so there is room.
inline constexpr std::uint64_t kCounterHistory = 64;
// Except for NVLink SHARP, whose counters stand 32 bytes apart at the start of memory that is bound to a multicast
// object. There the shadow of a 2 MiB page has room for those of its first 64 KiB.
inline constexpr std::uint64_t kDenseCounterBytes = 32;
inline constexpr std::uint64_t kDenseCounters = rt::kPageBytes / (kCounterHistory * sizeof(StampWords));

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

// The same where the line goes to all members of a multicast address.
inline void write_line_stamps(const rt::MulticastPage& page, char* line) {
  const StampWords stamp = stamp_now(hostcuda_device_thread, line);
  for (unsigned i = 0; i < page.members; ++i) put_stamp(rt::shadow_of(line + page.distance[i]), stamp);
}

// After the line was loaded. An old line has an old stamp, so polling it changes nothing.
[[gnu::always_inline]] inline void read_line_stamp(const void* line) {
  if (rt::page_owner(line) == rt::kOwnerNone) return;
  take_stamp(hostcuda_device_thread, line, rt::shadow_of(line));
}

// ---- step counters (head, tail) ----

[[gnu::always_inline]] inline char* counter_entry(const void* counter, std::uint64_t value, bool dense) {
  auto* shadow = static_cast<char*>(rt::shadow_of(counter));
  if (dense) {
    const std::uint64_t in_page = reinterpret_cast<std::uintptr_t>(counter) % rt::kPageBytes;
    const std::uint64_t which = in_page / kDenseCounterBytes;
    if (which >= kDenseCounters) simt::device_fail("a step counter beyond the first 64 KiB of memory bound to multicast");
    shadow += which * kCounterHistory * sizeof(StampWords) - in_page;
  }
  return shadow + value % kCounterHistory * sizeof(StampWords);
}

inline void put_counter_stamps(const void* counter, std::uint64_t value, StampWords stamp, bool dense) {
  std::uint64_t before = *static_cast<const volatile std::uint64_t*>(counter);
  std::uint64_t first = value - before > kCounterHistory ? value - kCounterHistory + 1 : before + 1;
  for (std::uint64_t v = first; v <= value; ++v) put_stamp(counter_entry(counter, v, dense), stamp);
}

// Before the only writer of `counter` stores `value`. Skipped values were reached at the same time.
inline void counter_stored(const volatile void* counter, std::uint64_t value) {
  const void* address = const_cast<const void*>(counter);
  const std::uint8_t owner = rt::page_owner(address);
  if (owner == rt::kOwnerNone) return;
  StampWords stamp = stamp_now(hostcuda_device_thread, address);
  if (owner != rt::kOwnerMulticast) return put_counter_stamps(address, value, stamp, rt::is_bound(owner));
  const rt::MulticastPage& page = multicast_page(address);
  for (unsigned i = 0; i < page.members; ++i) {
    put_counter_stamps(static_cast<const char*>(address) + page.distance[i], value, stamp, true);
  }
}

// The same and the store itself, where it is a plain one.
inline void store_counter(volatile std::uint64_t* counter, std::uint64_t value) {
  counter_stored(counter, value);
  if (!rt::is_multicast(const_cast<const std::uint64_t*>(counter))) {
    *counter = value;
    return;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(counter);
  const rt::MulticastPage& page = multicast_page(const_cast<const std::uint64_t*>(counter));
  for (unsigned i = 0; i < page.members; ++i) {
    *reinterpret_cast<volatile std::uint64_t*>(address + std::uintptr_t(page.distance[i])) = value;
  }
}

// After a wait until `counter` had reached `needed`, whether or not the wait had to look. While a FIFO is new its first
// slots are free without anybody saying so: what is needed is not above 0, and that entry is a later value's. A multicast
// counter has reached it when the last member's has.
inline void counter_waited(const volatile void* counter, std::uint64_t needed) {
  if (std::int64_t(needed) <= 0) return;
  const void* address = const_cast<const void*>(counter);
  const std::uint8_t owner = rt::page_owner(address);
  if (owner == rt::kOwnerNone) return;
  simt::DeviceThread* self = hostcuda_device_thread;
  if (owner != rt::kOwnerMulticast) {
    return take_stamp(self, address, counter_entry(address, needed, rt::is_bound(owner)));
  }
  const rt::MulticastPage& page = multicast_page(address);
  for (unsigned i = 0; i < page.members; ++i) {
    take_stamp(self, address, counter_entry(static_cast<const char*>(address) + page.distance[i], needed, true));
  }
}

// ---- bytes ----

// What `threads` threads together load and store in one go, and how much of it crosses links. Every one of them
// calls with the same figures and takes the same time; one of them counts.
//
// Through a multicast address of n members a load of B bytes brings B in, and a store sends B out. But the others load
// and store as well at the same time, each its share, and this GPU answers all of them: n B go out for the loads and n B
// come in for the stores. Its memory sees n B too.
struct Traffic {
  std::uint64_t loaded = 0, stored = 0;                    // by the CTA
  std::uint64_t answered_loads = 0, answered_stores = 0;   // by this GPU's memory, for the other members
  std::uint64_t linked[clock::kLinkClasses] = {};          // by class of link
  std::uint64_t from_switch = 0, to_switch = 0;            // over NVLink, through multicast addresses

  [[gnu::always_inline]] void load(const simt::DeviceThread* self, const void* from, std::uint64_t bytes) {
    loaded += bytes;
    if (rt::is_multicast(from)) return load_multicast(multicast_page(from).members, bytes);
    linked[link_class(self, from)] += bytes;
  }
  [[gnu::always_inline]] void store(const simt::DeviceThread* self, const void* to, std::uint64_t bytes) {
    stored += bytes;
    if (rt::is_multicast(to)) return store_multicast(multicast_page(to).members, bytes);
    linked[link_class(self, to)] += bytes;
  }
  void load_multicast(unsigned members, std::uint64_t bytes) {
    from_switch += bytes;
    to_switch += bytes * members;
    answered_loads += bytes * (members - 1);
  }
  void store_multicast(unsigned members, std::uint64_t bytes) {
    to_switch += bytes;
    from_switch += bytes * members;
    answered_stores += bytes * (members - 1);
  }
};

inline std::uint64_t traffic_ps(const clock::LaunchClock& clock, const Traffic& traffic, unsigned threads) {
  std::uint64_t most = clock::copy_ps(clock, traffic.loaded, traffic.stored, threads);
  for (int c = 1; c < int(clock::kLinkClasses); ++c) {
    std::uint64_t bytes = traffic.linked[c];
    if (c == rt::kLinkNvlink) bytes += traffic.from_switch > traffic.to_switch ? traffic.from_switch : traffic.to_switch;
    if (!bytes) continue;
    std::uint64_t link = clock::link_ps(clock, c, bytes);
    if (link > most) most = link;
  }
  return most;
}

inline void charge(simt::DeviceThread* self, const Traffic& traffic, unsigned threads, bool counts) {
  self->vt_ps += traffic_ps(*self->view->clock, traffic, threads);
  if (counts) {
    self->view->bytes_loaded += traffic.loaded + traffic.answered_loads;
    self->view->bytes_stored += traffic.stored + traffic.answered_stores;
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
