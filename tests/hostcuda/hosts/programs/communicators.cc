// SPDX-License-Identifier: Apache-2.0
// Communicators made from others, and every way to make one. Each child is used for every collective with data checked,
// and so is its parent afterwards.
#include <memory>
#include <numeric>

#include "data.h"

namespace {

constexpr size_t kCount = 5003;

void use(ncclComm_t comm, size_t count = kCount) { Collectives(comm, stream()).every(count); }

void expect(ncclComm_t comm, int ranks, int rank) {
  int told = -1;
  OK(ncclCommCount(comm, &told));
  CHECK(told == ranks);
  OK(ncclCommUserRank(comm, &told));
  CHECK(told == rank);
}

ncclComm_t split_halves(ncclComm_t parent, ncclConfig_t* config) {
  ncclComm_t child = nullptr;
  OK(ncclCommSplit(parent, kRank % 2, -kRank, &child, config));  // keys turn the order round
  const int odd = kRanks / 2, even = kRanks - odd, size = kRank % 2 ? odd : even;
  expect(child, size, size - 1 - kRank / 2);
  return child;
}

// Something that can never complete: one rank does not take part.
void hang(ncclComm_t comm, Buffer& data) {
  OK(ncclAllReduce(data.data(), data.data(), kCount, ncclFloat, ncclSum, comm, stream()));
  nap(50);
  GIVES(cudaErrorNotReady, cudaStreamQuery(stream()));
}

ncclComm_t shrink(ncclComm_t parent, std::vector<int> excluded, int flags) {
  ncclComm_t child = nullptr;
  OK(ncclCommShrink(parent, excluded.data(), static_cast<int>(excluded.size()), &child, nullptr, flags));
  int place = kRank;
  for (const int gone : excluded) place -= gone < kRank;
  expect(child, kRanks - static_cast<int>(excluded.size()), place);
  return child;
}

}  // namespace

CASE(split) {
  ncclComm_t parent = init(), child = split_halves(parent, nullptr);
  use(child);
  use(parent);
  OK(ncclCommDestroy(child));
  use(parent);
  OK(ncclCommDestroy(parent));
}

CASE(split_nocolor) {
  ncclComm_t parent = init(), child = parent;
  OK(ncclCommSplit(parent, kRank == 0 ? NCCL_SPLIT_NOCOLOR : 7, kRank, &child, nullptr));
  if (kRank == 0) {
    CHECK(child == nullptr);
  } else {
    expect(child, kRanks - 1, kRank - 1);
    use(child);
  }
  use(parent);
  if (child != nullptr) OK(ncclCommDestroy(child));
  OK(ncclCommDestroy(parent));
}

CASE(split_arguments) {
  ncclComm_t parent = init(), child = nullptr;
  OK(ncclCommSplit(parent, 0, kRank, &child, nullptr));
  use(child);
  GIVES(ncclInvalidArgument, ncclCommSplit(nullptr, 0, 0, &child, nullptr));
  GIVES(ncclInvalidArgument, ncclCommSplit(parent, 0, 0, nullptr, nullptr));
  OK(ncclCommDestroy(child));
  OK(ncclCommDestroy(parent));
}

// The child uses the parent's channels and proxies; either may end first.
CASE(split_share) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.splitShare = 1;
  OK(cudaSetDevice(number("DEVICE", kRank)));
  ncclComm_t parent, child = nullptr, grandchild = nullptr;
  OK(ncclCommInitRankConfig(&parent, kRanks, unique_id(), kRank, &config));
  use(parent);
  OK(ncclCommSplit(parent, 0, kRanks - kRank, &child, nullptr));
  expect(child, kRanks, kRanks - 1 - kRank);
  use(child);
  use(parent);
  OK(ncclCommSplit(child, kRank % 2, kRank, &grandchild, nullptr));
  use(grandchild);
  OK(ncclCommDestroy(parent));
  use(child);
  OK(ncclCommDestroy(child));
  use(grandchild);
  OK(ncclCommDestroy(grandchild));
}

CASE(split_many) {  // more children than one at a time, used in turns
  ncclComm_t parent = init();
  std::vector<ncclComm_t> children;
  for (int i = 0; i < 5; ++i) children.push_back(split_halves(parent, nullptr));
  for (ncclComm_t child : children) Collectives(child, stream()).all_reduce(kCount);
  for (ncclComm_t child : children) OK(ncclCommDestroy(child));
  use(parent);
  OK(ncclCommDestroy(parent));
}

