/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators made and destroyed over and over, or many collectives on one; what the process holds is written down
 * as it goes on. One JSON object a line: {"process": 0, "cycle": 10, "call": 80, "heap_bytes": ...}. */
#include "ranks.h"
#include "resources.h"

#include "nccl_knobs.h"

#include <cstring>
#include <dlfcn.h>
#include <string>

namespace {

struct Options {
  int cycles = 10, calls = 8, processes = 2, devices = 1;
  int samples = 40;
  bool features = false; /* counters, rules, children, registered and pinned memory, own streams and events */
};

constexpr size_t elements = 1024;

template<typename Function>
Function find(const char* name) {
  return (Function)dlsym(RTLD_DEFAULT, name);
}

struct Rank {
  int rank;
  ncclComm_t comm, child;
  cudaStream_t stream;
  cudaEvent_t event;
  float *send, *recv, *pinned, *pooled;
  void *symmetric, *handle;
};

void communicators(Options const& o, ncclUniqueId id, std::vector<Rank>& ranks) {
  NCCL(ncclGroupStart());
  for (Rank& r : ranks) {
    CUDA(cudaSetDevice(r.rank));
    NCCL(ncclCommInitRank(&r.comm, o.processes * o.devices, id, r.rank));
  }
  NCCL(ncclGroupEnd());
  if (!o.features) return;
  NCCL(ncclGroupStart());
  for (Rank& r : ranks) NCCL(ncclCommSplit(r.comm, 0, -r.rank, &r.child, nullptr));
  NCCL(ncclGroupEnd());
}

void buffers(Options const& o, std::vector<Rank>& ranks) {
  for (Rank& r : ranks) {
    CUDA(cudaSetDevice(r.rank));
    CUDA(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking));
    CUDA(cudaMalloc(&r.send, elements * sizeof(float)));
    CUDA(cudaMalloc(&r.recv, 16 * elements * sizeof(float)));
    CUDA(cudaMemsetAsync(r.send, 0, elements * sizeof(float), r.stream));
    if (!o.features) continue;
    CUDA(cudaEventCreate(&r.event));
    CUDA(cudaMallocHost(&r.pinned, 1 << 20));
    CUDA(cudaMallocAsync((void**)&r.pooled, 1 << 20, r.stream));
    NCCL(ncclMemAlloc(&r.symmetric, 1 << 20));
    NCCL(ncclCommRegister(r.comm, r.symmetric, 1 << 20, &r.handle));
  }
}

void setRules(std::vector<Rank>& ranks, int nRules) {
  auto set = find<decltype(&ncclCommSetKnobRules)>("ncclCommSetKnobRules");
  if (set == nullptr) return;
  ncclKnobRule rule = NCCL_KNOB_RULE_INITIALIZER;
  rule.collective = ncclKnobAllReduce;
  rule.knobs.algorithm = ncclKnobRing;
  rule.knobs.protocol = ncclKnobSimple;
  rule.knobs.nChannels = 1;
  NCCL(ncclGroupStart());
  for (Rank& r : ranks) NCCL(set(r.comm, nRules == 0 ? nullptr : &rule, nRules));
  NCCL(ncclGroupEnd());
}

void readCounters(std::vector<Rank>& ranks) {
  auto read = find<decltype(&ncclCommCountersRead)>("ncclCommCountersRead");
  if (read == nullptr) return;
  std::vector<ncclOpRecord> records(64);
  for (Rank& r : ranks) {
    records[0].size = sizeof(ncclOpRecord);
    records[0].version = NCCL_OP_RECORD_VERSION;
    int n = 0;
    NCCL(read(r.comm, records.data(), (int)records.size(), &n));
  }
}

void countersOn(std::vector<Rank>& ranks) {
  auto enable = find<decltype(&ncclCommCountersEnable)>("ncclCommCountersEnable");
  if (enable == nullptr) return;
  for (Rank& r : ranks) NCCL(enable(r.comm, 1));
}

