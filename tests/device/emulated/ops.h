// SPDX-License-Identifier: Apache-2.0
// The operations of lagom/device/kernels/ops.h on hostcuda's simulator. The product follows the layout of fragments that PTX
// documents for mma.m16n8k16, so that kernels.cu is right here only if it would be right on tensor cores.
#pragma once

#include <cstdint>
#include <cstring>

#define LAGOM_ARGUMENTS(type) const type&
#define LAGOM_SHARED(name) uint4* name = reinterpret_cast<uint4*>(hostcuda_device_thread->dynamic_shared)

// A copy may be late until it is waited for, and may read its source as late: done at the wait, the latest moment.
namespace lagom_emulated {
struct Copies {
  struct Copy { void* to; const void* from; unsigned group; };
  Copy open[64];
  unsigned count = 0, group = 0;
};
// One a thread of the largest CTA, by CTA slot: tests launch few CTAs, and a thread clears its own when it waits for all.
inline Copies& copies() {
  static Copies all[8][1024];
  return all[hostcuda_device_thread->view->block_index.x % 8][hostcuda_device_thread->linear_index];
}
inline void finish(unsigned left) {
  Copies& mine = copies();
  unsigned kept = 0;
  for (unsigned i = 0; i < mine.count; ++i) {
    Copies::Copy copy = mine.open[i];
    if (copy.group + left < mine.group)
      std::memcpy(copy.to, copy.from, 16);
    else
      mine.open[kept++] = copy;
  }
  mine.count = kept;
}
}  // namespace lagom_emulated

inline void copy_async(void* shared, const void* global) {
  auto& mine = lagom_emulated::copies();
  if (mine.count == 64) hostcuda::simt::device_fail("more copies on their way than the emulation holds");
  mine.open[mine.count++] = {shared, global, mine.group};
}
inline void commit_copies() { ++lagom_emulated::copies().group; }
template <int Left>
void wait_copies() {
  lagom_emulated::finish(Left);
}

inline float lagom_bf16(std::uint64_t bits, unsigned index) {
  std::uint32_t word = std::uint32_t(bits >> (16 * index) & 0xffff) << 16;
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

inline void multiply(float c[4], const std::uint32_t a[4], const std::uint32_t b[2]) {
  using hostcuda::simt::warp_exchange;
  const unsigned lane = hostcuda_device_thread->linear_index % 32, g = lane / 4, t = lane % 4;
  // Rows g and g+8 of a, columns 2t and 2t+1 of b, all 16 of k in order.
  float rows[2][16], columns[2][16];
  for (unsigned part = 0; part < 2; ++part) {  // columns 0 to 7 of a, then 8 to 15
    const std::uint64_t* all = warp_exchange(~0u, a[2 * part] | std::uint64_t(a[2 * part + 1]) << 32).values;
    for (unsigned k = 0; k < 8; ++k)
      for (unsigned half = 0; half < 2; ++half) rows[half][8 * part + k] = lagom_bf16(all[4 * g + k / 2], 2 * half + k % 2);
  }
  const std::uint64_t* all = warp_exchange(~0u, b[0] | std::uint64_t(b[1]) << 32).values;
  for (unsigned k = 0; k < 16; ++k)
    for (unsigned column = 0; column < 2; ++column)
      columns[column][k] = lagom_bf16(all[4 * (2 * t + column) + k % 8 / 2], k / 8 * 2 + k % 2);
  for (unsigned half = 0; half < 2; ++half)
    for (unsigned column = 0; column < 2; ++column)
      for (unsigned k = 0; k < 16; ++k) c[2 * half + column] += rows[half][k] * columns[column][k];
}
