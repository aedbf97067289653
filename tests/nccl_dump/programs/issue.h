/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of one process: their devices, buffers, streams and communicators, and the calls on them. */
#ifndef ISSUE_H_
#define ISSUE_H_

#include "data.h"
#include "draw.h"
#include "ranks.h"

#include <dlfcn.h>

class Issuer {
 public:
  Issuer(Job& job, int process, int nProcesses, int nDevices, int nStreams, size_t mostBytes, Random& random,
         bool dry)
      : nRanks_(nProcesses * nDevices), dry_(dry), arenaBytes_(14 * mostBytes + (8 << 20)) {
    for (int d = 0; d < nDevices; d++) {
      Local local;
      local.rank = process * nDevices + d;
      CUDA(cudaSetDevice(local.rank));
      CUDA(cudaMalloc(&local.arena, arenaBytes_));
      name(local.arena, local.rank);
      if (!dry) local.host.resize(arenaBytes_);
      local.streams.push_back(nullptr);
      for (int s = 1; s < nStreams; s++) {
        cudaStream_t stream;
        CUDA(cudaStreamCreateWithFlags(&stream, s % 2 == 0 ? cudaStreamNonBlocking : cudaStreamDefault));
        name(stream, 100 * local.rank + s);
        local.streams.push_back(stream);
      }
      locals_.push_back(std::move(local));
    }
    createCommunicators(job, process, random);
  }

  int nComms() const { return (int)locals_[0].comms.size(); }

  /* [communicator][rank of this process] */
  std::vector<std::vector<ncclComm_t>> communicators() const {
    std::vector<std::vector<ncclComm_t>> all(nComms());
    for (Local const& local : locals_) {
      for (int c = 0; c < nComms(); c++) all[c].push_back(local.comms[c].comm);
    }
    return all;
  }

  /* One call, or several as one group. */
  void issue(std::vector<Call> const& calls, FILE* results) {
    size_t room = 0;
    for (Call const& c : calls) room += 2 * spaceOf(bytesOf(c)) + spaceOf(8);
    if (used_ + room > arenaBytes_) finish(results);
    std::vector<std::vector<Place>> places; /* [call][local] */
    for (Call const& c : calls) {
      places.emplace_back();
      for (Local& local : locals_) places.back().push_back(prepare(local, c));
      used_ += 2 * spaceOf(bytesOf(c)) + spaceOf(8);
    }
    bool grouped = calls.size() > 1 || locals_.size() > 1 || calls[0].kind == ManyBroadcasts ||
                   calls[0].kind == Shift || calls[0].kind == Pairs;
    if (grouped) NCCL(ncclGroupStart());
    for (size_t i = 0; i < calls.size(); i++) {
      for (size_t l = 0; l < locals_.size(); l++) {
        CUDA(cudaSetDevice(locals_[l].rank));
        call(locals_[l], calls[i], places[i][l]);
      }
    }
    if (grouped) NCCL(ncclGroupEnd());
    for (size_t i = 0; i < calls.size(); i++) {
      for (size_t l = 0; l < locals_.size(); l++) {
        Place& place = places[i][l];
        if (place.ownOp) NCCL(ncclRedOpDestroy(place.op, locals_[l].comms[calls[i].comm].comm));
        locals_[l].pending.push_back({nCalls_ + i, calls[i], place});
      }
    }
    nCalls_ += calls.size();
  }

  /* Waits for everything and writes down what was received. */
  void finish(FILE* results) {
    for (Local& local : locals_) {
      CUDA(cudaSetDevice(local.rank));
      for (cudaStream_t stream : local.streams) CUDA(cudaStreamSynchronize(stream));
      if (!dry_) CUDA(cudaMemcpy(local.host.data(), local.arena, used_, cudaMemcpyDeviceToHost));
      for (Pending const& p : local.pending) {
        uint64_t h = dry_ ? 0 : hash(local.host.data() + (p.place.recv - local.arena), p.place.recvBytes);
        fprintf(results, "%zu rank %d: %s: %016llx\n", p.index, local.rank, describe(p.call).c_str(),
                (unsigned long long)h);
      }
      local.pending.clear();
      for (Member const& member : local.comms) {
        ncclResult_t error;
        NCCL(ncclCommGetAsyncError(member.comm, &error));
        NCCL(error);
      }
    }
    used_ = 0;
  }

