// SPDX-License-Identifier: Apache-2.0
// Named cases of a test program: CASE(name) { ... } adds one, and the program's first argument says which one to run.
#pragma once

#include <cstdio>
#include <map>
#include <string>

inline std::map<std::string, void (*)()>& cases() {
  static std::map<std::string, void (*)()> all;
  return all;
}

#define CASE(name)                                                            \
  static void case_##name();                                                  \
  static const bool registered_##name = (cases()[#name] = case_##name, true); \
  static void case_##name()

// Runs the case that is asked for. Where there is none such, lists all and gives 2.
inline int run_case(int argc, char** argv) {
  if (argc < 2 || cases().count(argv[1]) == 0) {
    for (const auto& entry : cases()) std::printf("%s\n", entry.first.c_str());
    return 2;
  }
  cases()[argv[1]]();
  return 0;
}
