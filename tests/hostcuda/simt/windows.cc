// SPDX-License-Identifier: Apache-2.0
// Stands in for the runtime's memory windows: the first pages of the window are mapped with their shadows, page 0
// belongs to device 0 and page 1 to device 1.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

#include "runtime/va.h"
#include "windows.h"

std::uint8_t hostcuda_page_owner[hostcuda::rt::kWindowPages];

namespace hostcuda::rt {

const std::uint8_t* link_classes(int device) {
  static std::uint8_t classes[2][256];
  for (int d = 0; d < 2; ++d) {
    for (int owner = 0; owner < 256; ++owner) classes[d][owner] = kLinkHost;
    classes[d][1 + d] = kLinkLocal;
    classes[d][2 - d] = kLinkNvlink;
  }
  return classes[device];
}

}  // namespace hostcuda::rt

char* map_windows() {
  using namespace hostcuda::rt;
  auto map = [](std::uint64_t at) {
    void* wanted = reinterpret_cast<void*>(at);
    void* got = mmap(wanted, 2 * kPageBytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
    if (got != wanted) {
      std::perror("mmap");
      std::exit(2);
    }
  };
  map(kWindowBase);
  map(kWindowBase + HOSTCUDA_SHADOW_DISTANCE);
  hostcuda_page_owner[0] = 1;
  hostcuda_page_owner[1] = 2;
  return reinterpret_cast<char*>(kWindowBase);
}
