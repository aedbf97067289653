// SPDX-License-Identifier: Apache-2.0
// What the rewriter's anchors in NCCL's device code call: giving way, line accesses with stamps, charging bytes.
#pragma once

#include <cstdint>

#include "shim/ptx.h"
#include "shim/stamps.h"
#include "simt/device_thread.h"

namespace hostcuda::shim {

// A wait loop looks at the abort flag this often. Few polls, because an idle executor sleeps between them.
inline constexpr int kPollsBeforeAbortCheck = 64;

// One turn of a wait loop whose count is `spins` (0 on entry). The first turn gives way to nobody: most waits find
// what they need, and a loop's first turn also shows that the thread got out of the one before. True where it is time
// to look at the abort flag.
template <class Count>
[[gnu::always_inline]] inline bool poll(Count& spins) {
  if (spins == 0) {
    spins = 1;
    simt::note_progress();
    return false;
  }
  simt::poll_yield();
  if (++spins <= kPollsBeforeAbortCheck) return false;
  spins = 1;
  return true;
}

// The same inside of a loop that ends in a warp vote, which gives way itself.
[[gnu::always_inline]] inline bool poll_in_warp(int& spins) {
  if (spins == 0) {
    spins = 1;
    simt::note_progress();
    return false;
  }
  hostcuda_device_thread->polling = true;
  if (++spins <= kPollsBeforeAbortCheck) return false;
  spins = 1;
  return true;
}

// Wait loops that count nothing.
[[gnu::always_inline]] inline void poll_unchecked() { simt::poll_yield(); }

[[gnu::always_inline]] inline void load_line128(const std::uint64_t* line, std::uint64_t& v0, std::uint64_t& v1) {
  Vector16 both = load16_indivisible(reinterpret_cast<const char*>(line));
  read_line_stamp(line);
  v0 = std::uint64_t(both[0]);
  v1 = std::uint64_t(both[1]);
}
[[gnu::always_inline]] inline void store_line128(std::uint64_t* line, std::uint64_t v0, std::uint64_t v1) {
  write_line_stamp(line);
  store16_indivisible(reinterpret_cast<char*>(line), Vector16{(long long)v0, (long long)v1});
}

// All bytes of one reduceCopy call. Threads of the call are `threads`; each of them calls.
template <class Sources, class Destinations>
inline void charge_copy(int thread, int threads, int sources, const Sources& source, int destinations,
                        const Destinations& destination, std::int64_t bytes) {
  if (bytes <= 0) return;
  simt::DeviceThread* self = hostcuda_device_thread;
  Traffic traffic;
  for (int s = 0; s < sources; ++s) traffic.load(self, source(s), std::uint64_t(bytes));
  for (int d = 0; d < destinations; ++d) traffic.store(self, destination(d), std::uint64_t(bytes));
  charge(self, traffic, unsigned(threads), thread == 0);
}

// What one line of LL or one slice of LL128 costs: every one of `threads` threads moves the bytes given here, so
// together they move as many times that. Worked out once a call of the primitive, because it is the same for each line.
class LineCost {
 public:
  explicit LineCost(int threads) : self_(hostcuda_device_thread), threads_(unsigned(threads)) {}
  void load(const void* from, std::uint64_t bytes) { traffic_.load(self_, from, bytes * threads_); }
  void store(const void* to, std::uint64_t bytes) { traffic_.store(self_, to, bytes * threads_); }
  void settle() {
    ps_ = traffic_ps(*self_->view->clock, traffic_, threads_);
    loaded_ = traffic_.loaded / threads_;
    stored_ = traffic_.stored / threads_;
  }
  [[gnu::always_inline]] void pay() const {
    self_->vt_ps += ps_;
    self_->view->bytes_loaded += loaded_;
    self_->view->bytes_stored += stored_;
  }

 private:
  simt::DeviceThread* self_;
  unsigned threads_;
  std::uint64_t ps_ = 0, loaded_ = 0, stored_ = 0;
  Traffic traffic_;
};

}  // namespace hostcuda::shim
