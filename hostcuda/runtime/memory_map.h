// SPDX-License-Identifier: Apache-2.0
// The record of what lies at which address, shared by the files that allocate, map, import and look up memory; nobody
// else needs it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/memory.h"
#include "runtime/virtual_memory.h"

namespace hostcuda::rt {

class Multicast;  // runtime/multicast.h

struct MemoryMap {
  struct Entry {
    MemoryKind kind;
    int device;
    std::uint64_t bytes;
    unsigned flags = 0;
    std::shared_ptr<Physical> physical;    // vmm and imported: keeps what is mapped alive
    unsigned opened = 0;                   // imported: times that it was opened
    std::shared_ptr<Multicast> multicast;  // multicast: likewise
  };
  using Entries = std::map<std::uint64_t, Entry>;  // by address

  std::mutex lock;  // of everything here, the driver's handles and its reserved addresses
  Entries entries;

  // With the lock held. The entry that holds the address, or the end.
  Entries::iterator around(const void* address);
  // With the lock held. Whether nothing lies in the range.
  bool is_free(std::uint64_t address, std::uint64_t bytes);
};

MemoryMap& memory_map();

}  // namespace hostcuda::rt
