/* SPDX-License-Identifier: Apache-2.0 */
/* A test hook: LAGOM_TEST_FALSIFY=channels|threads|chunk changes the descriptor of tuned collectives behind the back of
 * their record, so that a test can show that the record notices. Data stay right. Never set it for anything else. */
#include "lagom_comm.h"

#include "core.h"

#include <cstring>

static lagomFalsehood named(const char* name) {
  if (strcmp(name, "channels") == 0) return lagomFalseChannels;
  if (strcmp(name, "threads") == 0) return lagomFalseThreads;
  if (strcmp(name, "chunk") == 0) return lagomFalseChunk;
  return lagomHonest;
}

bool lagomFalsehoodKnown(const char* name) { return named(name) != lagomHonest; }

static lagomFalsehood fromEnvironment() {
  const char* name = ncclGetEnv("LAGOM_TEST_FALSIFY");
  if (name == nullptr || name[0] == '\0') return lagomHonest;
  WARN("LAGOM_TEST_FALSIFY=%s: descriptors are falsified on purpose; this is for tests only", name);
  return named(name);
}

lagomFalsehood lagomFalsify() {
  static lagomFalsehood const falsehood = fromEnvironment();
  return falsehood;
}
