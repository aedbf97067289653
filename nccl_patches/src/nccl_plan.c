/* SPDX-License-Identifier: Apache-2.0 */
/* Reads, checks, matches and writes plans; see nccl_plan.h. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "nccl_plan.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  colCollective,
  colMinBytes,
  colMaxBytes,
  colAlgorithm,
  colProtocol,
  colChannels,
  colNodes,
  colRanks,
  colPipeOps,
  colRegBuff,
  colThreads,
  colChunkBytes,
  colCall,
  colCount
};
#define COLUMNS_REQUIRED (colRanks + 1)
#define MAX_FILE_BYTES ((size_t)256 << 20)

static const char* const columnNames[colCount] = {
  "collective", "min_bytes", "max_bytes", "algorithm", "protocol", "channels", "nNodes", "nRanks",
  "numPipeOps", "regBuff", "threads", "chunk_bytes", "call"};
static const char* const collectiveNames[ncclKnobNumCollectives] = {
  "broadcast", "reduce", "allgather", "reducescatter", "allreduce"};
static const char* const algorithmNames[ncclKnobNumAlgorithms] = {
  "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
static const char* const protocolNames[ncclKnobNumProtocols] = {"ll", "ll128", "simple"};
/* Collectives that NCCL has and that take no knobs: named so that the refusal can say so. */
static const char* const uncontrolledNames[] = {"sendrecv", "send", "recv", "alltoall", "gather", "scatter",
                                                "allgatherv", "put", "signal"};

/* ---- names ---- */

static const char* nameAt(const char* const* names, int count, int index) {
  return index >= 0 && index < count ? names[index] : NULL;
}
static int indexOf(const char* const* names, int count, const char* name) {
  for (int i = 0; i < count; i++) {
    if (strcmp(names[i], name) == 0) return i;
  }
  return -1;
}

const char* ncclPlanCollectiveName(int c) { return nameAt(collectiveNames, ncclKnobNumCollectives, c); }
const char* ncclPlanAlgorithmName(int a) { return nameAt(algorithmNames, ncclKnobNumAlgorithms, a); }
const char* ncclPlanProtocolName(int p) { return nameAt(protocolNames, ncclKnobNumProtocols, p); }
int ncclPlanCollective(const char* name) { return indexOf(collectiveNames, ncclKnobNumCollectives, name); }
int ncclPlanAlgorithm(const char* name) { return indexOf(algorithmNames, ncclKnobNumAlgorithms, name); }
int ncclPlanProtocol(const char* name) { return indexOf(protocolNames, ncclKnobNumProtocols, name); }
const char* ncclPlanColumn(int index) { return nameAt(columnNames, colCount, index); }

const char* ncclPlanHeader(void) {
  return "collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff,threads,"
         "chunk_bytes,call";
}

/* ---- limits ---- */

static int refuse(char* reason, size_t reasonBytes, const char* format, ...) __attribute__((format(printf, 3, 4)));
static int refuse(char* reason, size_t reasonBytes, const char* format, ...) {
  if (reason != NULL && reasonBytes > 0) {
    va_list args;
    va_start(args, format);
    vsnprintf(reason, reasonBytes, format, args);
    va_end(args);
  }
  return -1;
}

/* Where the limits come from: docs/knobs.md, table of limits. */
static const struct {
  int min, max, multiple;
} threadLimits[ncclKnobNumAlgorithms][ncclKnobNumProtocols] = {
  /* tree: two groups that share the block. LL and LL128 give 7/10 of the warps to the first, Simple half. */
  {{64, 640, 32}, {96, 640, 32}, {64, 640, 64}},
  {{64, 512, 32}, {96, 640, 32}, {64, 544, 32}},
  {{0}}, {{0}}, {{0}}, {{0}}, {{0}}};

int ncclPlanCheckThreads(int algorithm, int protocol, int nThreads, char* reason, size_t reasonBytes) {
  const char* a = ncclPlanAlgorithmName(algorithm);
  const char* p = ncclPlanProtocolName(protocol);
  if (a == NULL || p == NULL) return refuse(reason, reasonBytes, "no such algorithm or protocol");
  int min = threadLimits[algorithm][protocol].min, max = threadLimits[algorithm][protocol].max;
  int multiple = threadLimits[algorithm][protocol].multiple;
  if (multiple == 0) {
    return refuse(reason, reasonBytes, "threads=%d: %s does not run with a chosen number of threads", nThreads, a);
  }
  if (nThreads < min || nThreads > max || nThreads % multiple != 0) {
    return refuse(reason, reasonBytes, "threads=%d: %s/%s runs with %d to %d, in multiples of %d", nThreads, a, p, min,
                  max, multiple);
  }
  return 0;
}