  void destroy() {
    for (int c = nComms() - 1; c >= 0; c--) {
      NCCL(ncclGroupStart());
      for (Local& local : locals_) NCCL(ncclCommDestroy(local.comms[c].comm));
      NCCL(ncclGroupEnd());
    }
    for (Local& local : locals_) {
      CUDA(cudaSetDevice(local.rank));
      for (cudaStream_t stream : local.streams) {
        if (stream != nullptr) CUDA(cudaStreamDestroy(stream));
      }
      CUDA(cudaFree(local.arena));
    }
  }

 private:
  struct Member {
    ncclComm_t comm;
    int rank, size;
  };
  struct Place {
    char *send, *recv;
    size_t recvBytes;
    ncclRedOp_t op;
    bool ownOp;
  };
  struct Pending {
    size_t index;
    Call call;
    Place place;
  };
  struct Local {
    int rank;
    char* arena;
    std::vector<char> host;
    std::vector<cudaStream_t> streams;
    std::vector<Member> comms;
    std::vector<Pending> pending;
  };

  /* For the library that writes down what it launches. */
  static void name(const void* handle, int number) {
    auto named = (void (*)(const void*, int))dlsym(RTLD_DEFAULT, "ncclDumpName");
    if (named != nullptr) named(handle, number);
  }

  /* Of the larger buffer, on the largest communicator: the same on all ranks. */
  size_t bytesOf(Call const& c) const { return c.count * c.type.bytes * (isWhole(c.kind) ? 1 : nRanks_); }
  static size_t spaceOf(size_t bytes) { return (bytes + 64 + 255) / 256 * 256; }

  /* All ranks; the same ones; a half of them with its order turned round; all of them with few CTAs. */
  void createCommunicators(Job& job, int process, Random& random) {
    auto all = [&](auto create) {
      NCCL(ncclGroupStart());
      for (Local& local : locals_) {
        CUDA(cudaSetDevice(local.rank));
        local.comms.emplace_back();
        create(local, &local.comms.back().comm);
      }
      NCCL(ncclGroupEnd());
      for (Local& local : locals_) {
        Member& made = local.comms.back();
        NCCL(ncclCommUserRank(made.comm, &made.rank));
        NCCL(ncclCommCount(made.comm, &made.size));
      }
    };
    ncclUniqueId id = job.uniqueId(process);
    ncclConfig_t plain = NCCL_CONFIG_INITIALIZER;
    plain.commName = "world";
    all([&](Local& local, ncclComm_t* comm) {
      NCCL(ncclCommInitRankConfig(comm, nRanks_, id, local.rank, &plain));
    });

    ncclConfig_t shared = NCCL_CONFIG_INITIALIZER;
    shared.splitShare = (int)random.below(2);
    int halves = random.percent(10) ? nRanks_ : 2; /* or each rank by itself */
    bool turned = random.percent(50), interleaved = random.percent(50);
    all([&](Local& local, ncclComm_t* comm) {
      static const char* const names[] = {"part 0", "part 1", "part 2", "part 3", "part 4", "part 5", "part 6", "part 7"};
      int color = interleaved ? local.rank % halves : local.rank * halves / nRanks_;
      shared.commName = names[color]; /* one process may hold rank 0 of several parts */
      NCCL(ncclCommSplit(local.comms[0].comm, color, turned ? -local.rank : local.rank, comm, &shared));
    });

    ncclConfig_t few = NCCL_CONFIG_INITIALIZER;
    few.commName = "few CTAs";
    few.maxCTAs = 1 << random.below(5);
    few.minCTAs = random.percent(50) ? few.maxCTAs : 1;
    if (random.percent(50)) return;
    id = job.uniqueId(process);
    all([&](Local& local, ncclComm_t* comm) { NCCL(ncclCommInitRankConfig(comm, nRanks_, id, local.rank, &few)); });
  }