CASE(shrink) {
  ncclComm_t parent = init();
  use(parent);
  const int gone = kRanks / 2;
  if (kRank != gone) {
    ncclComm_t child = shrink(parent, {gone}, NCCL_SHRINK_DEFAULT);
    use(child);
    OK(ncclCommDestroy(child));
  }
  use(parent);
  OK(ncclCommDestroy(parent));
}

CASE(shrink_share) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.shrinkShare = 1;
  OK(cudaSetDevice(number("DEVICE", kRank)));
  ncclComm_t parent;
  OK(ncclCommInitRankConfig(&parent, kRanks, unique_id(), kRank, &config));
  use(parent);
  if (kRank != 0) {
    ncclComm_t child = shrink(parent, {0}, NCCL_SHRINK_DEFAULT);
    use(child);
    use(child, 1);
    OK(ncclCommDestroy(child));
  }
  use(parent);
  OK(ncclCommDestroy(parent));
}

// One rank stays away from a collective that the others are in; they give it up and go on without that rank.
CASE(shrink_abort) {
  ncclComm_t parent = init();
  use(parent);
  const int gone = kRanks - 1;
  if (kRank != gone) {
    Buffer data(kCount);
    hang(parent, data);
    ncclComm_t child = shrink(parent, {gone}, NCCL_SHRINK_ABORT);
    OK(cudaStreamSynchronize(stream()));
    use(child);
    OK(ncclCommAbort(parent));
    use(child);
    OK(ncclCommDestroy(child));
    post("shrunk");
  } else {
    for (int r = 0; r < gone; ++r) await("shrunk." + std::to_string(r));
    OK(ncclCommAbort(parent));
  }
}

CASE(shrink_arguments) {
  ncclComm_t parent = init(), child = nullptr;
  int self = kRank, none = 0;
  GIVES(ncclInvalidArgument, ncclCommShrink(parent, &self, 1, &child, nullptr, NCCL_SHRINK_DEFAULT));
  GIVES(ncclInvalidArgument, ncclCommShrink(parent, &none, 0, &child, nullptr, NCCL_SHRINK_DEFAULT));
  GIVES(ncclInvalidArgument, ncclCommShrink(parent, nullptr, 1, &child, nullptr, NCCL_SHRINK_DEFAULT));
  use(parent);
  OK(ncclCommDestroy(parent));
}

// The first ranks begin, the others join; then all of them are split again.
CASE(grow) {
  OK(cudaSetDevice(number("DEVICE", kRank)));
  const int before = number("BEFORE", kRanks / 2), maker = before - 1;
  ncclComm_t old = nullptr, grown = nullptr;
  if (kRank < before) {
    ncclUniqueId id = unique_id(), *told = nullptr, more;
    OK(ncclCommInitRank(&old, before, id, kRank));
    use(old);
    if (kRank == maker) {
      OK(ncclCommGetUniqueId(old, &more));
      publish("more", &more, sizeof more);
      told = &more;
    }
    OK(ncclCommGrow(old, kRanks, told, -1, &grown, nullptr));
  } else {
    const auto id = fetch<ncclUniqueId>("more");
    OK(ncclCommGrow(nullptr, kRanks, &id, kRank, &grown, nullptr));
  }
  expect(grown, kRanks, kRank);
  use(grown);
  if (old != nullptr) {
    use(old);
    OK(ncclCommDestroy(old));
  }
  ncclComm_t child = split_halves(grown, nullptr);
  use(child);
  OK(ncclCommDestroy(child));
  use(grown);
  OK(ncclCommDestroy(grown));
}

CASE(grow_arguments) {
  ncclComm_t comm = init(), grown = comm;
  ncclUniqueId id{};
  GIVES(ncclInvalidArgument, ncclCommGrow(comm, kRanks, nullptr, -1, &grown, nullptr));
  GIVES(ncclInvalidArgument, ncclCommGrow(comm, 0, nullptr, -1, &grown, nullptr));
  GIVES(ncclInvalidArgument, ncclCommGrow(comm, kRanks + 1, nullptr, -1, nullptr, nullptr));
  GIVES(ncclInvalidArgument, ncclCommGrow(nullptr, kRanks + 1, &id, kRanks + 1, &grown, nullptr));
  CHECK(grown == nullptr);
  GIVES(ncclInvalidArgument, ncclCommGrow(nullptr, kRanks + 1, nullptr, kRanks, &grown, nullptr));
  use(comm);
  OK(ncclCommDestroy(comm));
}

