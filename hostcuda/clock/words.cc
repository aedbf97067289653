// SPDX-License-Identifier: Apache-2.0
#include "clock/words.h"

#include <map>
#include <mutex>
#include <unordered_map>

#include "clock/timeline.h"

namespace hostcuda::clock {
namespace {

constexpr std::uint64_t kTag = std::uint64_t{1} << 63;

std::mutex g_mutex;
std::map<std::uint64_t*, std::size_t>& ranges() {  // words by first word
  static auto* made = new std::map<std::uint64_t*, std::size_t>;  // never freed: kernels may outlive static objects
  return *made;
}

std::uint64_t absolute_ns(const PlacedLaunch& launch, std::uint64_t relative_ns) {
  const auto relative_ps = static_cast<unsigned __int128>(relative_ns) * 1000;
  if (launch.alone_ps == 0) return (launch.begin_ps + relative_ns * 1000) / 1000;
  // A grid that was slowed down is stretched evenly.
  const auto since_begin = relative_ps * (launch.end_ps - launch.begin_ps) / launch.alone_ps;
  return static_cast<std::uint64_t>((launch.begin_ps + since_begin) / 1000);
}

}  // namespace

void register_device_times(void* base, std::size_t bytes) {
  auto* first = static_cast<std::uint64_t*>(base);
  if (base == nullptr || bytes == 0 || bytes % 8 != 0 || reinterpret_cast<std::uintptr_t>(base) % 8 != 0) {
    throw Error("a range of device times is one or more aligned words of 8 bytes");
  }
  const std::lock_guard lock(g_mutex);
  const auto next = ranges().lower_bound(first);
  const bool overlaps_next = next != ranges().end() && next->first < first + bytes / 8;
  const bool overlaps_previous = next != ranges().begin() && [&] {
    const auto previous = std::prev(next);
    return previous->first + previous->second > first;
  }();
  if (overlaps_next || overlaps_previous) throw Error("a range of device times overlaps one that is registered");
  ranges().emplace(first, bytes / 8);
}

bool unregister_device_times(void* base) {
  const std::lock_guard lock(g_mutex);
  return ranges().erase(static_cast<std::uint64_t*>(base)) != 0;
}

void forget_device_times(std::uint64_t address, std::size_t bytes) {
  const std::lock_guard lock(g_mutex);
  auto* const end = reinterpret_cast<std::uint64_t*>(address + bytes);
  const auto first = ranges().lower_bound(reinterpret_cast<std::uint64_t*>(address));
  ranges().erase(first, ranges().lower_bound(end));
}

void correct_device_times(const std::vector<PlacedLaunch>& launches) {
  const std::lock_guard lock(g_mutex);
  if (launches.empty() || ranges().empty()) return;
  std::unordered_map<std::uint64_t, const PlacedLaunch*> by_id;
  for (const PlacedLaunch& launch : launches) by_id[launch.launch_id] = &launch;
  for (const auto& [first, words] : ranges()) {
    for (std::uint64_t* word = first; word != first + words; ++word) {
      std::uint64_t found = __atomic_load_n(word, __ATOMIC_RELAXED);
      if ((found & kTag) == 0) continue;
      const auto launch = by_id.find(found >> kWordNsBits & (kLaunchIds - 1));
      if (launch == by_id.end()) continue;
      const std::uint64_t ns = found & ((std::uint64_t{1} << kWordNsBits) - 1);
      // Fails only where device code has just stored another word, which is not of these launches: they are over.
      __atomic_compare_exchange_n(word, &found, absolute_ns(*launch->second, ns), false, __ATOMIC_RELEASE,
                                  __ATOMIC_RELAXED);
    }
  }
}

}  // namespace hostcuda::clock
