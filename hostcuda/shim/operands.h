// SPDX-License-Identifier: Apache-2.0
// Operands of PTX statements and accesses to memory of every size, for the dispatcher and its parts.
#pragma once

#include <emmintrin.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace hostcuda::shim {

template <auto>
inline constexpr bool kNever = false;

// The i-th of the operands %0, %1, ...
template <int I, class First, class... Rest>
[[gnu::always_inline]] inline decltype(auto) operand(First&& first, Rest&&... rest) {
  if constexpr (I == 0)
    return static_cast<First&&>(first);
  else
    return operand<I - 1>(static_cast<Rest&&>(rest)...);
}

template <class A>
[[gnu::always_inline]] inline char* address_of(A value) {
  if constexpr (std::is_pointer_v<A>)
    return const_cast<char*>(reinterpret_cast<const volatile char*>(value));
  else
    return reinterpret_cast<char*>(static_cast<std::uintptr_t>(value));
}

// Registers are untyped: an operand keeps its low bytes, and wider operands are filled with zeros.
template <class To, class From>
[[gnu::always_inline]] inline To bits(From from) {
  To to{};
  std::memcpy(&to, &from, sizeof(To) < sizeof(From) ? sizeof(To) : sizeof(From));
  return to;
}

template <int Bytes>
using Unsigned = std::conditional_t<
    Bytes == 1, std::uint8_t,
    std::conditional_t<Bytes == 2, std::uint16_t, std::conditional_t<Bytes == 4, std::uint32_t, std::uint64_t>>>;

typedef long long Vector16 __attribute__((vector_size(16), may_alias));

// 16 aligned bytes in one instruction: on every x86-64 with AVX that access is indivisible, as LL and LL128 need.
[[gnu::always_inline]] inline Vector16 load16_indivisible(const char* address) {
  return *reinterpret_cast<const volatile Vector16*>(address);
}
[[gnu::always_inline]] inline void store16_indivisible(char* address, Vector16 value) {
  *reinterpret_cast<volatile Vector16*>(address) = value;
}

template <int Bytes>
[[gnu::always_inline]] inline Unsigned<Bytes> load_plain(const char* address) {
  Unsigned<Bytes> value;
  std::memcpy(&value, address, Bytes);
  return value;
}
template <int Bytes>
[[gnu::always_inline]] inline Unsigned<Bytes> load_flag(const char* address) {
  typedef Unsigned<Bytes> Aliased __attribute__((may_alias));
  return *reinterpret_cast<const volatile Aliased*>(address);
}
template <int Bytes>
[[gnu::always_inline]] inline void store_plain(char* address, Unsigned<Bytes> value) {
  std::memcpy(address, &value, Bytes);
}
template <int Bytes>
[[gnu::always_inline]] inline void store_flag(char* address, Unsigned<Bytes> value) {
  typedef Unsigned<Bytes> Aliased __attribute__((may_alias));
  *reinterpret_cast<volatile Aliased*>(address) = value;
}

[[gnu::always_inline]] inline void compiler_fence() { asm volatile("" ::: "memory"); }

}  // namespace hostcuda::shim
