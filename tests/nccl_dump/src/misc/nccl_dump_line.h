/* SPDX-License-Identifier: Apache-2.0 */
/* Where the lines of nccl_dump.h go, and how one is put together. */
#ifndef NCCL_DUMP_LINE_H_
#define NCCL_DUMP_LINE_H_

#include "comm.h"
#include "cudawrap.h"

#include <cstdio>
#include <map>
#include <mutex>
#include <string>

namespace ncclDump {

struct Dump {
  std::mutex mutex;
  FILE* file = nullptr;
  bool dry = false;
  std::map<uintptr_t, int> names; /* of buffers and streams, as the program gave them */

  Dump();
};

Dump& dump();

inline int nameOf(uintptr_t handle) {
  auto found = dump().names.find(handle);
  return found == dump().names.end() ? -1 : found->second;
}

/* One line of JSON. A pointer is [n, offset]: the n-th allocation of the program, and where in it; [-1, offset] where the
 * program has not named the allocation, so that it is NCCL's own. */
class Line {
 public:
  explicit Line(const char* kind) { text_ = std::string("{\"kind\":\"") + kind + "\""; }

  template<typename Integer>
  void field(const char* name, Integer value) {
    key(name);
    text_ += std::to_string(+value);
  }

  void pointer(const char* name, const void* address) {
    key(name);
    CUdeviceptr base = 0;
    size_t size = 0;
    if (address == nullptr) {
      text_ += "null";
    } else if (CUPFN(cuMemGetAddressRange)(&base, &size, (CUdeviceptr)address) == CUDA_SUCCESS) {
      text_ += "[" + std::to_string(nameOf(base)) + "," + std::to_string((CUdeviceptr)address - base) + "]";
    } else {
      text_ += "\"no device memory\"";
    }
  }

  template<typename T>
  void pointers(const char* name, T* const* addresses, int n) {
    for (int i = 0; i < n; i++) pointer((name + std::to_string(i)).c_str(), (const void*)addresses[i]);
  }

  void string(const char* name, const char* value) {
    key(name);
    text_ += std::string("\"") + value + "\"";
  }

  void openList(const char* name) {
    key(name);
    text_ += "[";
  }
  void closeList() { text_ += "]"; }
  void openItem() { text_ += text_.back() == '[' ? "{" : ",{"; }
  void closeItem() { text_ += "}"; }

  void write() {
    text_ += "}\n";
    fwrite(text_.data(), 1, text_.size(), dump().file);
    fflush(dump().file); /* what a killed process wrote is there as well */
  }

 private:
  void key(const char* name) {
    if (text_.back() != '{') text_ += ",";
    text_ += std::string("\"") + name + "\":";
  }

  std::string text_;
};

/* What a launch's arguments hold: batches and work, or the ranges and work of a symmetric kernel. */
void addArguments(Line& line, struct ncclComm* comm, struct ncclKernelPlan* plan);

}  // namespace ncclDump

#endif