int64_t ncclPlanChunkGrain(int protocol) {
  switch (protocol) {
  case ncclKnobLL: return 16;
  case ncclKnobLL128: return 1920;
  case ncclKnobSimple: return 512;
  default: return 0;
  }
}

int64_t ncclPlanChunkMax(int algorithm, int protocol) {
  if (algorithm != ncclKnobRing && algorithm != ncclKnobTree) return 0;
  switch (protocol) {
  case ncclKnobLL: return 32768;
  case ncclKnobLL128: return 576000;
  case ncclKnobSimple: return algorithm == ncclKnobRing ? 2 << 20 : 512 << 10;
  default: return 0;
  }
}

int ncclPlanCheckChunk(int algorithm, int protocol, int64_t chunkBytes, int64_t maxChunkBytes, char* reason,
                       size_t reasonBytes) {
  const char* a = ncclPlanAlgorithmName(algorithm);
  const char* p = ncclPlanProtocolName(protocol);
  int64_t grain = ncclPlanChunkGrain(protocol);
  if (a == NULL || p == NULL) return refuse(reason, reasonBytes, "no such algorithm or protocol");
  if (chunkBytes < grain || chunkBytes > maxChunkBytes || chunkBytes % grain != 0) {
    return refuse(reason, reasonBytes, "chunk_bytes=%lld: %s/%s runs with %lld to %lld, in multiples of %lld",
                  (long long)chunkBytes, a, p, (long long)grain, (long long)(maxChunkBytes / grain * grain),
                  (long long)grain);
  }
  return 0;
}

static int checkField(int* field, int column) {
  if (field != NULL) *field = column;
  return 0;
}

int ncclPlanCheckRule(const ncclKnobRule* rule, int* field, char* reason, size_t reasonBytes) {
  const ncclKnobs* k = &rule->knobs;
  checkField(field, colCollective);
  if (rule->size != sizeof(ncclKnobRule) || rule->version != NCCL_KNOB_RULE_VERSION ||
      k->size != sizeof(ncclKnobs) || k->version != NCCL_KNOBS_VERSION) {
    return refuse(reason, reasonBytes, "size or version of the rule is not that of this library (rule %zu/%u, knobs "
                  "%zu/%u)", sizeof(ncclKnobRule), NCCL_KNOB_RULE_VERSION, sizeof(ncclKnobs), NCCL_KNOBS_VERSION);
  }
  if (ncclPlanCollectiveName(rule->collective) == NULL) {
    return refuse(reason, reasonBytes, "collective=%d: 0 to %d", rule->collective, ncclKnobNumCollectives - 1);
  }

  checkField(field, colMinBytes);
  if (rule->minBytes < -1) return refuse(reason, reasonBytes, "min_bytes=%lld: -1, 0 or more", (long long)rule->minBytes);
  checkField(field, colMaxBytes);
  if (rule->maxBytes < -1) return refuse(reason, reasonBytes, "max_bytes=%lld: -1, 0 or more", (long long)rule->maxBytes);
  if (rule->maxBytes != -1 && rule->maxBytes < rule->minBytes) {
    return refuse(reason, reasonBytes, "max_bytes=%lld is less than min_bytes=%lld", (long long)rule->maxBytes,
                  (long long)rule->minBytes);
  }

  checkField(field, colAlgorithm);
  if (k->algorithm < -1 || k->algorithm >= ncclKnobNumAlgorithms) {
    return refuse(reason, reasonBytes, "algorithm=%d: -1 to %d", k->algorithm, ncclKnobNumAlgorithms - 1);
  }
  if (k->algorithm == ncclKnobTree && rule->collective != ncclKnobAllReduce) {
    return refuse(reason, reasonBytes, "algorithm=tree: NCCL has it for allreduce only, not for %s",
                  ncclPlanCollectiveName(rule->collective));
  }
  checkField(field, colProtocol);
  if (k->protocol < -1 || k->protocol >= ncclKnobNumProtocols) {
    return refuse(reason, reasonBytes, "protocol=%d: -1 to %d", k->protocol, ncclKnobNumProtocols - 1);
  }
  if (k->algorithm > ncclKnobRing && k->protocol != -1 && k->protocol != ncclKnobSimple) {
    return refuse(reason, reasonBytes, "protocol=%s: algorithm %s has simple only", ncclPlanProtocolName(k->protocol),
                  ncclPlanAlgorithmName(k->algorithm));
  }
  checkField(field, colChannels);
  if (k->nChannels != -1 && (k->nChannels < 1 || k->nChannels > NCCL_KNOB_MAX_CHANNELS)) {
    return refuse(reason, reasonBytes, "channels=%d: -1 or 1 to %d", k->nChannels, NCCL_KNOB_MAX_CHANNELS);
  }
  checkField(field, colNodes);
  if (rule->nNodes != -1 && rule->nNodes < 1) return refuse(reason, reasonBytes, "nNodes=%d: -1, 1 or more", rule->nNodes);
  checkField(field, colRanks);
  if (rule->nRanks != -1 && rule->nRanks < 1) return refuse(reason, reasonBytes, "nRanks=%d: -1, 1 or more", rule->nRanks);

  checkField(field, colThreads);
  if (k->nThreads != -1) {
    if (k->nThreads < 64 || k->nThreads > 640 || k->nThreads % 32 != 0) {
      return refuse(reason, reasonBytes, "threads=%d: -1 or 64 to 640, in multiples of 32", k->nThreads);
    }
    if (k->algorithm >= 0 && k->algorithm <= ncclKnobRing && k->protocol >= 0 &&
        ncclPlanCheckThreads(k->algorithm, k->protocol, k->nThreads, reason, reasonBytes) != 0) {
      return -1;
    }
  }
  checkField(field, colChunkBytes);
  if (k->chunkBytes != -1) {
    int64_t grain = k->protocol == -1 ? 16 : ncclPlanChunkGrain(k->protocol);
    if (k->chunkBytes < grain || k->chunkBytes % grain != 0) {
      return refuse(reason, reasonBytes, "chunk_bytes=%d: -1 or a multiple of %lld%s%s", k->chunkBytes,
                    (long long)grain, k->protocol == -1 ? "" : " with protocol ",
                    k->protocol == -1 ? "" : ncclPlanProtocolName(k->protocol));
    }
  }
  checkField(field, colCall);
  if (rule->callIndex != -1 || rule->callPeriod != -1) {
    return refuse(reason, reasonBytes, "call=%d/%d: only -1; this version does not match calls by their position",
                  rule->callIndex, rule->callPeriod);
  }
  return 0;
}