  /* Buffers with their input, and the operation. */
  Place prepare(Local& local, Call const& c) {
    CUDA(cudaSetDevice(local.rank));
    Member const& member = local.comms[c.comm];
    size_t element = c.type.bytes, n = member.size;
    bool sendsParts = c.kind == ReduceScatter || c.kind == AlltoAll || c.kind == Scatter || c.kind == Pairs ||
                      c.kind == ManyBroadcasts;
    bool receivesParts = c.kind == AllGather || c.kind == AlltoAll || c.kind == Gather || c.kind == Pairs ||
                         c.kind == ManyBroadcasts;
    size_t sendBytes = c.count * element * (sendsParts ? n : 1), recvBytes = c.count * element * (receivesParts ? n : 1);
    size_t space = spaceOf(bytesOf(c)), own = member.rank * c.count * element;
    Place place = {};
    char* first = local.arena + used_ + c.misaligned * element;
    char* second = first + space;
    place.send = first;
    place.recv = c.inPlace ? (sendsParts ? first + own : first) : second;
    place.recvBytes = recvBytes;
    if (c.inPlace && receivesParts) place.send = first + own;

    cudaStream_t stream = local.streams[c.stream];
    if (!dry_) {
      if (!c.inPlace || receivesParts) CUDA(cudaMemsetAsync(place.recv, 0xa5, recvBytes, stream));
      upload(local, place.send, sendBytes / element, c.type, c.seed + local.rank, stream);
    }
    place.op = (ncclRedOp_t)(c.op == Avg ? ncclAvg : c.op == Prod ? ncclProd : c.op == Max ? ncclMax :
                             c.op == Min ? ncclMin : ncclSum);
    if (c.op == PreMulHost || c.op == PreMulDevice) {
      char* scalar = local.arena + used_ + 2 * space;
      alignas(8) char onHost[8];
      fill(onHost, 1, c.type, c.scalar);
      if (c.op == PreMulDevice) CUDA(cudaMemcpyAsync(scalar, onHost, element, cudaMemcpyHostToDevice, stream));
      NCCL(ncclRedOpCreatePreMulSum(&place.op, c.op == PreMulHost ? onHost : scalar, c.type.value,
                                    c.op == PreMulHost ? ncclScalarHostImmediate : ncclScalarDevice, member.comm));
      place.ownOp = true;
    }
    return place;
  }

  void upload(Local& local, char* to, size_t count, Type const& type, uint64_t seed, cudaStream_t stream) {
    char* from = local.host.data() + (to - local.arena);
    fill(from, count, type, seed);
    CUDA(cudaMemcpyAsync(to, from, count * type.bytes, cudaMemcpyHostToDevice, stream));
  }

  void call(Local& local, Call const& c, Place const& p) {
    Member const& m = local.comms[c.comm];
    cudaStream_t stream = local.streams[c.stream];
    int root = c.root % m.size, n = m.size;
    ncclDataType_t type = c.type.value;
    size_t part = c.count * c.type.bytes;
    switch (c.kind) {
    case AllReduce: NCCL(ncclAllReduce(p.send, p.recv, c.count, type, p.op, m.comm, stream)); break;
    case AllGather: NCCL(ncclAllGather(p.send, p.recv, c.count, type, m.comm, stream)); break;
    case ReduceScatter: NCCL(ncclReduceScatter(p.send, p.recv, c.count, type, p.op, m.comm, stream)); break;
    case Broadcast: NCCL(ncclBroadcast(p.send, p.recv, c.count, type, root, m.comm, stream)); break;
    case Reduce: NCCL(ncclReduce(p.send, p.recv, c.count, type, p.op, root, m.comm, stream)); break;
    case AlltoAll: NCCL(ncclAlltoAll(p.send, p.recv, c.count, type, m.comm, stream)); break;
    case Gather: NCCL(ncclGather(p.send, p.recv, c.count, type, root, m.comm, stream)); break;
    case Scatter: NCCL(ncclScatter(p.send, p.recv, c.count, type, root, m.comm, stream)); break;
    case ManyBroadcasts:
      for (int r = 0; r < n; r++) {
        Random random(c.seed * 31 + r); /* each of its own size, some not at all */
        size_t count = random.percent(30) ? 0 : random.below(c.count + 1);
        NCCL(ncclBroadcast(p.send + r * part, p.recv + r * part, count, type, r, m.comm, stream));
      }
      break;
    case Shift: {
      int shift = c.shift % n;
      NCCL(ncclSend(p.send, c.count, type, (m.rank + shift) % n, m.comm, stream));
      NCCL(ncclRecv(p.recv, c.count, type, (m.rank + n - shift) % n, m.comm, stream));
      break;
    }
    case Pairs:
      for (int from = 0; from < n; from++) {
        for (int to = 0; to < n; to++) {
          Random random(c.seed * 31 + from * 8 + to);
          if (random.percent(40)) continue;
          size_t count = random.below(c.count + 1);
          if (m.rank == from) NCCL(ncclSend(p.send + to * part, count, type, to, m.comm, stream));
          if (m.rank == to) NCCL(ncclRecv(p.recv + from * part, count, type, from, m.comm, stream));
        }
      }
      break;
    }
  }

  int nRanks_;
  bool dry_;
  size_t arenaBytes_; /* six calls in a group, each with two buffers, or many small ones */
  std::vector<Local> locals_;
  size_t used_ = 0, nCalls_ = 0;
};

#endif
