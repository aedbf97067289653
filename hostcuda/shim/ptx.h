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

#include "shim/multimem.h"
#include "shim/operands.h"
#include "shim/stamps.h"
#include "shim/text.h"
#include "simt/device_thread.h"

namespace hostcuda::shim {

// Whether a plain store may go to a multicast address: GPUs before 9.0 have none.
#if defined(HOSTCUDA_ARCH) && HOSTCUDA_ARCH < 900
inline constexpr bool kMayMulticast = false;
#else
inline constexpr bool kMayMulticast = true;
#endif

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
    // NCCL also stores plainly to multicast addresses what is too small for multimem.st.
    if constexpr (kMayMulticast && !s.has("shared")) {
      if (rt::is_multicast(to)) return store_to_members<bytes>(to, bits<Unsigned<bytes>>(operand<1>(a...)));
    }
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
    const Vector16 line = {(long long)(w0 | w1 << 32), (long long)(w2 | w3 << 32)};
    if (kMayMulticast && rt::is_multicast(to)) {
      const rt::MulticastPage& page = multicast_page(to);
      write_line_stamps(page, to);
      for (unsigned i = 0; i < page.members; ++i) store16_indivisible(to + page.distance[i], line);
      return;
    }
    write_line_stamp(to);
    store16_indivisible(to, line);
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
    ptx_multimem<s>(static_cast<A&&>(a)...);
  } else if constexpr (name == "mad" || name == "mul") {
    ptx_arithmetic<s>(static_cast<A&&>(a)...);
  } else {
    static_assert(kNever<s>, "hostcuda: PTX that shim/ptx.h does not know");
  }
}

}  // namespace hostcuda::shim
