// SPDX-License-Identifier: Apache-2.0
// Descriptions of GPUs and machines are INI files: [section], key = value, and comments from ; or # to the end of a
// line. Every complaint names file and line, because people write these files by hand.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace hostcuda::ini {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class File {
 public:
  // Throws Error where the file cannot be read, a line is neither of the three forms, or a key appears twice.
  static File read(const std::string& path);

  const std::string& path() const { return path_; }
  bool has(const std::string& section, const std::string& key) const;
  std::vector<std::string> sections() const;                        // in order of the alphabet, as these are:
  std::vector<std::string> keys(const std::string& section) const;

  // Each throws Error where the key is missing or its value is not of the kind asked for.
  const std::string& text(const std::string& section, const std::string& key) const;
  double number(const std::string& section, const std::string& key) const;          // finite
  std::uint64_t count(const std::string& section, const std::string& key) const;    // a whole number >= 0
  std::string text_or(const std::string& section, const std::string& key, const std::string& otherwise) const;
  double number_or(const std::string& section, const std::string& key, double otherwise) const;

 private:
  struct Value {
    std::string text;
    int line;
  };
  const Value& find(const std::string& section, const std::string& key) const;
  [[noreturn]] void refuse(const Value& value, const std::string& key, const std::string& wanted) const;

  std::string path_;
  std::map<std::string, std::map<std::string, Value>> sections_;
};

}  // namespace hostcuda::ini
