/* SPDX-License-Identifier: Apache-2.0 */
/* Random calls. All ranks draw the same ones from the same seed, whichever library runs them. */
#ifndef DRAW_H_
#define DRAW_H_

#include <nccl.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

/* splitmix64: the same sequence with every compiler and library. */
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t n) { return bits() % n; }
  bool percent(int p) { return below(100) < (uint64_t)p; }
  template<typename T>
  T const& of(std::vector<T> const& list) {
    return list[below(list.size())];
  }

 private:
  uint64_t state_;
};

enum Kind { AllReduce, AllGather, ReduceScatter, Broadcast, Reduce, ManyBroadcasts, AlltoAll, Gather, Scatter, Shift,
            Pairs };
inline const char* kindName(Kind kind) {
  static const char* names[] = {"AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "ManyBroadcasts",
                                "AlltoAll", "Gather", "Scatter", "Shift", "Pairs"};
  return names[kind];
}
inline bool reduces(Kind kind) { return kind == AllReduce || kind == ReduceScatter || kind == Reduce; }

/* An operation of the caller and what makes it: `user` has a scalar of its own. */
enum Op { Sum, Prod, Max, Min, Avg, PreMulHost, PreMulDevice };
inline const char* opName(Op op) {
  static const char* names[] = {"sum", "prod", "max", "min", "avg", "premul-host", "premul-device"};
  return names[op];
}

struct Type {
  ncclDataType_t value;
  const char* name; /* as device functions are named */
  int bytes;
  int exponentBits, mantissaBits; /* of floats */
};
inline std::vector<Type> const& types() {
  static const std::vector<Type> all = {
    {ncclInt8, "i8", 1, 0, 0}, {ncclUint8, "u8", 1, 0, 0}, {ncclInt32, "i32", 4, 0, 0}, {ncclUint32, "u32", 4, 0, 0},
    {ncclInt64, "i64", 8, 0, 0}, {ncclUint64, "u64", 8, 0, 0}, {ncclFloat16, "f16", 2, 5, 10},
    {ncclFloat32, "f32", 4, 8, 23}, {ncclFloat64, "f64", 8, 11, 52}, {ncclBfloat16, "bf16", 2, 8, 7},
    {ncclFloat8e4m3, "f8e4m3", 1, 4, 3}, {ncclFloat8e5m2, "f8e5m2", 1, 5, 2}};
  return all;
}

/* A collective with operation and type that the library holds a device function for. */
struct Reduction {
  Kind kind;
  Op op;
  Type type;
};

struct Call {
  Kind kind;
  Type type;
  Op op;
  int comm;
  int stream;
  size_t count;
  int root;
  int shift;
  bool inPlace;
  int misaligned; /* elements */
  uint64_t scalar;
  uint64_t seed;  /* of whatever differs by rank */
};

inline std::string describe(Call const& c) {
  std::string text = kindName(c.kind) + std::string(" ") + c.type.name + " " + std::to_string(c.count);
  if (reduces(c.kind)) text += std::string(" ") + opName(c.op);
  text += " root " + std::to_string(c.root) + " comm " + std::to_string(c.comm) + " stream " + std::to_string(c.stream);
  text += c.inPlace ? " in place" : "";
  return text + (c.misaligned != 0 ? " +" + std::to_string(c.misaligned) : "");
}

/* "AllReduce Sum f32" -> what a caller can ask of that function. */
inline void addReductions(std::string const& words, std::vector<Reduction>* all) {
  size_t first = words.find(' '), second = words.find(' ', first + 1);
  std::string collective = words.substr(0, first), op = words.substr(first + 1, second - first - 1);
  std::string type = words.substr(second + 1);
  for (Kind kind : {AllReduce, ReduceScatter, Reduce}) {
    if (collective != kindName(kind)) continue;
    for (Type const& t : types()) {
      if (type != t.name) continue;
      std::vector<Op> ops;
      if (op == "Sum") ops = {Sum};
      if (op == "Prod") ops = {Prod};
      if (op == "MinMax") ops = {Min, Max};
      if (op == "SumPostDiv") ops = {Avg};
      if (op == "PreMulSum") ops = {PreMulHost, PreMulDevice};
      if (op == "PreMulSum" && t.exponentBits != 0) ops.push_back(Avg);
      for (Op o : ops) all->push_back({kind, o, t});
    }
  }
}

/* Whether each rank has as much as the call says, and not that much for every rank. */
inline bool isWhole(Kind kind) { return kind == AllReduce || kind == Broadcast || kind == Reduce || kind == Shift; }

struct Limits {
  size_t mostBytes; /* of the larger buffer of one call */
  int nRanks, nComms, nStreams;
};

/* Most calls are small: what is decided by size is decided below a MiB. */
inline size_t drawCount(Random& random, size_t most) {
  if (random.percent(12)) return random.below(4);
  size_t bits = random.percent(75) ? 14 : 64;
  size_t top = most;
  size_t limit = 1;
  for (size_t b = 0; b < bits && limit < top; b++) limit *= 2;
  limit = std::min(limit, top);
  size_t bound = 1; /* log-uniform */
  int doublings = 0;
  while ((bound << doublings) < limit) doublings++;
  bound = std::min(limit, bound << random.below(doublings + 1));
  return 1 + random.below(bound);
}

inline Call drawCall(Random& random, std::vector<Reduction> const& reductions, Limits const& limits) {
  Call c = {};
  static const std::vector<Kind> kinds = {
    AllReduce, AllReduce, AllReduce, AllGather, AllGather, ReduceScatter, ReduceScatter, Broadcast, Broadcast, Reduce,
    ManyBroadcasts, AlltoAll, Gather, Scatter, Shift, Pairs, Pairs};
  c.kind = random.of(kinds);
  c.type = random.of(types());
  if (reduces(c.kind)) {
    std::vector<Reduction> fitting;
    for (Reduction const& r : reductions) {
      if (r.kind == c.kind) fitting.push_back(r);
    }
    if (fitting.empty()) {
      c.kind = AllGather;
    } else {
      Reduction const& r = random.of(fitting);
      c.op = r.op;
      c.type = r.type;
    }
  }
  c.comm = (int)random.below(limits.nComms);
  c.stream = (int)random.below(limits.nStreams);
  c.count = drawCount(random, limits.mostBytes / c.type.bytes / (isWhole(c.kind) ? 1 : limits.nRanks));
  c.root = (int)random.below(limits.nRanks); /* modulo the communicator's size */
  c.shift = (int)random.below(limits.nRanks);
  c.inPlace = random.percent(30) && c.kind <= Reduce;
  c.misaligned = random.percent(20) ? 1 + (int)random.below(3) : 0;
  c.scalar = random.bits();
  c.seed = random.bits();
  return c;
}

/* A call of the same collective, type and operation on the same communicator, and no larger. */
inline Call anotherOf(Call const& first, Call const& drawn) {
  Call c = first;
  c.count = std::min(first.count, first.count / 8 + drawn.count);
  c.root = drawn.root;
  c.seed = drawn.seed;
  c.misaligned = drawn.misaligned;
  return c;
}

#endif
