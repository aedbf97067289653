// SPDX-License-Identifier: Apache-2.0
#include "runtime/ini.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "runtime/text_file.h"

namespace hostcuda::ini {
namespace {

std::string trimmed(const std::string& s) {
  const char* blank = " \t\r";
  const auto first = s.find_first_not_of(blank);
  if (first == std::string::npos) return "";
  return s.substr(first, s.find_last_not_of(blank) - first + 1);
}

}  // namespace

File File::read(const std::string& path) {
  File file;
  file.path_ = path;
  std::istringstream in(read_text(path));
  std::string line, section;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::string where = path + ":" + std::to_string(number) + ": ";
    line = trimmed(line.substr(0, line.find_first_of(";#")));
    if (line.empty()) continue;
    if (line.front() == '[') {
      if (line.back() != ']' || line.size() < 3) throw Error(where + "a section is written [name]");
      section = trimmed(line.substr(1, line.size() - 2));
      file.sections_[section];
      continue;
    }
    const auto equals = line.find('=');
    if (equals == std::string::npos) throw Error(where + "expected [section] or key = value, found " + in_quotes(line));
    const std::string key = trimmed(line.substr(0, equals));
    if (key.empty() || section.empty()) {
      throw Error(where +
                  (key.empty() ? "no key before '='" : "key " + in_quotes(key) + " stands before any [section]"));
    }
    if (!file.sections_[section].emplace(key, Value{trimmed(line.substr(equals + 1)), number}).second) {
      throw Error(where + "key " + in_quotes(key) + " appears twice in [" + section + "]");
    }
  }
  return file;
}

bool File::has(const std::string& section, const std::string& key) const {
  const auto s = sections_.find(section);
  return s != sections_.end() && s->second.count(key) != 0;
}

std::vector<std::string> File::sections() const {
  std::vector<std::string> names;
  for (const auto& entry : sections_) names.push_back(entry.first);
  return names;
}

std::vector<std::string> File::keys(const std::string& section) const {
  std::vector<std::string> names;
  if (const auto s = sections_.find(section); s != sections_.end()) {
    for (const auto& entry : s->second) names.push_back(entry.first);
  }
  return names;
}

const File::Value& File::find(const std::string& section, const std::string& key) const {
  if (!has(section, key)) throw Error(path_ + ": key '" + key + "' is missing from section [" + section + "]");
  return sections_.at(section).at(key);
}

void File::refuse(const Value& value, const std::string& key, const std::string& wanted) const {
  throw Error(path_ + ":" + std::to_string(value.line) + ": " + key + " = " + in_quotes(value.text) + " is not " +
              wanted);
}

const std::string& File::text(const std::string& section, const std::string& key) const {
  const Value& value = find(section, key);
  if (value.text.empty()) refuse(value, key, "a text");
  return value.text;
}

double File::number(const std::string& section, const std::string& key) const {
  const Value& value = find(section, key);
  char* end = nullptr;
  const double number = std::strtod(value.text.c_str(), &end);
  if (value.text.empty() || *end != '\0' || !std::isfinite(number)) refuse(value, key, "a number");
  return number;
}

std::uint64_t File::count(const std::string& section, const std::string& key) const {
  const Value& value = find(section, key);
  char* end = nullptr;
  errno = 0;
  const unsigned long long count = std::strtoull(value.text.c_str(), &end, 10);
  if (value.text.empty() || value.text.front() < '0' || value.text.front() > '9' || *end != '\0' || errno == ERANGE) {
    refuse(value, key, "a whole number");
  }
  return count;
}

std::string File::text_or(const std::string& section, const std::string& key, const std::string& otherwise) const {
  return has(section, key) ? text(section, key) : otherwise;
}

double File::number_or(const std::string& section, const std::string& key, double otherwise) const {
  return has(section, key) ? number(section, key) : otherwise;
}

}  // namespace hostcuda::ini
