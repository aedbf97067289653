// SPDX-License-Identifier: Apache-2.0
// Inline PTX on a CPU. The rewriter turns
//     asm volatile("ld.global.b32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
// into
//     ::hostcuda::shim::ptx<"ld.global.b32 %0, [%1];">(value, address);
// and this file gives each form its meaning at compile time. A form that nobody wrote down here does not compile.
//
// x86 keeps stores in order and loads in order, and every wait loop of device code calls into the scheduler, which the
// compiler cannot see through. So plain accesses do for bulk data; flags and counters use volatile ones.
#pragma once

#include <emmintrin.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "shim/stamps.h"
#include "shim/text.h"
#include "simt/device_thread.h"

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

template <auto S, class... A>
[[gnu::always_inline]] inline void ptx_load(A&&... a) {
  static constexpr const auto& s = S;
  constexpr int bytes = s.bytes();
  // Typed loads (u32, u64) read flags; untyped ones (b8 to b64) move data.
  constexpr bool flag = s.last().begin[0] != 'b' && !s.has("shared");
  if constexpr (s.vector() == 1 && (s.operands() == "%0,[%1];" || s.operands() == "{%0},[%1];")) {
    const char* from = address_of(operand<1>(a...));
    auto&& to = operand<0>(a...);
    using T = std::remove_cvref_t<decltype(to)>;
    if constexpr (flag)
      to = bits<T>(load_flag<bytes>(from));
    else
      to = bits<T>(load_plain<bytes>(from));
    if constexpr (s.has("acquire")) compiler_fence();
  } else if constexpr (s.vector() == 2 && bytes == 8 && s.operands() == "{%0,%1},[%2];") {
    const char* from = address_of(operand<2>(a...));
    Vector16 both;
    if constexpr (flag && !s.has("shared"))
      both = load16_indivisible(from);
    else
      both = *reinterpret_cast<const Vector16*>(from);
    operand<0>(a...) = bits<std::remove_cvref_t<decltype(operand<0>(a...))>>(both[0]);
    operand<1>(a...) = bits<std::remove_cvref_t<decltype(operand<1>(a...))>>(both[1]);
  } else if constexpr (s.vector() == 4 && bytes == 4 && s.operands() == "{%0,%1,%2,%3},[%4];") {
    const char* from = address_of(operand<4>(a...));
    Vector16 all = load16_indivisible(from);
    // Only LL reads lines of four words; each carries the time of its store.
    read_line_stamp(from);
    std::uint64_t low = std::uint64_t(all[0]), high = std::uint64_t(all[1]);
    operand<0>(a...) = std::uint32_t(low);
    operand<1>(a...) = std::uint32_t(low >> 32);
    operand<2>(a...) = std::uint32_t(high);
    operand<3>(a...) = std::uint32_t(high >> 32);
  } else {
    static_assert(kNever<S>, "hostcuda: a PTX load with operands that shim/ptx.h does not know");
  }
}

template <auto S, class... A>
[[gnu::always_inline]] inline void ptx_store(A&&... a) {
  static constexpr const auto& s = S;
  constexpr int bytes = s.bytes();
  constexpr bool flag = s.last().begin[0] != 'b' && !s.has("shared");
  if constexpr (s.vector() == 1 && s.operands() == "[%0],%1;") {
    char* to = address_of(operand<0>(a...));
    if constexpr (s.has("release")) compiler_fence();
    if constexpr (flag)
      store_flag<bytes>(to, bits<Unsigned<bytes>>(operand<1>(a...)));
    else
      store_plain<bytes>(to, bits<Unsigned<bytes>>(operand<1>(a...)));
  } else if constexpr (s.vector() == 2 && bytes == 8 &&
                       (s.operands() == "[%0],{%1,%2};" || s.operands() == "[%2],{%0,%1};")) {
    constexpr bool address_first = s.operands().begin[2] == '0';
    char* to = address_of(operand<address_first ? 0 : 2>(a...));
    Vector16 both = {(long long)bits<std::uint64_t>(operand<address_first ? 1 : 0>(a...)),
                     (long long)bits<std::uint64_t>(operand<address_first ? 2 : 1>(a...))};
    if constexpr (flag)
      store16_indivisible(to, both);
    else
      *reinterpret_cast<Vector16*>(to) = both;
  } else if constexpr (s.vector() == 4 && bytes == 4 &&
                       (s.operands() == "[%0],{%1,%2,%3,%4};" || s.operands() == "[%0],{%1,%3,%2,%3};")) {
    constexpr bool shared_flag = s.operands() == "[%0],{%1,%3,%2,%3};";
    char* to = address_of(operand<0>(a...));
    auto word = [](auto value) { return std::uint64_t(bits<std::uint32_t>(value)); };
    std::uint64_t w0 = word(operand<1>(a...));
    std::uint64_t w1 = word(operand<shared_flag ? 3 : 2>(a...));
    std::uint64_t w2 = word(operand<shared_flag ? 2 : 3>(a...));
    std::uint64_t w3 = word(operand<shared_flag ? 3 : 4>(a...));
    write_line_stamp(to);
    store16_indivisible(to, Vector16{(long long)(w0 | w1 << 32), (long long)(w2 | w3 << 32)});
  } else {
    static_assert(kNever<S>, "hostcuda: a PTX store with operands that shim/ptx.h does not know");
  }
}

