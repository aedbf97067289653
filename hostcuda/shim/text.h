// SPDX-License-Identifier: Apache-2.0
// String literals as template arguments, and the few constexpr operations that the PTX dispatcher needs.
#pragma once

#include <cstddef>

namespace hostcuda::shim {

template <std::size_t N>
struct Text {
  char data[N]{};

  consteval Text(const char (&literal)[N]) {
    for (std::size_t i = 0; i < N; ++i) data[i] = literal[i];
  }
};

// A view without <string_view>, which every device unit would have to parse.
struct Chars {
  const char* begin;
  std::size_t size;

  constexpr bool operator==(const Chars& other) const {
    if (size != other.size) return false;
    for (std::size_t i = 0; i < size; ++i)
      if (begin[i] != other.begin[i]) return false;
    return true;
  }
  template <std::size_t N>
  constexpr bool operator==(const char (&literal)[N]) const {
    return *this == Chars{literal, N - 1};
  }
};

// A PTX statement taken apart: `ld.volatile.global.v2.u64 {%0,%1}, [%2];` has the words ld, volatile, global, v2, u64
// and the operands `{%0,%1},[%2];` (blanks removed).
template <std::size_t N>
struct Statement {
  static constexpr std::size_t kMaxWords = 10;
  char chars[N]{};
  std::size_t word_start[kMaxWords]{}, word_size[kMaxWords]{};
  std::size_t words = 0;
  std::size_t operands_start = 0, operands_size = 0;

  consteval Statement(const char (&literal)[N]) {
    std::size_t in = 0, out = 0;
    auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\n'; };
    while (in < N && blank(literal[in])) ++in;
    std::size_t start = out;
    for (; in + 1 < N && !blank(literal[in]) && literal[in] != ';'; ++in) {
      if (literal[in] == '.') {
        add_word(start, out);
        start = out;
      } else {
        chars[out++] = literal[in];
      }
    }
    add_word(start, out);
    operands_start = out;
    for (; in + 1 < N; ++in)
      if (!blank(literal[in])) chars[out++] = literal[in];
    operands_size = out - operands_start;
  }

  constexpr Chars word(std::size_t i) const { return i < words ? Chars{chars + word_start[i], word_size[i]} : Chars{chars, 0}; }
  constexpr Chars last() const { return word(words - 1); }
  constexpr Chars operands() const { return Chars{chars + operands_start, operands_size}; }
  template <std::size_t M>
  constexpr bool has(const char (&literal)[M]) const {
    for (std::size_t i = 0; i < words; ++i)
      if (word(i) == literal) return true;
    return false;
  }
  // The word before the last, where it says how many values one access moves.
  constexpr int vector() const {
    if (words >= 2) {
      if (word(words - 2) == "v2") return 2;
      if (word(words - 2) == "v4") return 4;
    }
    return 1;
  }
  constexpr int bytes() const {
    Chars type = last();
    if (type.size == 2 && type.begin[1] == '8') return 1;
    if (type.size != 3) return 0;
    if (type.begin[1] == '1' && type.begin[2] == '6') return 2;
    if (type.begin[1] == '3' && type.begin[2] == '2') return 4;
    if (type.begin[1] == '6' && type.begin[2] == '4') return 8;
    return 0;
  }

 private:
  consteval void add_word(std::size_t start, std::size_t end) {
    if (words == kMaxWords) throw "PTX statement with too many qualifiers";
    word_start[words] = start;
    word_size[words++] = end - start;
  }
};

}  // namespace hostcuda::shim