// Finalize waits for what was enqueued; destroy then waits for nobody.
CASE(finalize) {
  ncclComm_t comm = init();
  Buffer data(1 << 18);
  data.fill([](size_t) { return 1.f; });
  OK(ncclAllReduce(data.data(), data.data(), 1 << 18, ncclFloat, ncclSum, comm, stream()));
  OK(ncclCommFinalize(comm));
  data.expect("all_reduce before finalize", [](size_t) { return static_cast<float>(kRanks); });
  GIVES(ncclInvalidArgument, ncclCommFinalize(comm));
  OK(ncclCommDestroy(comm));
}

CASE(scalable) {
  OK(cudaSetDevice(number("DEVICE", kRank)));
  const int ids = number("IDS", 2);
  std::vector<ncclUniqueId> all;
  for (int i = 0; i < ids; ++i) all.push_back(unique_id("id" + std::to_string(i), i * kRanks / ids));
  ncclComm_t comm;
  OK(ncclCommInitRankScalable(&comm, kRanks, kRank, ids, all.data(), nullptr));
  use(comm);
  OK(ncclCommDestroy(comm));
}

// One process that drives all devices from one thread.
CASE(init_all) {
  const int devices = number("DEVICES");
  std::vector<ncclComm_t> comms(static_cast<size_t>(devices));
  std::vector<int> order(static_cast<size_t>(devices));
  std::iota(order.rbegin(), order.rend(), 0);
  GIVES(ncclInvalidArgument, ncclCommInitAll(comms.data(), -1, nullptr));
  std::vector<int> twice(order.size(), 0);
  if (devices > 1) GIVES(ncclInvalidUsage, ncclCommInitAll(comms.data(), devices, twice.data()));
  OK(ncclCommInitAll(comms.data(), devices, order.data()));
  std::vector<cudaStream_t> streams;
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (int i = 0; i < devices; ++i) {
    expect(comms[i], devices, i);
    int device = -1;
    OK(ncclCommCuDevice(comms[i], &device));
    CHECK(device == order[i]);
    OK(cudaSetDevice(device));
    streams.emplace_back();
    OK(cudaStreamCreateWithFlags(&streams.back(), cudaStreamNonBlocking));
    buffers.push_back(std::make_unique<Buffer>(kCount));
    buffers.back()->fill([&](size_t k) { return sent(i, k); });
  }
  OK(ncclGroupStart());
  for (int i = 0; i < devices; ++i) {
    OK(ncclAllReduce(buffers[i]->data(), buffers[i]->data(), kCount, ncclFloat, ncclSum, comms[i], streams[i]));
  }
  OK(ncclGroupEnd());
  for (int i = 0; i < devices; ++i) {
    OK(cudaSetDevice(order[i]));
    OK(cudaStreamSynchronize(streams[i]));
    buffers[i]->expect("all_reduce of one thread", [&](size_t k) {
      float total = 0;
      for (int r = 0; r < devices; ++r) total += sent(r, k);
      return total;
    });
  }
  buffers.clear();
  for (ncclComm_t comm : comms) OK(ncclCommDestroy(comm));
}

// After a revoke nothing is in flight and children can be made, but they share nothing.
CASE(revoke) {
  ncclComm_t parent = init(), child = nullptr;
  use(parent);
  Buffer data(kCount);
  if (kRank != 0) hang(parent, data);
  meet("hanging");
  GIVES(ncclInvalidArgument, ncclCommRevoke(parent, 1));
  OK(ncclCommRevoke(parent, NCCL_REVOKE_DEFAULT));
  OK(cudaStreamSynchronize(stream()));
  GIVES(ncclInvalidArgument, ncclCommRevoke(parent, NCCL_REVOKE_DEFAULT));
  GIVES(ncclInvalidArgument, ncclCommFinalize(parent));
  OK(ncclCommSplit(parent, 0, kRank, &child, nullptr));
  use(child);
  OK(ncclCommDestroy(child));
  OK(ncclCommDestroy(parent));
}

int main(int argc, char** argv) { return run_rank(argc, argv); }