template <auto S, class... A>
[[gnu::always_inline]] inline void ptx_arithmetic(A&&... a) {
  static constexpr const auto& s = S;
  constexpr Chars name = s.word(0);
  auto in = [](auto value) { return std::uint64_t(bits<std::uint32_t>(value)); };
  auto& out = operand<0>(a...);
  if constexpr (name == "mad" && s.word(1) == "lo" && s.operands() == "%0,%1,%2,%0;")
    out = std::uint32_t(in(operand<1>(a...)) * in(operand<2>(a...)) + in(out));
  else if constexpr (name == "mad" && s.word(1) == "hi" && s.operands() == "%0,%1,%2,%0;")
    out = std::uint32_t((in(operand<1>(a...)) * in(operand<2>(a...)) >> 32) + in(out));
  else if constexpr (name == "mul" && s.word(1) == "hi" && s.operands() == "%0,%1,%2;")
    out = std::uint32_t(in(operand<1>(a...)) * in(operand<2>(a...)) >> 32);
  else
    static_assert(kNever<S>, "hostcuda: PTX arithmetic that shim/ptx.h does not know");
}

template <Text T, class... A>
[[gnu::always_inline]] inline void ptx(A&&... a) {
  static constexpr Statement s(T.data);
  constexpr Chars name = s.word(0);
  constexpr Chars all = s.operands();
  if constexpr (name == "ld" && s.bytes() != 0) {
    ptx_load<s>(static_cast<A&&>(a)...);
  } else if constexpr (name == "st" && s.bytes() != 0) {
    ptx_store<s>(static_cast<A&&>(a)...);
  } else if constexpr (name == "barrier" && s.word(1) == "sync" && all == "%0;") {
    simt::block_sync(unsigned(operand<0>(a...)), 0);
  } else if constexpr (name == "barrier" && s.word(1) == "sync" && all == "%0,%1;") {
    simt::block_sync(unsigned(operand<0>(a...)), unsigned(operand<1>(a...)));
  } else if constexpr (name == "{" && all == ".reg.predp;setp.ne.s32p,%1,0;barrier.red.or.predp,%2,p;selp.s32%0,1,0,p;}") {
    operand<0>(a...) = simt::block_count(unsigned(operand<2>(a...)), 0, operand<1>(a...) != 0) != 0;
  } else if constexpr (name == "{" &&
                       all == ".reg.predp;setp.ne.s32p,%1,0;barrier.red.or.predp,%2,%3,p;selp.s32%0,1,0,p;}") {
    operand<0>(a...) =
        simt::block_count(unsigned(operand<2>(a...)), unsigned(operand<3>(a...)), operand<1>(a...) != 0) != 0;
  } else if constexpr ((name == "fence" || name == "membar") && s.last() == "sys") {
    system_fence();
  } else if constexpr (name == "fence" || name == "membar") {
    compiler_fence();
  } else if constexpr (name == "cvta" && all == "%0,%1;") {
    // Shared memory lies below 2 GiB, so shared, global and generic addresses are the same numbers.
    auto& out = operand<0>(a...);
    out = reinterpret_cast<std::remove_reference_t<decltype(out)>>(address_of(operand<1>(a...)));
  } else if constexpr (name == "mov" && all == "%0,%%globaltimer;") {
    operand<0>(a...) = device_timer();
  } else if constexpr (name == "mov" && all == "%0,%%smid;") {
    operand<0>(a...) = hostcuda_device_thread->view->sm_id;
  } else if constexpr (name == "mov" && all == "%0,%%laneid;") {
    operand<0>(a...) = hostcuda_device_thread->linear_index % simt::kWarpSize;
  } else if constexpr (name == "mov" && all == "%0,%%lanemask_lt;") {
    operand<0>(a...) = (1u << hostcuda_device_thread->linear_index % simt::kWarpSize) - 1;
  } else if constexpr (name == "multimem") {
    // Machines here say that they have no NVLink SHARP, so NCCL never gets this far.
    simt::device_fail("multimem instructions (NVLink SHARP) are not simulated");
  } else if constexpr (name == "mad" || name == "mul") {
    ptx_arithmetic<s>(static_cast<A&&>(a)...);
  } else {
    static_assert(kNever<s>, "hostcuda: PTX that shim/ptx.h does not know");
  }
}

}  // namespace hostcuda::shim