/* ---- parsing ---- */

typedef struct {
  const char* file;
  ncclPlanError* error;
  int line;
} parser;

static int failAt(parser* p, int column, const char* format, ...) __attribute__((format(printf, 3, 4)));
static int failAt(parser* p, int column, const char* format, ...) {
  if (p->error == NULL) return -1;
  memset(p->error, 0, sizeof(*p->error));
  p->error->line = p->line;
  p->error->column = column;
  snprintf(p->error->file, sizeof(p->error->file), "%s", p->file);
  va_list args;
  va_start(args, format);
  vsnprintf(p->error->reason, sizeof(p->error->reason), format, args);
  va_end(args);
  return -1;
}

/* A field without the blanks around it. `column` counts bytes of the line from 1. */
typedef struct {
  const char* at;
  size_t length;
  int column;
} fieldText;

/* The field as a C string for names and messages: cut short where it is absurdly long, unprintable bytes as '?'. */
static const char* shown(fieldText f, char* buffer, size_t bufferBytes) {
  size_t n = f.length < bufferBytes - 1 ? f.length : bufferBytes - 1;
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)f.at[i];
    buffer[i] = c >= 0x20 && c < 0x7f ? (char)c : '?';
  }
  buffer[n] = '\0';
  if (f.length > n && n > 3) memcpy(buffer + n - 3, "...", 3);
  return buffer;
}

static bool equals(fieldText f, const char* word) {
  return strlen(word) == f.length && memcmp(word, f.at, f.length) == 0;
}

/* Decimal digits, or -1. Anything else fails: a sign, a suffix, a fraction, a number past `max`. */
static int parseNumber(parser* p, fieldText f, const char* name, int64_t max, int64_t* out) {
  char text[48];
  if (equals(f, "-1")) {
    *out = -1;
    return 0;
  }
  int64_t value = 0;
  for (size_t i = 0; i < f.length; i++) {
    if (f.at[i] < '0' || f.at[i] > '9') {
      return failAt(p, f.column, "%s is '%s': a whole number is needed, or -1 for not set", name,
                    shown(f, text, sizeof(text)));
    }
    int digit = f.at[i] - '0';
    if (value > (max - digit) / 10) {
      return failAt(p, f.column, "%s is %s: at most %lld", name, shown(f, text, sizeof(text)), (long long)max);
    }
    value = value * 10 + digit;
  }
  *out = value;
  return 0;
}

