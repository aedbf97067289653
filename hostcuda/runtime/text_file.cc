// SPDX-License-Identifier: Apache-2.0
#include "runtime/text_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace hostcuda {
namespace {

constexpr long long kMostBytes = 16 << 20;
constexpr std::size_t kMostQuoted = 80;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

std::string read_text(const std::string& path) {
  struct stat about{};
  if (::stat(path.c_str(), &about) != 0) throw TextError(path + ": cannot be read: " + std::strerror(errno));
  // What is no file may have no end, or wait for one that never comes.
  if (!S_ISREG(about.st_mode)) throw TextError(path + ": cannot be read: it is not a file");
  if (about.st_size > kMostBytes) {
    throw TextError(path + ": has " + std::to_string(about.st_size) + " bytes; at most " + std::to_string(kMostBytes) +
                    " are allowed");
  }
  std::string text(static_cast<std::size_t>(about.st_size), '\0');
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  in.read(text.data(), about.st_size);
  if (in.gcount() != about.st_size) {
    throw TextError(path + ": cannot be read: " + std::strerror(errno != 0 ? errno : EIO));
  }
  if (const auto zero = text.find('\0'); zero != std::string::npos) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(zero), '\n');
    throw TextError(path + ":" + std::to_string(line) + ": a zero byte: this is no text, or none in UTF-8");
  }
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  return text;
}

std::string in_quotes(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string shown = "'";
  for (const unsigned char c : text.substr(0, kMostQuoted)) {
    if (c < 0x20 || c == 0x7f) {
      shown += {'\\', 'x', kDigits[c / 16], kDigits[c % 16]};
    } else {
      shown += static_cast<char>(c);
    }
  }
  return shown + (text.size() > kMostQuoted ? "..." : "") + "'";
}

}  // namespace hostcuda
