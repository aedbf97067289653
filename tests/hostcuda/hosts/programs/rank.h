// SPDX-License-Identifier: Apache-2.0
// What every rank program needs: its place in the job, meeting the others through files, checks that name the line.
// A job is a set of plain processes: no MPI. The launcher tells RANK, RANKS, DEVICE and MEET, a folder of the job's
// own.
#pragma once

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <nccl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../../cases.h"

inline int number(const char* name, int otherwise = -1) {
  const char* told = std::getenv(name);
  return told == nullptr ? otherwise : std::atoi(told);
}

inline std::string text(const char* name) {
  const char* told = std::getenv(name);
  return told == nullptr ? "" : told;
}

inline const int kRank = number("RANK"), kRanks = number("RANKS");

// One whole line in one write: ranks share the launcher's pipes.
__attribute__((format(printf, 1, 2))) inline void say(const char* format, ...) {
  char line[600];
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(line, sizeof line - 1, format, arguments);
  va_end(arguments);
  const size_t bytes = std::min<size_t>(static_cast<size_t>(length), sizeof line - 2);
  line[bytes] = '\n';
  if (::write(STDOUT_FILENO, line, bytes + 1) < 0) std::_Exit(9);
}

#define CHECK(condition)                                                              \
  do {                                                                                \
    if (!(condition)) {                                                               \
      say("%s:%d: not so: %s", __FILE__, __LINE__, #condition);                       \
      std::_Exit(1);                                                                  \
    }                                                                                 \
  } while (false)

#define GIVES(expected, call)                                                         \
  do {                                                                                \
    const int got_ = static_cast<int>(call), wanted_ = static_cast<int>(expected);    \
    if (got_ != wanted_) {                                                            \
      say("%s:%d: %s gives %d, not %d: %s", __FILE__, __LINE__, #call, got_, wanted_, \
          ncclGetLastError(nullptr));                                                 \
      std::_Exit(1);                                                                  \
    }                                                                                 \
  } while (false)

#define OK(call) GIVES(0, call)

// ---- meeting through files ----

// Text becomes visible to the other ranks at once and whole.
inline void publish(const std::string& name, const void* data, size_t bytes) {
  const std::string path = text("MEET") + "/" + name, spare = path + "." + std::to_string(kRank) + ".tmp";
  std::ofstream(spare, std::ios::binary).write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  CHECK(std::rename(spare.c_str(), path.c_str()) == 0);
}

inline bool is_there(const std::string& name) { return ::access((text("MEET") + "/" + name).c_str(), F_OK) == 0; }

inline void nap(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

inline void await(const std::string& name) {
  while (!is_there(name)) nap(5);
}

// The launcher limits the whole job's time, so waiting here needs no limit of its own.
template <typename T>
T fetch(const std::string& name) {
  await(name);
  T value;
  std::ifstream in(text("MEET") + "/" + name, std::ios::binary);
  in.read(reinterpret_cast<char*>(&value), sizeof value);
  CHECK(in.gcount() == sizeof value);
  return value;
}

// A word for the launcher and for other ranks, e.g. post("ready") makes "ready.3" on rank 3.
inline void post(const std::string& word) { publish(word + "." + std::to_string(kRank), "", 0); }

inline void meet(const std::string& word, int ranks = kRanks) {
  post(word);
  for (int r = 0; r < ranks; ++r) await(word + "." + std::to_string(r));
}

inline ncclUniqueId unique_id(const std::string& name = "id", int maker = 0) {
  if (kRank == maker) {
    ncclUniqueId id;
    OK(ncclGetUniqueId(&id));
    publish(name, &id, sizeof id);
  }
  return fetch<ncclUniqueId>(name);
}

inline ncclComm_t init() {
  OK(cudaSetDevice(number("DEVICE", kRank)));
  ncclComm_t comm;
  OK(ncclCommInitRank(&comm, kRanks, unique_id(), kRank));
  return comm;
}

inline cudaStream_t new_stream() {
  cudaStream_t made;
  OK(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  return made;
}

// The rank's stream, for programs that need only one.
inline cudaStream_t stream() {
  static cudaStream_t one = new_stream();
  return one;
}

// What a call on a communicator that may be non-blocking comes to.
inline ncclResult_t settled(ncclComm_t comm, ncclResult_t result) {
  while (result == ncclInProgress) {
    nap(1);
    const ncclResult_t asked = ncclCommGetAsyncError(comm, &result);
    if (asked != ncclSuccess) return asked;
  }
  return result;
}

// A rank's main.
inline int run_rank(int argc, char** argv) {
  const int status = run_case(argc, argv);
  if (status == 0) say("rank %d: done", kRank);
  return status;
}

// ---- a limit that a loaded machine does not break ----

// Seconds as a thread of the lowest priority lives them: as long as others keep the cores busy its naps take longer, so
// what is too slow here is slow by itself and not by the machine's load.
class PatientWatch {
 public:
  PatientWatch(int seconds, std::function<void()> too_late) {
    thread_ = std::thread([this, seconds, too_late] {
      ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), 19);
      for (int tick = 0; tick < seconds * 100; ++tick) {
        nap(10);
        if (in_time_) return;
      }
      too_late();
    });
  }
  ~PatientWatch() {
    in_time_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> in_time_{false};
  std::thread thread_;
};