void collectives(Options const& o, std::vector<Rank>& ranks, int calls) {
  int n = o.processes * o.devices;
  for (int c = 0; c < calls; c++) {
    int way = c % 5;
    NCCL(ncclGroupStart());
    for (Rank& r : ranks) {
      ncclComm_t comm = o.features && c % 7 == 3 ? r.child : r.comm;
      size_t count = 1 + (c * 37) % elements;
      int next = (r.rank + 1) % n, previous = (r.rank + n - 1) % n;
      int self;
      NCCL(ncclCommUserRank(comm, &self));
      if (comm == r.child) { /* its order is turned round */
        next = (self + 1) % n;
        previous = (self + n - 1) % n;
      }
      if (way == 0) NCCL(ncclAllReduce(r.send, r.recv, count, ncclFloat, ncclSum, comm, r.stream));
      if (way == 1) NCCL(ncclAllGather(r.send, r.recv, count, ncclFloat, comm, r.stream));
      if (way == 2) NCCL(ncclBroadcast(r.send, r.recv, count, ncclFloat, c % n, comm, r.stream));
      if (way == 3) {
        NCCL(ncclSend(r.send, count, ncclFloat, next, comm, r.stream));
        NCCL(ncclRecv(r.recv, count, ncclFloat, previous, comm, r.stream));
      }
      if (way == 4) {
        NCCL(ncclAllReduce(r.send, r.recv, count, ncclFloat, ncclSum, comm, r.stream));
        NCCL(ncclAllReduce(r.send, r.recv + elements, 1, ncclFloat, ncclSum, comm, r.stream));
      }
    }
    NCCL(ncclGroupEnd());
    if (c % 16 == 15) {
      for (Rank& r : ranks) CUDA(cudaStreamSynchronize(r.stream));
      if (o.features) readCounters(ranks);
    }
  }
  for (Rank& r : ranks) {
    CUDA(cudaSetDevice(r.rank));
    if (o.features) CUDA(cudaEventRecord(r.event, r.stream));
    CUDA(cudaStreamSynchronize(r.stream));
    if (o.features) CUDA(cudaEventSynchronize(r.event));
  }
}

void release(Options const& o, std::vector<Rank>& ranks) {
  for (Rank& r : ranks) {
    if (!o.features) break;
    CUDA(cudaSetDevice(r.rank));
    NCCL(ncclCommDeregister(r.comm, r.handle));
    NCCL(ncclMemFree(r.symmetric));
    CUDA(cudaFreeAsync(r.pooled, r.stream));
    CUDA(cudaStreamSynchronize(r.stream));
    CUDA(cudaFreeHost(r.pinned));
    CUDA(cudaEventDestroy(r.event));
  }
  if (o.features) {
    NCCL(ncclGroupStart());
    for (Rank& r : ranks) NCCL(ncclCommDestroy(r.child));
    NCCL(ncclGroupEnd());
  }
  NCCL(ncclGroupStart());
  for (Rank& r : ranks) NCCL(ncclCommDestroy(r.comm));
  NCCL(ncclGroupEnd());
  for (Rank& r : ranks) {
    CUDA(cudaSetDevice(r.rank));
    CUDA(cudaFree(r.send));
    CUDA(cudaFree(r.recv));
    CUDA(cudaStreamDestroy(r.stream));
  }
}

void report(int process, int cycle, long calls) {
  Resources held = resources();
  printf("{\"process\": %d, \"cycle\": %d, \"call\": %ld, \"heap_bytes\": %ld, \"anonymous_bytes\": %ld, "
         "\"shared_bytes\": %ld, \"memfd_bytes\": %ld, \"descriptors\": %ld, \"threads\": %ld, \"mappings\": %ld, "
         "\"dev_shm\": %ld}\n",
         process, cycle, calls, held.heapBytes, held.anonymousBytes, held.sharedBytes, held.memfdBytes,
         held.descriptors, held.threads, held.mappings, held.devShm);
  fflush(stdout);
}

int runProcess(Options const& o, Job& job, int process) {
  alarm(3600);
  std::vector<Rank> ranks(o.devices);
  for (int d = 0; d < o.devices; d++) ranks[d].rank = process * o.devices + d;
  long calls = 0;
  for (int cycle = 0; cycle < o.cycles; cycle++) {
    communicators(o, job.uniqueId(process), ranks);
    buffers(o, ranks);
    if (o.features) countersOn(ranks);
    /* With one cycle, the calls themselves are what goes on and on. */
    int portions = o.cycles == 1 ? o.samples : 1;
    for (int p = 0; p < portions; p++) {
      if (o.features) setRules(ranks, p % 2 == 0 ? 1 : 0);
      collectives(o, ranks, o.calls / portions);
      calls += o.calls / portions;
      if (o.features) setRules(ranks, 0);
      if (portions > 1) report(process, p, calls);
    }
    release(o, ranks);
    if (portions == 1 && (cycle % std::max(1, o.cycles / o.samples) == 0)) report(process, cycle, calls);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string name = argv[i];
    int value = atoi(argv[i + 1]);
    if (name == "--cycles") o.cycles = value;
    else if (name == "--calls") o.calls = value;
    else if (name == "--processes") o.processes = value;
    else if (name == "--devices") o.devices = value;
    else if (name == "--features") o.features = value != 0;
    else {
      fprintf(stderr, "cycles: unknown option %s\n", argv[i]);
      return 6;
    }
  }
  Job job(o.processes);
  return job.run([&](int process) { return runProcess(o, job, process); });
}
