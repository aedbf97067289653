// SPDX-License-Identifier: Apache-2.0
// PTX's multimem instructions (NVLink SHARP), and stores to multicast addresses: a load reduces over the memory of all
// members, a store or reduction reaches all of them. Members come in the order of the machine's devices.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "shim/operands.h"
#include "shim/small_floats.h"
#include "shim/stamps.h"
#include "shim/text.h"

namespace hostcuda::shim {

// ---- values by their PTX type: what one register holds, and how two of them become one ----

enum class Combine { add, min, max, conjunction, disjunction, exclusive };

// As PTX orders floats: a NaN loses against a number, and -0 is below +0.
template <Combine C, class T>
inline T extreme(T a, T b) {
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return (__builtin_signbit(a) != 0) == (C == Combine::min) ? a : b;
  return (a < b) == (C == Combine::min) ? a : b;
}

// One number a register. Sums of integers wrap.
template <class T>
struct Number {
  using Register = T;
  using Sum = T;
  static Sum start(Register first) { return first; }
  template <Combine>
  static Register finish(Sum sum) { return sum; }
  template <Combine C>
  static Sum combine(Sum a, Register b) {
    if constexpr (std::is_floating_point_v<T>) {
      if constexpr (C == Combine::add) return a + b;
      else return extreme<C>(a, b);
    } else {
      using U = std::make_unsigned_t<T>;
      if constexpr (C == Combine::add) return T(U(a) + U(b));
      else if constexpr (C == Combine::min) return a < b ? a : b;
      else if constexpr (C == Combine::max) return a < b ? b : a;
      else if constexpr (C == Combine::conjunction) return T(a & b);
      else if constexpr (C == Combine::disjunction) return T(a | b);
      else return T(a ^ b);
    }
  }
};

// 32 bits of smaller floats. Sums are kept in Accumulator's format: as floats or rounded after each addition.
struct AsFloat {
  static float round(float value) { return value; }
};
template <class Format>
struct Rounded {
  static float round(float value) { return Format::widen(Format::narrow(value)); }
};
template <class Format, class Accumulator>
struct Packed {
  using Bits = typename Format::Bits;
  static constexpr int kLanes = 4 / sizeof(Bits);
  using Register = std::uint32_t;
  struct Sum {
    float lane[kLanes];
  };
  static Sum start(Register first) {
    Bits part[kLanes];
    std::memcpy(part, &first, sizeof part);
    Sum sum;
    for (int i = 0; i < kLanes; ++i) sum.lane[i] = Format::widen(part[i]);
    return sum;
  }
  template <Combine C>
  static Sum combine(Sum a, Register b) {
    const Sum other = start(b);
    for (int i = 0; i < kLanes; ++i) {
      if constexpr (C == Combine::add) a.lane[i] = Accumulator::round(a.lane[i] + other.lane[i]);
      else a.lane[i] = extreme<C>(a.lane[i], other.lane[i]);
    }
    return a;
  }
  template <Combine C>
  static Register finish(Sum sum) {
    Bits part[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      part[i] = C == Combine::add ? Format::narrow(sum.lane[i]) : Format::exactly(sum.lane[i]);
    }
    Register whole;
    std::memcpy(&whole, part, sizeof whole);
    return whole;
  }
};

struct NoSuchType {};

// The type that a statement's last word names. The format that sums are kept in is part of it; 8-bit floats have no
// other than f16.
template <auto S>
consteval auto value_type() {
  constexpr Chars type = S.last();
  if constexpr (type == "u32" || type == "b32") return Number<std::uint32_t>{};
  else if constexpr (type == "s32") return Number<std::int32_t>{};
  else if constexpr (type == "u64" || type == "b64") return Number<std::uint64_t>{};
  else if constexpr (type == "s64") return Number<std::int64_t>{};
  else if constexpr (type == "f32") return Number<float>{};
  else if constexpr (type == "f64") return Number<double>{};
  else if constexpr (type == "f16x2" && S.has("acc::f32")) return Packed<F16, AsFloat>{};
  else if constexpr (type == "f16x2") return Packed<F16, Rounded<F16>>{};
  else if constexpr (type == "bf16x2" && S.has("acc::f32")) return Packed<Bf16, AsFloat>{};
  else if constexpr (type == "bf16x2") return Packed<Bf16, Rounded<Bf16>>{};
  else if constexpr (type == "e4m3x4" && (S.has("acc::f16") || !S.has("add"))) return Packed<E4m3, Rounded<F16>>{};
  else if constexpr (type == "e5m2x4" && (S.has("acc::f16") || !S.has("add"))) return Packed<E5m2, Rounded<F16>>{};
  else return NoSuchType{};
}

// What a statement does with two values; NoSuchType's have none.
template <auto S>
inline constexpr int kOperations = S.has("add") + S.has("min") + S.has("max") + S.has("and") + S.has("or") + S.has("xor");
template <auto S>
inline constexpr Combine kCombine = S.has("add")   ? Combine::add
                                    : S.has("min") ? Combine::min
                                    : S.has("max") ? Combine::max
                                    : S.has("and") ? Combine::conjunction
                                    : S.has("or")  ? Combine::disjunction
                                                   : Combine::exclusive;

// Whether PTX has that operation for numbers of type T: floats have no bitwise ones, f32 and f64 no min and max, and
// untyped registers nothing but bitwise ones.
template <auto S, class Value>
consteval bool can_combine() {
  if constexpr (std::is_same_v<Value, NoSuchType> || kOperations<S> != 1) {
    return false;
  } else {
    constexpr bool bitwise = kCombine<S> >= Combine::conjunction;
    constexpr bool untyped = S.last().begin[0] == 'b' && S.last().begin[1] != 'f';
    constexpr bool plain_float = std::is_floating_point_v<typename Value::Register>;
    constexpr bool integer = std::is_same_v<Value, Number<typename Value::Register>> && !plain_float;
    return bitwise ? integer && untyped : !untyped && (kCombine<S> == Combine::add || !plain_float);
  }
}

// ---- the instructions ----

template <class Value, Combine C>
inline typename Value::Register load_reduced(const rt::MulticastPage& page, const char* address) {
  using Register = typename Value::Register;
  auto at = [&](unsigned i) {
    const char* member = address + page.distance[i];
    return bits<Register>(load_flag<sizeof(Register)>(member));
  };
  auto sum = Value::start(at(0));
  for (unsigned i = 1; i < page.members; ++i) sum = Value::template combine<C>(sum, at(i));
  return Value::template finish<C>(sum);
}

template <auto S, class... A>
[[gnu::always_inline]] inline void multimem_load(A&&... a) {
  using Value = decltype(value_type<S>());
  static_assert(can_combine<S, Value>(), "hostcuda: a type or operation of multimem.ld_reduce that shim/multimem.h does not know");
  constexpr int n = S.vector();
  constexpr bool known = (n == 1 && S.operands() == "%0,[%1];") || (n == 2 && S.operands() == "{%0,%1},[%2];") ||
                         (n == 4 && S.operands() == "{%0,%1,%2,%3},[%4];");
  static_assert(known, "hostcuda: multimem.ld_reduce with operands that shim/multimem.h does not know");
  const char* from = address_of(operand<n>(a...));
  const rt::MulticastPage& page = multicast_page(from);
  auto load = [&](auto& to, int i) {
    using Register = typename Value::Register;
    to = bits<std::remove_reference_t<decltype(to)>>(load_reduced<Value, kCombine<S>>(page, from + i * sizeof(Register)));
  };
  load(operand<0>(a...), 0);
  if constexpr (n >= 2) load(operand<1>(a...), 1);
  if constexpr (n >= 4) {
    load(operand<2>(a...), 2);
    load(operand<3>(a...), 3);
  }
  if constexpr (S.has("acquire")) compiler_fence();
}

template <int Bytes>
inline void store_to_members(char* to, Unsigned<Bytes> value) {
  const rt::MulticastPage& page = multicast_page(to);
  for (unsigned i = 0; i < page.members; ++i) store_flag<Bytes>(to + page.distance[i], value);
}

template <auto S, class... A>
[[gnu::always_inline]] inline void multimem_store(A&&... a) {
  char* to = address_of(operand<0>(a...));
  if constexpr (S.has("release")) compiler_fence();
  if constexpr (S.vector() == 1 && S.bytes() >= 4 && S.operands() == "[%0],%1;") {
    store_to_members<S.bytes()>(to, bits<Unsigned<S.bytes()>>(operand<1>(a...)));
  } else if constexpr (S.vector() == 4 && S.bytes() == 4 && S.operands() == "[%0],{%1,%2,%3,%4};") {
    auto word = [](auto value) { return std::uint64_t(bits<std::uint32_t>(value)); };
    const Vector16 all = {(long long)(word(operand<1>(a...)) | word(operand<2>(a...)) << 32),
                          (long long)(word(operand<3>(a...)) | word(operand<4>(a...)) << 32)};
    const rt::MulticastPage& page = multicast_page(to);
    for (unsigned i = 0; i < page.members; ++i) store16_indivisible(to + page.distance[i], all);
  } else {
    static_assert(kNever<S>, "hostcuda: a multimem.st that shim/multimem.h does not know");
  }
}

// Only integers: other processes' devices may take part, so each member's word changes in one atomic step.
template <auto S, class... A>
[[gnu::always_inline]] inline void multimem_reduce(A&&... a) {
  using Value = decltype(value_type<S>());
  static_assert(can_combine<S, Value>(), "hostcuda: a type or operation of multimem.red that shim/multimem.h does not know");
  using T = typename Value::Register;
  static_assert(std::is_integral_v<T>, "hostcuda: multimem.red is known for integers only");
  constexpr bool one = S.operands() == "[%0],1;";
  static_assert(one || S.operands() == "[%0],%1;", "hostcuda: multimem.red with operands that shim/multimem.h does not know");
  char* to = address_of(operand<0>(a...));
  T value = 1;
  if constexpr (!one) value = bits<T>(operand<1>(a...));
  const rt::MulticastPage& page = multicast_page(to);
  for (unsigned i = 0; i < page.members; ++i) {
    T* word = reinterpret_cast<T*>(to + page.distance[i]);
    T before = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(word, &before, Value::template combine<kCombine<S>>(before, value), false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    }
  }
}

template <auto S, class... A>
[[gnu::always_inline]] inline void ptx_multimem(A&&... a) {
  if constexpr (S.word(1) == "ld_reduce") multimem_load<S>(static_cast<A&&>(a)...);
  else if constexpr (S.word(1) == "st") multimem_store<S>(static_cast<A&&>(a)...);
  else if constexpr (S.word(1) == "red") multimem_reduce<S>(static_cast<A&&>(a)...);
  else static_assert(kNever<S>, "hostcuda: a multimem instruction that shim/multimem.h does not know");
}

}  // namespace hostcuda::shim