static int parseInt(parser* p, fieldText f, const char* name, int32_t* out) {
  int64_t value;
  if (parseNumber(p, f, name, INT32_MAX, &value) != 0) return -1;
  *out = (int32_t)value;
  return 0;
}

static void listNames(const char* const* names, int count, char* out, size_t outBytes) {
  size_t used = 0;
  out[0] = '\0';
  for (int i = 0; i < count && used < outBytes; i++) {
    used += (size_t)snprintf(out + used, outBytes - used, "%s%s", i == 0 ? "" : ", ", names[i]);
  }
}

static int parseName(parser* p, fieldText f, const char* name, const char* const* names, int count, bool optional,
                     int32_t* out) {
  if (optional && equals(f, "-1")) {
    *out = NCCL_KNOB_UNSET;
    return 0;
  }
  for (int i = 0; i < count; i++) {
    if (equals(f, names[i])) {
      *out = i;
      return 0;
    }
  }
  char allowed[160], text[48];
  listNames(names, count, allowed, sizeof(allowed));
  return failAt(p, f.column, "unknown %s '%s'; allowed: %s%s", name, shown(f, text, sizeof(text)), allowed,
                optional ? ", or -1" : "");
}

static int parseCollective(parser* p, fieldText f, int32_t* out) {
  for (size_t i = 0; i < sizeof(uncontrolledNames) / sizeof(uncontrolledNames[0]); i++) {
    if (equals(f, uncontrolledNames[i])) {
      char allowed[160];
      listNames(collectiveNames, ncclKnobNumCollectives, allowed, sizeof(allowed));
      return failAt(p, f.column, "collective '%s' has no knobs yet; allowed: %s", uncontrolledNames[i], allowed);
    }
  }
  return parseName(p, f, "collective", collectiveNames, ncclKnobNumCollectives, false, out);
}

/* NCCL knows these two only after it has grouped calls, or on one rank alone: matching them could split the ranks. */
static int parseMustBeUnset(parser* p, fieldText f, const char* name) {
  char text[48];
  if (equals(f, "-1")) return 0;
  return failAt(p, f.column, "%s is '%s': only -1 can be loaded, ranks could differ in any other", name,
                shown(f, text, sizeof(text)));
}

static int parseCall(parser* p, fieldText f, ncclKnobRule* rule) {
  char text[48];
  if (equals(f, "-1")) {
    rule->callIndex = rule->callPeriod = NCCL_KNOB_UNSET;
    return 0;
  }
  return failAt(p, f.column, "call is '%s': only -1; this version does not match calls by their position",
                shown(f, text, sizeof(text)));
}

/* Splits one line at its commas. Returns the number of fields; more than colCount are counted, not stored. */
static int splitLine(const char* line, size_t length, fieldText* fields) {
  int n = 0;
  size_t start = 0;
  for (size_t i = 0; i <= length; i++) {
    if (i < length && line[i] != ',') continue;
    if (n < colCount) {
      size_t from = start, to = i;
      while (from < to && (line[from] == ' ' || line[from] == '\t')) from++;
      while (to > from && (line[to - 1] == ' ' || line[to - 1] == '\t')) to--;
      fields[n].at = line + from;
      fields[n].length = to - from;
      fields[n].column = from >= INT_MAX ? INT_MAX : (int)from + 1;
    }
    n++;
    start = i + 1;
  }
  return n;
}

static int parseHeader(parser* p, const fieldText* fields, int nFields) {
  for (int c = 0; c < nFields && c < colCount; c++) {
    char text[48];
    if (!equals(fields[c], columnNames[c])) {
      return failAt(p, fields[c].column, "unknown column '%s'; column %d is '%s'",
                    shown(fields[c], text, sizeof(text)), c + 1, columnNames[c]);
    }
  }
  return 0;
}

