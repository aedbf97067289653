/* SPDX-License-Identifier: Apache-2.0 */
/* Input of each type, and a hash of what came out. */
#ifndef DATA_H_
#define DATA_H_

#include "draw.h"

#include <cstring>

/* A number that no operation turns into a NaN: floats lie between 1/8 and 2 either way, integers are anything. */
inline uint64_t drawElement(Random& random, Type const& type) {
  uint64_t bits = random.bits();
  if (type.exponentBits == 0) return bits;
  uint64_t bias = (1ull << (type.exponentBits - 1)) - 1;
  uint64_t mantissa = bits & ((1ull << type.mantissaBits) - 1);
  uint64_t exponent = bias - 3 + ((bits >> 56) & 3);
  uint64_t sign = bits >> 63;
  return (((sign << type.exponentBits) | exponent) << type.mantissaBits) | mantissa;
}

inline void fill(char* to, size_t count, Type const& type, uint64_t seed) {
  Random random(seed);
  for (size_t i = 0; i < count; i++) {
    uint64_t element = drawElement(random, type);
    memcpy(to + i * type.bytes, &element, type.bytes); /* little-endian */
  }
}

inline uint64_t hash(const char* bytes, size_t n) {
  uint64_t h = n + 0x9e3779b97f4a7c15ull;
  for (size_t i = 0; i < n; i += 8) {
    uint64_t word = 0;
    memcpy(&word, bytes + i, std::min<size_t>(8, n - i));
    h = (h ^ word) * 0xff51afd7ed558ccdull;
    h ^= h >> 32;
  }
  return h;
}

#endif
