// SPDX-License-Identifier: Apache-2.0
// Stands in for the runtime's memory windows: the first pages of the window are mapped with their shadows, page 0
// belongs to device 0 and pages 1 and 2 to device 1. Page 3 is a multicast address of the first three, page 4 one whose
// members are missing.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

#include "runtime/multicast_page.h"
#include "windows.h"

std::uint8_t hostcuda_page_owner[hostcuda::rt::kWindowPages];

namespace hostcuda::rt {

const std::uint8_t* link_classes(int device) {
  static std::uint8_t classes[2][256];
  for (int d = 0; d < 2; ++d) {
    for (int owner = 0; owner < 256; ++owner) classes[d][owner] = kLinkHost;
    classes[d][1 + d] = kLinkLocal;
    classes[d][2 - d] = kLinkNvlink;
    classes[d][kOwnerBound + 1 + d] = kLinkLocal;
    classes[d][kOwnerBound + 2 - d] = kLinkNvlink;
    classes[d][kOwnerMulticast] = kLinkNvlink;
  }
  return classes[device];
}

}  // namespace hostcuda::rt

const hostcuda::rt::MulticastPage* hostcuda_multicast_page(const void* address) {
  using namespace hostcuda::rt;
  constexpr std::int64_t page = kPageBytes;
  static const MulticastPage all{nullptr, 0, nullptr, 3, {-3 * page, -2 * page, -page}};
  static const MulticastPage none{nullptr, 0, "members are missing", 0, {}};
  return reinterpret_cast<std::uint64_t>(address) - kWindowBase < 4 * kPageBytes ? &all : &none;
}

char* map_windows() {
  using namespace hostcuda::rt;
  auto map = [](std::uint64_t at) {
    void* wanted = reinterpret_cast<void*>(at);
    void* got = mmap(wanted, 3 * kPageBytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
    if (got != wanted) {
      std::perror("mmap");
      std::exit(2);
    }
  };
  map(kWindowBase);
  map(kWindowBase + HOSTCUDA_SHADOW_DISTANCE);
  hostcuda_page_owner[0] = 1;
  hostcuda_page_owner[1] = hostcuda_page_owner[2] = 2;
  hostcuda_page_owner[3] = hostcuda_page_owner[4] = kOwnerMulticast;
  return reinterpret_cast<char*>(kWindowBase);
}
