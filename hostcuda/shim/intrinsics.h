// SPDX-License-Identifier: Apache-2.0
// CUDA's device intrinsics that its headers leave to nvcc: integer arithmetic, atomics, fences, time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "shim/stamps.h"
#include "simt/device_thread.h"

// CUDA's overloads of min and max mix types; the standard library's do not.
template <class A, class B, std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>, int> = 0>
constexpr std::common_type_t<A, B> min(A a, B b) {
  std::common_type_t<A, B> x = a, y = b;
  return y < x ? y : x;
}
template <class A, class B, std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>, int> = 0>
constexpr std::common_type_t<A, B> max(A a, B b) {
  std::common_type_t<A, B> x = a, y = b;
  return x < y ? y : x;
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1u) << (31 - bit);
  return reversed;
}

inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned((std::uint64_t(high) << 32 | low) >> (shift & 31));
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned((std::uint64_t(high) << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(std::uint64_t(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}

// Byte i of the result is byte (selector nibble i) of {y, x}; the nibble's top bit asks for the byte's sign instead.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  std::uint64_t bytes = std::uint64_t(y) << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    unsigned nibble = selector >> 4 * i & 15;
    unsigned byte = unsigned(bytes >> 8 * (nibble & 7)) & 255;
    if (nibble & 8) byte = byte & 128 ? 255 : 0;
    result |= byte << 8 * i;
  }
  return result;
}

// Position of the n-th set bit, counting from bit `base`: upwards for n > 0, downwards for n < 0.
inline unsigned __fns(unsigned mask, unsigned base, int n) {
  if (n == 0) return mask >> base & 1 ? base : ~0u;
  int step = n > 0 ? 1 : -1, left = n > 0 ? n : -n;
  for (int bit = int(base); bit >= 0 && bit < 32; bit += step)
    if ((mask >> bit & 1) && --left == 0) return unsigned(bit);
  return ~0u;
}

inline void __threadfence_block() { __asm__ volatile("" ::: "memory"); }
inline void __threadfence() { __asm__ volatile("" ::: "memory"); }
inline void __threadfence_system() { ::hostcuda::shim::system_fence(); }
[[noreturn]] inline void __trap() { ::hostcuda::simt::device_fail("trap"); }
inline void __nanosleep(unsigned) { ::hostcuda::simt::poll_yield(); }

inline std::size_t __cvta_generic_to_shared(const void* p) { return reinterpret_cast<std::size_t>(p); }
inline std::size_t __cvta_generic_to_global(const void* p) { return reinterpret_cast<std::size_t>(p); }
inline void* __cvta_shared_to_generic(std::size_t p) { return reinterpret_cast<void*>(p); }
inline void* __cvta_global_to_generic(std::size_t p) { return reinterpret_cast<void*>(p); }

inline unsigned long long hostcuda_clock64() { return ::hostcuda::shim::device_timer(); }
#define clock64() hostcuda_clock64()

template <class T>
inline T __ldg(const T* p) { return *p; }

// ---- atomics: other processes may take part, so they are real ones ----

namespace hostcuda::shim {
template <class T>
using Plain = std::type_identity_t<T>;

template <class T, class Op>
inline T atomic_update(T* address, Op op) {
  T before;
  __atomic_load(address, &before, __ATOMIC_RELAXED);
  T after = op(before);
  while (!__atomic_compare_exchange(address, &before, &after, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
    after = op(before);
  return before;
}
}  // namespace hostcuda::shim

template <class T>
inline T atomicAdd(T* address, hostcuda::shim::Plain<T> value) {
  if constexpr (std::is_integral_v<T>) return __atomic_fetch_add(address, value, __ATOMIC_ACQ_REL);
  else return hostcuda::shim::atomic_update(address, [&](T before) { return T(before + value); });
}
template <class T>
inline T atomicSub(T* address, hostcuda::shim::Plain<T> value) { return __atomic_fetch_sub(address, value, __ATOMIC_ACQ_REL); }
template <class T>
inline T atomicOr(T* address, hostcuda::shim::Plain<T> value) { return __atomic_fetch_or(address, value, __ATOMIC_ACQ_REL); }
template <class T>
inline T atomicAnd(T* address, hostcuda::shim::Plain<T> value) { return __atomic_fetch_and(address, value, __ATOMIC_ACQ_REL); }
template <class T>
inline T atomicXor(T* address, hostcuda::shim::Plain<T> value) { return __atomic_fetch_xor(address, value, __ATOMIC_ACQ_REL); }
template <class T>
inline T atomicMax(T* address, hostcuda::shim::Plain<T> value) {
  return hostcuda::shim::atomic_update(address, [&](T before) { return before < value ? value : before; });
}
template <class T>
inline T atomicMin(T* address, hostcuda::shim::Plain<T> value) {
  return hostcuda::shim::atomic_update(address, [&](T before) { return value < before ? value : before; });
}
template <class T>
inline T atomicExch(T* address, hostcuda::shim::Plain<T> value) {
  T before;
  __atomic_exchange(address, &value, &before, __ATOMIC_ACQ_REL);
  return before;
}
template <class T>
inline T atomicCAS(T* address, hostcuda::shim::Plain<T> expected, hostcuda::shim::Plain<T> value) {
  __atomic_compare_exchange(address, &expected, &value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return expected;
}
#define atomicAdd_block atomicAdd
#define atomicAdd_system atomicAdd
