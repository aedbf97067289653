// SPDX-License-Identifier: Apache-2.0
// Floating-point formats below 32 bits, as the arithmetic of PTX sees them. Conversions round to nearest even.
#pragma once

#include <cstdint>
#include <cstring>

namespace hostcuda::shim {

inline float float_of_bits(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline std::uint32_t bits_of_float(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

struct F16 {
  using Bits = std::uint16_t;
  static float widen(Bits bits) {
    _Float16 value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  static Bits narrow(float value) {
    if (value != value) return 0x7fff;
    const auto rounded = static_cast<_Float16>(value);
    Bits bits;
    std::memcpy(&bits, &rounded, sizeof bits);
    return bits;
  }
  static Bits exactly(float value) { return narrow(value); }
};

struct Bf16 {
  using Bits = std::uint16_t;
  static float widen(Bits bits) { return float_of_bits(std::uint32_t{bits} << 16); }
  static Bits narrow(float value) {
    const std::uint32_t bits = bits_of_float(value);
    if (value != value) return 0x7fff;
    return Bits((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  static Bits exactly(float value) { return narrow(value); }
};

// Eight bits: sign, exponent, kMantissa bits of mantissa. Values too large become the largest one (.satfinite).
template <int kMantissa, std::uint8_t kLargest, std::uint8_t kNan>
struct F8 {
  using Bits = std::uint8_t;
  static constexpr int kBias = kMantissa == 3 ? 7 : 15;

  static float widen(Bits bits) {
    const unsigned magnitude = bits & 0x7f, exponent = magnitude >> kMantissa;
    const float sign = bits & 0x80 ? -1.0f : 1.0f;
    if (magnitude > kLargest) {
      // Above the largest value there are NaNs, and where the exponent is all ones in e5m2, infinity first.
      return kMantissa == 2 && magnitude == 0x7c ? sign * __builtin_inff() : __builtin_nanf("");
    }
    const unsigned mantissa = magnitude & ((1u << kMantissa) - 1);
    const float whole = exponent == 0 ? float(mantissa) : float(mantissa | 1u << kMantissa);
    return sign * __builtin_ldexpf(whole, int(exponent == 0 ? 1 : exponent) - kBias - kMantissa);
  }
  // A value of this format, which may be infinity.
  static Bits exactly(float value) {
    return kMantissa == 2 && __builtin_isinf(value) ? Bits(narrow(value) + 1) : narrow(value);
  }
  static Bits narrow(float value) {
    if (value != value) return kNan;
    const Bits sign = bits_of_float(value) >> 31 ? 0x80 : 0;
    const float magnitude = __builtin_fabsf(value);
    if (magnitude >= widen(kLargest)) return sign | kLargest;
    // In units of the last place at this exponent; a carry runs over into the exponent by itself.
    int exponent;
    __builtin_frexpf(magnitude, &exponent);  // magnitude = [0.5, 1) * 2 ^ exponent
    int biased = exponent - 1 + kBias;
    if (biased < 1) biased = 1;
    const float units = __builtin_rintf(__builtin_ldexpf(magnitude, kBias + kMantissa - biased));
    const unsigned whole = unsigned(units);
    const unsigned bits = whole < 1u << kMantissa ? whole : whole + (unsigned(biased - 1) << kMantissa);
    return Bits(sign | (bits > kLargest ? kLargest : bits));
  }
};
using E4m3 = F8<3, 0x7e, 0x7f>;
using E5m2 = F8<2, 0x7b, 0x7f>;

}  // namespace hostcuda::shim
