// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory_map.h"

namespace hostcuda::rt {

MemoryMap& memory_map() {
  static MemoryMap* map = new MemoryMap;  // never freed: other libraries free device memory while the process ends
  return *map;
}

MemoryMap::Entries::iterator MemoryMap::around(const void* address) {
  const auto at = reinterpret_cast<std::uint64_t>(address);
  auto found = entries.upper_bound(at);
  if (found == entries.begin()) return entries.end();
  --found;
  return at - found->first < found->second.bytes ? found : entries.end();
}

bool MemoryMap::is_free(std::uint64_t address, std::uint64_t bytes) {
  const auto next = entries.lower_bound(address);
  return around(reinterpret_cast<void*>(address)) == entries.end() &&
         (next == entries.end() || next->first - address >= bytes);
}

}  // namespace hostcuda::rt
