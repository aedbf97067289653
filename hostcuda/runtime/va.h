// SPDX-License-Identifier: Apache-2.0
// Where memory lies. All memory that a device may touch lies in one window of the address space, and every byte of it
// has a shadow at a fixed distance, in which the clock leaves the times of flags and counters. Device code reads this
// file's facts inline, millions of times a second, so they are constants and one flat table.
#pragma once

#include <cstddef>
#include <cstdint>

#define HOSTCUDA_SHADOW_DISTANCE (std::uint64_t{1} << 44)

// One byte a page of 2 MiB of the window: who owns the memory behind it.
extern "C" __attribute__((visibility("default"))) std::uint8_t hostcuda_page_owner[];

namespace hostcuda::rt {

// 17 TiB: what AddressSanitizer keeps for itself ends 2 GiB past 16 TiB.
inline constexpr std::uint64_t kWindowBase = std::uint64_t{17} << 40;
// Half of it is for mappings: NCCL reserves as much as all GPUs of a host have for each communicator with windows.
inline constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 43;
inline constexpr unsigned kPageShift = 21;
inline constexpr std::uint64_t kPageBytes = std::uint64_t{1} << kPageShift;
inline constexpr std::uint64_t kWindowPages = kWindowBytes >> kPageShift;

inline constexpr std::uint8_t kOwnerNone = 0;    // not memory, or memory without a shadow
inline constexpr std::uint8_t kOwnerHost = 255;  // pinned host memory; devices are 1 + their number on the machine
inline constexpr int kMostDevices = 64;          // of a machine; NCCL's own tables end at 32
// A device's memory that is bound to a multicast object has this added to its owner. Step counters lie close together
// there, and their shadows are laid out differently (shim/stamps.h).
inline constexpr std::uint8_t kOwnerBound = kMostDevices;
inline constexpr std::uint8_t kOwnerMulticast = 254;  // a multicast address: runtime/multicast_page.h

enum LinkClass : std::uint8_t { kLinkLocal = 0, kLinkHost = 1, kLinkNvlink = 2, kLinkPcie = 3 };

inline bool in_window(const void* p) { return reinterpret_cast<std::uintptr_t>(p) - kWindowBase < kWindowBytes; }

inline std::uint8_t page_owner(const void* p) {
  const std::uint64_t offset = reinterpret_cast<std::uintptr_t>(p) - kWindowBase;
  return offset < kWindowBytes ? hostcuda_page_owner[offset >> kPageShift] : kOwnerNone;
}

inline bool is_bound(std::uint8_t owner) { return owner > kOwnerBound && owner <= 2 * kOwnerBound; }
inline bool is_multicast(const void* p) { return page_owner(p) == kOwnerMulticast; }

// The stamp of `p`; only where page_owner(p) is not kOwnerNone.
inline void* shadow_of(const void* p) {
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(p) + HOSTCUDA_SHADOW_DISTANCE);
}

// How device `device` (its number on the machine) reaches memory of each owner: 256 entries, indexed by page_owner.
// kOwnerNone is host memory.
__attribute__((visibility("default"))) const std::uint8_t* link_classes(int device);

}  // namespace hostcuda::rt
