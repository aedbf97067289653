// SPDX-License-Identifier: Apache-2.0
// Sizes as programs give them. They stop at the largest number instead of starting again at 0, so that whoever compares
// them with what there is finds them too large.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hostcuda::rt {

constexpr std::size_t sum(std::size_t a, std::size_t b) {
  std::size_t result = 0;
  return __builtin_add_overflow(a, b, &result) ? SIZE_MAX : result;
}

constexpr std::size_t product(std::size_t a, std::size_t b) {
  std::size_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? SIZE_MAX : result;
}

// The next multiple, or the last one that there is.
constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return sum(value, multiple - 1) / multiple * multiple;
}

}  // namespace hostcuda::rt
