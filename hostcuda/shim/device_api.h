// SPDX-License-Identifier: Apache-2.0
// Force-included after device.h in units that are built on NCCL's device API (the symmetric kernels): what that needs
// beyond the other kernels, and what the rewriter's anchors in it call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/nccl.h"

// Hints to nvcc's optimizer.
#define __builtin_assume(condition) ((void)0)

template <class T>
inline T __ldcs(const T* p) { return *p; }
template <class T>
inline void __stcs(T* p, hostcuda::shim::Plain<T> value) { *p = value; }
template <class T>
inline void __stwt(T* p, hostcuda::shim::Plain<T> value) { *p = value; }
inline void __barrier_sync_count(unsigned barrier, unsigned threads) { ::hostcuda::simt::block_sync(barrier, threads); }

namespace hostcuda::shim {

// Shared memory through which threads of a CTA hand each other a value: one place a named barrier, one for all of the
// CTA. Kernels on the device API declare no other static shared memory.
inline constexpr std::size_t kStashBytes = 16 * 16;
[[gnu::always_inline]] inline char* stash() { return hostcuda_device_thread->static_shared; }

// ---- barriers between ranks: one word a sender, each in a line of its own ----

// Nobody is more than one barrier ahead of a reader, so two values would do; a line's shadow has room for four.
inline constexpr std::uint32_t kInboxHistory = 4;

[[gnu::always_inline]] inline char* inbox_entry(const void* inbox, std::uint32_t value) {
  return static_cast<char*>(rt::shadow_of(inbox)) + value % kInboxHistory * sizeof(StampWords);
}

// Before the only writer of `inbox` stores `value`.
inline void inbox_stored(const std::uint32_t* inbox, std::uint32_t value) {
  if (rt::page_owner(inbox) == rt::kOwnerNone) return;
  put_stamp(inbox_entry(inbox, value), stamp_now(hostcuda_device_thread, inbox));
}

// After a wait until `inbox` had reached `needed`.
inline void inbox_waited(const std::uint32_t* inbox, std::uint32_t needed) {
  if (rt::page_owner(inbox) == rt::kOwnerNone) return;
  take_stamp(hostcuda_device_thread, inbox, inbox_entry(inbox, needed));
}

// The same for a barrier through a switch, where all ranks count up one word: each leaves its time in an inbox of its own
// at every rank. `release`: what was stored before the barrier has arrived everywhere.
template <class Inbox>
inline void inboxes_stored(int ranks, const Inbox& inbox, std::uint32_t value, bool release) {
  if (release) system_fence();
  for (int rank = 0; rank < ranks; ++rank) inbox_stored(inbox(rank), value);
}
template <class Inbox>
inline void inboxes_waited(int ranks, const Inbox& inbox, std::uint32_t needed) {
  for (int rank = 0; rank < ranks; ++rank) inbox_waited(inbox(rank), needed);
}

// ---- bytes ----

// One of `threads` threads that do the same loads (or stores) `lines` lines of 16 bytes of each peer.
template <bool Loads, class Place>
inline void charge_lines(int threads, int lines, int peers, const Place& place) {
  constexpr std::uint64_t kLineBytes = 16;
  LineCost cost(threads);
  for (int peer = 0; peer < peers; ++peer) {
    if constexpr (Loads)
      cost.load(place(peer), lines * kLineBytes);
    else
      cost.store(place(peer), lines * kLineBytes);
  }
  cost.settle();
  cost.pay();
}

}  // namespace hostcuda::shim
