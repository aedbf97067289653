// SPDX-License-Identifier: Apache-2.0
// Device buffers whose contents are known, and every collective with a check of all it has to write. Values are whole
// numbers small enough that sums of floats are exact in any order.
#pragma once

#include "rank.h"

class Buffer {
 public:
  explicit Buffer(size_t count) : count_(count) {
    OK(cudaMalloc(reinterpret_cast<void**>(&data_), std::max<size_t>(count, 1) * sizeof(float)));
  }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  float* data() { return data_; }

  template <typename F>
  void fill(F value) {
    std::vector<float> host(count_);
    for (size_t i = 0; i < count_; ++i) host[i] = value(i);
    OK(cudaMemcpy(data_, host.data(), count_ * sizeof(float), cudaMemcpyHostToDevice));
  }

  template <typename F>
  void expect(const std::string& what, F value) {
    std::vector<float> host(count_);
    OK(cudaMemcpy(host.data(), data_, count_ * sizeof(float), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count_; ++i) {
      if (host[i] == value(i)) continue;
      say("rank %d: WRONG %s: element %zu of %zu is %g, not %g", kRank, what.c_str(), i, count_, host[i], value(i));
      std::_Exit(1);
    }
  }

 private:
  float* data_ = nullptr;
  size_t count_;
};

inline float sent(int rank, size_t i) { return static_cast<float>((i * 7 + static_cast<size_t>(rank) * 31) % 97 + 1); }

// Where an all-to-all's element comes from matters, so its values tell sender and receiver apart.
inline float sent(int from, int to, size_t i) { return sent(from * 16 + to, i); }

class Collectives {
 public:
  Collectives(ncclComm_t comm, cudaStream_t stream) : comm_(comm), stream_(stream) {
    OK(ncclCommCount(comm, &ranks_));
    OK(ncclCommUserRank(comm, &rank_));
  }

  void all_reduce(size_t count) {
    Buffer send(count), recv(count);
    send.fill([&](size_t i) { return sent(rank_, i); });
    recv.fill([](size_t) { return -1.f; });
    ready(ncclAllReduce(send.data(), recv.data(), count, ncclFloat, ncclSum, comm_, stream_));
    recv.expect(named("all_reduce", count), [&](size_t i) { return sum(i); });
  }

  void reduce(size_t count, int root) {
    Buffer send(count), recv(count);
    send.fill([&](size_t i) { return sent(rank_, i); });
    recv.fill([](size_t) { return -1.f; });
    ready(ncclReduce(send.data(), recv.data(), count, ncclFloat, ncclSum, root, comm_, stream_));
    recv.expect(named("reduce", count), [&](size_t i) { return rank_ == root ? sum(i) : -1.f; });
  }

  void broadcast(size_t count, int root) {
    Buffer send(count), recv(count);
    send.fill([&](size_t i) { return sent(rank_, i); });
    ready(ncclBroadcast(send.data(), recv.data(), count, ncclFloat, root, comm_, stream_));
    recv.expect(named("broadcast", count), [&](size_t i) { return sent(root, i); });
  }

  void all_gather(size_t count) {
    Buffer send(count), recv(count * size());
    send.fill([&](size_t i) { return sent(rank_, i); });
    ready(ncclAllGather(send.data(), recv.data(), count, ncclFloat, comm_, stream_));
    recv.expect(named("all_gather", count), [&](size_t i) { return sent(static_cast<int>(i / count), i % count); });
  }

  void reduce_scatter(size_t count) {
    Buffer send(count * size()), recv(count);
    send.fill([&](size_t i) { return sent(rank_, i); });
    ready(ncclReduceScatter(send.data(), recv.data(), count, ncclFloat, ncclSum, comm_, stream_));
    recv.expect(named("reduce_scatter", count), [&](size_t i) { return sum(i + count * static_cast<size_t>(rank_)); });
  }

  void send_recv(size_t count) {  // around the ring
    Buffer send(count), recv(count);
    const int next = (rank_ + 1) % ranks_, previous = (rank_ + ranks_ - 1) % ranks_;
    send.fill([&](size_t i) { return sent(rank_, next, i); });
    OK(ncclGroupStart());
    started(ncclSend(send.data(), count, ncclFloat, next, comm_, stream_));
    started(ncclRecv(recv.data(), count, ncclFloat, previous, comm_, stream_));
    ready(ncclGroupEnd());
    recv.expect(named("send_recv", count), [&](size_t i) { return sent(previous, rank_, i); });
  }

  void all_to_all(size_t count) {
    Buffer send(count * size()), recv(count * size());
    send.fill([&](size_t i) { return sent(rank_, static_cast<int>(i / count), i % count); });
    ready(ncclAlltoAll(send.data(), recv.data(), count, ncclFloat, comm_, stream_));
    recv.expect(named("all_to_all", count),
                [&](size_t i) { return sent(static_cast<int>(i / count), rank_, i % count); });
  }

  void every(size_t count) {
    all_reduce(count);
    reduce(count, ranks_ - 1);
    broadcast(count, ranks_ / 2);
    all_gather(count);
    reduce_scatter(count);
    send_recv(count);
    all_to_all(count);
  }

  int checked() const { return checked_; }

 private:
  void started(ncclResult_t result) { CHECK(result == ncclSuccess || result == ncclInProgress); }
  void ready(ncclResult_t result) {
    OK(settled(comm_, result));
    OK(cudaStreamSynchronize(stream_));
  }
  size_t size() const { return static_cast<size_t>(ranks_); }
  float sum(size_t i) const {
    float total = 0;
    for (int r = 0; r < ranks_; ++r) total += sent(r, i);
    return total;
  }
  std::string named(const char* what, size_t count) {
    ++checked_;
    return std::string(what) + " of " + std::to_string(count);
  }

  ncclComm_t comm_;
  cudaStream_t stream_;
  int ranks_ = 0, rank_ = 0, checked_ = 0;
};
