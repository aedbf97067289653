// SPDX-License-Identifier: Apache-2.0
// Addresses of this process that show multicast objects.
#include "runtime/multicast_page.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/multicast.h"

namespace hostcuda::rt {
namespace {

struct Shown {
  std::shared_ptr<Multicast> object;
  std::uint64_t at = 0, bytes = 0;                   // in the object
  std::vector<std::unique_ptr<MulticastPage>> made;  // some are outdated, but may still be in use
};

// Mappings take addresses from the upper half of the window.
constexpr std::uint64_t kFirstShown = kWindowBase + kWindowBytes / 2;
std::atomic<const MulticastPage*> g_pages[kWindowPages / 2];

std::mutex g_shown_lock;
std::map<std::uint64_t, Shown>& shown() {
  static auto* map = new std::map<std::uint64_t, Shown>;  // by address
  return *map;
}

std::atomic<const MulticastPage*>& page_slot(std::uint64_t address) {
  return g_pages[(address - kFirstShown) >> kPageShift];
}

const MulticastPage* make_page(std::uint64_t address) {
  static const MulticastPage nothing{nullptr, 0, "nothing is mapped at this multicast address", 0, {}};
  std::lock_guard<std::mutex> guard(g_shown_lock);
  const std::uint64_t page = address & ~(kPageBytes - 1);
  auto found = shown().upper_bound(page);
  if (found == shown().begin() || page - (--found)->first >= found->second.bytes) return &nothing;
  Shown& here = found->second;
  here.made.push_back(here.object->page(here.at + (page - found->first), page));
  page_slot(page).store(here.made.back().get(), std::memory_order_release);
  return here.made.back().get();
}

}  // namespace

void show_multicast(std::uint64_t address, std::uint64_t bytes, std::shared_ptr<Multicast> object, std::uint64_t at) {
  std::lock_guard<std::mutex> guard(g_shown_lock);
  shown()[address] = {std::move(object), at, bytes, {}};
}

void hide_multicast(std::uint64_t address) {
  Shown gone;  // let go after the lock
  std::lock_guard<std::mutex> guard(g_shown_lock);
  const auto found = shown().find(address);
  if (found == shown().end()) return;
  gone = std::move(found->second);
  shown().erase(found);
  for (std::uint64_t offset = 0; offset < gone.bytes; offset += kPageBytes) {
    auto& slot = page_slot(address + offset);
    if (slot.load() != nullptr) slot.store(nullptr);
  }
  const bool elsewhere = std::any_of(shown().begin(), shown().end(),
                                     [&](const auto& entry) { return entry.second.object == gone.object; });
  if (!elsewhere) gone.object->forget_members();
}

bool multicast_ready(const void* address, std::uint64_t bytes) {
  const auto first = reinterpret_cast<std::uint64_t>(address) & ~(kPageBytes - 1);
  for (std::uint64_t page = first; page < reinterpret_cast<std::uint64_t>(address) + bytes; page += kPageBytes) {
    if (hostcuda_multicast_page(reinterpret_cast<const void*>(page))->error != nullptr) return false;
  }
  return true;
}

bool multicast_write(void* to, const void* from, std::uint64_t bytes) {
  for (std::uint64_t done = 0; done < bytes;) {
    char* at = static_cast<char*>(to) + done;
    const std::uint64_t in_page = kPageBytes - reinterpret_cast<std::uint64_t>(at) % kPageBytes;
    const std::uint64_t now = std::min(bytes - done, in_page);
    const MulticastPage* page = hostcuda_multicast_page(at);
    if (page->error != nullptr) return false;
    for (unsigned i = 0; i < page->members; ++i) {
      std::memmove(at + page->distance[i], static_cast<const char*>(from) + done, now);
    }
    done += now;
  }
  return true;
}

}  // namespace hostcuda::rt

const hostcuda::rt::MulticastPage* hostcuda_multicast_page(const void* address) {
  using namespace hostcuda::rt;
  const auto at = reinterpret_cast<std::uint64_t>(address);
  const MulticastPage* page = page_slot(at).load(std::memory_order_acquire);
  if (page != nullptr && page->version_now->load(std::memory_order_acquire) == page->version) return page;
  return make_page(at);
}
