/* SPDX-License-Identifier: Apache-2.0 */
/* A test hook: LAGOM_TEST_FALSIFY=channels|threads|chunk changes the descriptor of tuned collectives behind the back of
 * their record, so that a test can show that the record notices. Data stay right. Never set it for anything else. */
#include "lagom_comm.h"

#include "core.h"

#include <cstring>

static lagomFalsehood readFalsehood() {
  const char* what = ncclGetEnv("LAGOM_TEST_FALSIFY");
  if (what == nullptr || what[0] == '\0') return lagomHonest;
  WARN("LAGOM_TEST_FALSIFY=%s: descriptors are falsified on purpose; this is for tests only", what);
  if (strcmp(what, "channels") == 0) return lagomFalseChannels;
  if (strcmp(what, "threads") == 0) return lagomFalseThreads;
  if (strcmp(what, "chunk") == 0) return lagomFalseChunk;
  return lagomHonest;
}

lagomFalsehood lagomFalsify() {
  static lagomFalsehood const falsehood = readFalsehood();
  return falsehood;
}
