// SPDX-License-Identifier: Apache-2.0
#include "runtime/bytes.h"

#include <fcntl.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "runtime/error.h"
#include "runtime/memory_map.h"
#include "runtime/multicast.h"
#include "simt/guarded.h"

namespace hostcuda::rt {
namespace {

constexpr std::uint64_t kZeroByDiscardBytes = 256 << 10;  // below, a system call costs more than the writes
constexpr std::uint64_t kSystemPageBytes = 4096;

// Zeroes memory of the window by giving its pages back; false where the address is none that a file lies behind.
bool zero_by_discard(unsigned char* at, std::uint64_t bytes) {
  std::shared_ptr<Physical> mapped;
  std::uint64_t offset;
  {
    MemoryMap& map = memory_map();
    std::lock_guard<std::mutex> guard(map.lock);
    const auto found = map.around(at);
    if (found == map.entries.end()) return false;
    mapped = found->second.physical;
    const std::uint64_t inside = reinterpret_cast<std::uint64_t>(at) - found->first;
    offset = (mapped ? mapped->offset : found->first - kWindowBase) + inside;
  }
  const Arena& arena = mapped ? *mapped->arena : Arena::own();
  const std::uint64_t head = (kSystemPageBytes - offset % kSystemPageBytes) % kSystemPageBytes;
  const std::uint64_t body = (bytes - head) / kSystemPageBytes * kSystemPageBytes;
  touch([&] { std::memset(at, 0, head); });
  ::fallocate(arena.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset + head),
              static_cast<off_t>(body));
  touch([&] { std::memset(at + head + body, 0, bytes - head - body); });
  return true;
}

}  // namespace

void touch(const std::function<void()>& work) {
  if (const void* at; simt::faults(work, &at)) {
    std::array<char, 64> why{};
    std::snprintf(why.data(), why.size(), "illegal memory address %p", at);
    throw std::runtime_error(why.data());
  }
}

void copy_bytes(void* to, const void* from, std::uint64_t bytes) {
  if (!is_multicast(to)) {
    touch([&] { std::memmove(to, from, bytes); });
  } else if (!multicast_write(to, from, bytes)) {
    complain("copy to a multicast address: %s", hostcuda_multicast_page(to)->error);
  }
}

void fill(void* address, std::uint32_t value, unsigned value_bytes, std::uint64_t bytes) {
  auto* at = static_cast<unsigned char*>(address);
  const bool everywhere = is_multicast(address);
  if (value == 0 && bytes >= kZeroByDiscardBytes && in_window(address) && !everywhere && zero_by_discard(at, bytes)) {
    return;
  }
  if (value_bytes == 1 && !everywhere) {
    touch([&] { std::memset(at, static_cast<int>(value), bytes); });
    return;
  }
  const auto fill_by = [&](auto write) {
    for (std::uint64_t done = 0; done + value_bytes <= bytes; done += value_bytes) write(at + done);
  };
  if (everywhere) {
    fill_by([&](void* to) { copy_bytes(to, &value, value_bytes); });
  } else {
    touch([&] { fill_by([&](void* to) { std::memcpy(to, &value, value_bytes); }); });
  }
}

}  // namespace hostcuda::rt
