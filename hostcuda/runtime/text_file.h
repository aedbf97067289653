// SPDX-License-Identifier: Apache-2.0
// Text files that people write, read as a whole.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace hostcuda {

struct TextError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The file's text, without a byte order mark. Throws TextError, which names the file, where it is no file, cannot be
// read, is far too large for a description, or holds a zero byte.
std::string read_text(const std::string& path);

// 'text' for a message of one line: in quotes, control characters as \xNN, cut off where it is long.
std::string in_quotes(std::string_view text);

}  // namespace hostcuda
