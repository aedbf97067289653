// SPDX-License-Identifier: Apache-2.0
// The pages of this process's memory file and the addresses of the window: who has which of them. Every use of memory
// takes its pages here.
//
// The lower half of the window shows our own file page by page, so that ordinary allocations need no mapping of their
// own. Peers' memory and the driver's mappings take addresses from the upper half.
#pragma once

#include <cstdint>

#include "runtime/arena.h"

namespace hostcuda::rt {

inline constexpr int kHostMemory = -1;  // where a device number stands for pinned host memory

constexpr std::uint64_t whole_pages(std::uint64_t bytes) { return (bytes + kPageBytes - 1) >> kPageShift; }

// The owner by its number in hostcuda_page_owner, and all pages of a range marked as its.
std::uint8_t owner_of(int device);
void set_owner(std::uint64_t address, std::uint64_t bytes, std::uint8_t owner);

// Pages of our own file for `device`, with their record; ~0 where its memory or the window is used up.
std::uint64_t take_file_pages(int device, std::uint64_t bytes);
// A peer that has the memory open keeps it: its pages are used for nothing else before the peer has closed it or ended.
void give_file_pages(std::uint64_t offset, std::uint64_t bytes, int device);

// The device (or kHostMemory) by our own numbers of what a peer's file holds at `offset`; false where there is nothing.
bool describe(const Arena& arena, std::uint64_t offset, PageRecord* record, int* device);

// Whole pages of addresses in the window's upper half; 0 where they are used up.
std::uint64_t take_addresses(std::uint64_t bytes, std::uint64_t alignment);
void give_addresses(std::uint64_t address, std::uint64_t bytes);

// As far as this process uses it.
void device_memory(int device, std::uint64_t* free_bytes, std::uint64_t* total_bytes);

}  // namespace hostcuda::rt