static int parseRule(parser* p, const fieldText* fields, int nFields, ncclKnobRule* rule) {
  static const ncclKnobRule empty = NCCL_KNOB_RULE_INITIALIZER;
  *rule = empty;
  rule->line = p->line;
  int64_t chunk = NCCL_KNOB_UNSET;
  for (int c = 0; c < nFields; c++) {
    fieldText f = fields[c];
    const char* name = columnNames[c];
    int bad = 0;
    if (f.length == 0) return failAt(p, f.column, "%s is empty; write -1 for not set", name);
    switch (c) {
    case colCollective: bad = parseCollective(p, f, &rule->collective); break;
    case colMinBytes: bad = parseNumber(p, f, name, INT64_MAX, &rule->minBytes); break;
    case colMaxBytes: bad = parseNumber(p, f, name, INT64_MAX, &rule->maxBytes); break;
    case colAlgorithm:
      bad = parseName(p, f, name, algorithmNames, ncclKnobNumAlgorithms, true, &rule->knobs.algorithm);
      break;
    case colProtocol:
      bad = parseName(p, f, name, protocolNames, ncclKnobNumProtocols, true, &rule->knobs.protocol);
      break;
    case colChannels: bad = parseInt(p, f, name, &rule->knobs.nChannels); break;
    case colNodes: bad = parseInt(p, f, name, &rule->nNodes); break;
    case colRanks: bad = parseInt(p, f, name, &rule->nRanks); break;
    case colPipeOps:
    case colRegBuff: bad = parseMustBeUnset(p, f, name); break;
    case colThreads: bad = parseInt(p, f, name, &rule->knobs.nThreads); break;
    case colChunkBytes: bad = parseNumber(p, f, name, INT32_MAX, &chunk); break;
    case colCall: bad = parseCall(p, f, rule); break;
    }
    if (bad) return -1;
  }
  rule->knobs.chunkBytes = (int32_t)chunk;
  int column = 0;
  char reason[400];
  if (ncclPlanCheckRule(rule, &column, reason, sizeof(reason)) != 0) {
    return failAt(p, column < nFields ? fields[column].column : 1, "%s", reason);
  }
  return 0;
}

static int appendRule(parser* p, ncclPlan* plan, int* capacity, const ncclKnobRule* rule) {
  if (plan->nRules == *capacity) {
    int larger = *capacity == 0 ? 16 : *capacity * 2;
    ncclKnobRule* rules = realloc(plan->rules, (size_t)larger * sizeof(ncclKnobRule));
    if (rules == NULL) return failAt(p, 1, "no memory for %d rules", larger);
    plan->rules = rules;
    *capacity = larger;
  }
  plan->rules[plan->nRules++] = *rule;
  return 0;
}

/* One line without its end. */
static int parseLine(parser* p, const char* line, size_t length, bool* headerAllowed, ncclPlan* plan, int* capacity) {
  size_t first = 0;
  while (first < length && (line[first] == ' ' || line[first] == '\t')) first++;
  if (first == length || line[first] == '#') return 0;
  const char* nul = memchr(line, '\0', length);
  if (nul != NULL) return failAt(p, (int)(nul - line) + 1, "a zero byte; a plan is text");

  fieldText fields[colCount];
  int nFields = splitLine(line, length, fields);
  if (nFields > colCount) {
    return failAt(p, fields[colCount - 1].column, "%d fields; at most %d: %s", nFields, colCount, ncclPlanHeader());
  }
  bool header = *headerAllowed && equals(fields[0], columnNames[0]);
  *headerAllowed = false;
  if (header) return parseHeader(p, fields, nFields);
  if (nFields < COLUMNS_REQUIRED) {
    return failAt(p, 1, "%d fields; at least the first %d are needed: %s", nFields, COLUMNS_REQUIRED,
                  ncclPlanHeader());
  }
  ncclKnobRule rule;
  if (parseRule(p, fields, nFields, &rule) != 0) return -1;
  return appendRule(p, plan, capacity, &rule);
}

int ncclPlanParse(const char* text, size_t length, const char* file, ncclPlan* plan, ncclPlanError* error) {
  parser p = {file == NULL ? "" : file, error, 0};
  int capacity = 0;
  bool headerAllowed = true;
  memset(plan, 0, sizeof(*plan));
  /* Spreadsheets begin a file with a byte order mark. */
  size_t at = length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
  while (at < length) {
    const char* line = text + at;
    const char* end = memchr(line, '\n', length - at);
    size_t lineBytes = end == NULL ? length - at : (size_t)(end - line);
    at += lineBytes + 1;
    p.line++;
    if (lineBytes > 0 && line[lineBytes - 1] == '\r') lineBytes--;
    int bad = lineBytes > INT_MAX ? failAt(&p, 1, "a line of %zu bytes", lineBytes)
                                  : parseLine(&p, line, lineBytes, &headerAllowed, plan, &capacity);
    if (bad) {
      ncclPlanFree(plan);
      return -1;
    }
  }
  plan->digest = ncclPlanDigest(plan->rules, plan->nRules);
  return 0;
}

/* ---- files ---- */

static bool sameState(const struct stat* a, const struct stat* b) {
  return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
         a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

int ncclPlanRead(const char* path, ncclPlan* plan, ncclPlanError* error) {
  parser p = {path, error, 0};
  struct stat before, after;
  memset(plan, 0, sizeof(*plan));
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return failAt(&p, 0, "cannot be opened: %s", strerror(errno));
  char* text = NULL;
  int result = -1;
  if (fstat(fd, &before) != 0) {
    failAt(&p, 0, "cannot be read: %s", strerror(errno));
  } else if (!S_ISREG(before.st_mode)) {
    failAt(&p, 0, "is not a file");
  } else if ((uint64_t)before.st_size > MAX_FILE_BYTES) {
    failAt(&p, 0, "has %lld bytes; at most %zu", (long long)before.st_size, MAX_FILE_BYTES);
  } else if ((text = malloc((size_t)before.st_size + 1)) == NULL) {
    failAt(&p, 0, "no memory for its %lld bytes", (long long)before.st_size);
  } else {
    size_t length = 0, room = (size_t)before.st_size + 1;
    ssize_t got;
    while (length < room && ((got = read(fd, text + length, room - length)) > 0 || (got < 0 && errno == EINTR))) {
      if (got > 0) length += (size_t)got;
    }
    if (length < room && got < 0) {
      failAt(&p, 0, "cannot be read: %s", strerror(errno));
    } else if (fstat(fd, &after) != 0 || !sameState(&before, &after) || length != (size_t)before.st_size) {
      failAt(&p, 0, "changed while it was read");
    } else {
      result = ncclPlanParse(text, length, path, plan, error);
    }
  }
  free(text);
  close(fd);
  return result;
}

void ncclPlanFree(ncclPlan* plan) {
  if (plan == NULL) return;
  free(plan->rules);
  memset(plan, 0, sizeof(*plan));
}

/* ---- matching and writing ---- */

int ncclPlanMatch(const ncclKnobRule* rules, int nRules, const ncclPlanCall* call) {
  for (int i = 0; i < nRules; i++) {
    const ncclKnobRule* r = &rules[i];
    if (r->collective != call->collective) continue;
    if (r->minBytes != -1 && call->bytes < (uint64_t)r->minBytes) continue;
    if (r->maxBytes != -1 && call->bytes > (uint64_t)r->maxBytes) continue;
    if (r->nNodes != -1 && r->nNodes != call->nNodes) continue;
    if (r->nRanks != -1 && r->nRanks != call->nRanks) continue;
    return i;
  }
  return -1;
}

static const char* nameOrUnset(const char* name) { return name == NULL ? "-1" : name; }

int ncclPlanFormatRule(const ncclKnobRule* r, char* out, size_t outBytes) {
  const char* collective = ncclPlanCollectiveName(r->collective);
  char call[32] = "-1";
  if (r->callPeriod != -1) snprintf(call, sizeof(call), "%d/%d", r->callIndex, r->callPeriod);
  return snprintf(out, outBytes, "%s,%lld,%lld,%s,%s,%d,%d,%d,-1,-1,%d,%d,%s", collective == NULL ? "?" : collective,
                  (long long)r->minBytes, (long long)r->maxBytes,
                  nameOrUnset(ncclPlanAlgorithmName(r->knobs.algorithm)),
                  nameOrUnset(ncclPlanProtocolName(r->knobs.protocol)), r->knobs.nChannels, r->nNodes, r->nRanks,
                  r->knobs.nThreads, r->knobs.chunkBytes, call);
}

/* FNV-1a over the rules as they would be written. */
uint64_t ncclPlanDigest(const ncclKnobRule* rules, int nRules) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (int i = 0; i < nRules; i++) {
    char line[256];
    int n = ncclPlanFormatRule(&rules[i], line, sizeof(line) - 1);
    line[n++] = '\n';
    for (int j = 0; j < n; j++) h = (h ^ (unsigned char)line[j]) * 0x100000001b3ull;
  }
  return h;
}
