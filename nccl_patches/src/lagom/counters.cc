/* SPDX-License-Identifier: Apache-2.0 */
/* Counters, host side: which operation is which entry of the device's rings, and who reads them.
 *
 * Every counted launch runs exactly once and in order, so the host knows beforehand which entry of each channel's ring
 * an operation will fill. Reading only looks at memory: it stops neither the device nor a launch for long. What the
 * device overwrote before it was read is counted as lost. */
#include "lagom_comm.h"
#include "op_record.h"

#include "comm.h"
#include "core.h"
#include "enqueue.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <set>
#include <unistd.h>

/* Where the device is a model, its times are settled later: it rewrites them wherever it knows them to be stored. */
extern "C" int hostcudaClockRegister(void* base, size_t bytes) __attribute__((weak));
extern "C" int hostcudaClockUnregister(void* base) __attribute__((weak));
static constexpr uint64_t unsettled = 1ull << 63;

static constexpr uint32_t ringDepth = 1024;    /* collectives a channel between two reads */
static constexpr size_t maxReady = 1 << 16;    /* operations read from the device and not yet handed out */
static constexpr size_t maxPending = 1 << 16;
static constexpr uint32_t lastLaunch = 0xffffff;

struct lagomCounters {
  std::mutex mutex;
  lagomOpPlace place;
  bool enabled = false;
  lagomEntry* entries = nullptr;        /* pinned host memory */
  lagomCounterRings* rings = nullptr;   /* device memory */
  uint32_t nChannels = 0;
  uint64_t next[MAXCHANNELS] = {};      /* as the device will count */
  uint32_t launch = 0;
  uint64_t opIndex = 0;
  std::deque<lagomOp> pending, ready;
  uint64_t issued = 0, read = 0, lost = 0;
  FILE* csv = nullptr;
};

/* ---- reading the rings ---- */

enum entryState { entryWaiting, entryWhole, entryGone };

static entryState readEntry(lagomCounters* c, int channel, uint64_t n, uint32_t launch, lagomEntry* out) {
  lagomEntry* e = &c->entries[(size_t)channel*ringDepth + n%ringDepth];
  uint64_t sequence = __atomic_load_n(&e->sequence, __ATOMIC_ACQUIRE);
  if (sequence > n + 1) return entryGone;
  if (sequence != n + 1) return entryWaiting;
  memcpy(out, e, sizeof(*out));
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  if (__atomic_load_n(&e->sequence, __ATOMIC_RELAXED) != n + 1 || out->sequenceEnd != n + 1) return entryGone;
  if ((out->startNs | out->stopNs) & unsettled) return entryWaiting;
  return out->launch == launch ? entryWhole : entryGone;
}

/* Moves finished operations from the rings to c->ready, in launch order, until one has not finished. */
static void drain(lagomCounters* c) {
  while (!c->pending.empty()) {
    lagomOp& op = c->pending.front();
    bool gone = false, waiting = false;
    op.entries.resize(op.sequences.size());
    for (size_t i = 0; i < op.sequences.size(); i++) {
      entryState s = readEntry(c, op.task.channelLo + (int)i, op.sequences[i], op.launch, &op.entries[i]);
      gone |= s == entryGone;
      waiting |= s == entryWaiting;
    }
    if (!gone && waiting) return;
    if (gone) c->lost += 1;
    else c->ready.push_back(std::move(op));
    c->pending.pop_front();
    if (c->ready.size() > maxReady) {
      c->ready.pop_front();
      c->lost += 1;
    }
  }
}

/* ---- CSV ---- */

static void writeCsv(lagomCounters* c) {
  if (c->csv == nullptr) return;
  auto* record = new ncclOpRecord;
  while (!c->ready.empty()) {
    lagomFillRecord(c->ready.front(), c->place, record);
    fputs(lagomCsvRow(*record).c_str(), c->csv);
    c->ready.pop_front();
    c->read += 1;
  }
  delete record;
  fflush(c->csv);
}

/* Files by expanded path, one a process however many communicators share it; and who may still have rows to write when
 * the process ends. */
struct lagomCsvFiles {
  std::mutex mutex;
  std::vector<std::pair<std::string, FILE*>> files;
  std::set<lagomCounters*> users;
  int processRank = -1; /* %r: rank in the first communicator of the process */

  ~lagomCsvFiles() {
    for (lagomCounters* c : users) {
      std::lock_guard<std::mutex> lock(c->mutex);
      drain(c);
      writeCsv(c);
    }
    for (auto& f : files) fclose(f.second);
  }
};
static lagomCsvFiles& csvFiles() {
  static lagomCsvFiles files;
  return files;
}

static std::string expandPath(const char* pattern, int rank) {
  std::string path;
  bool distinct = false;
  for (const char* p = pattern; *p != '\0'; p++) {
    if (*p != '%' || p[1] == '\0') {
      path += *p;
      continue;
    }
    p++;
    if (*p == 'h') {
      char host[256] = "";
      gethostname(host, sizeof(host) - 1);
      path += host;
    } else if (*p == 'p' || *p == 'r') {
      path += std::to_string(*p == 'p' ? (int)getpid() : rank);
      distinct = true;
    } else if (*p == '%') {
      path += '%';
    } else {
      path += std::string("%") + *p;
    }
  }
  if (!distinct) path += "." + std::to_string(rank);
  return path;
}

bool lagomCsvOpen(const char* pattern, int rank, FILE** file, std::string* fault) {
  lagomCsvFiles& all = csvFiles();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (all.processRank < 0) all.processRank = rank;
  std::string path = expandPath(pattern, all.processRank);
  for (auto& f : all.files) {
    if (f.first != path) continue;
    *file = f.second;
    return true;
  }
  *file = fopen(path.c_str(), "we");
  if (*file == nullptr) {
    *fault = "LAGOM_COUNTERS_FILE: " + path + " cannot be written: " + strerror(errno);
    return false;
  }
  fputs(lagomCsvHeader(), *file);
  fflush(*file);
  all.files.emplace_back(path, *file);
  return true;
}

/* ---- life ---- */

static ncclResult_t createCounters(struct ncclComm* comm) {
  lagomCounters* c = new (std::nothrow) lagomCounters;
  if (c == nullptr) return ncclSystemError;
  ncclResult_t ret = ncclSuccess;
  lagomCounterRings rings = {};
  c->place = {comm->commHash, comm->rank, comm->nRanks, comm->nNodes};
  c->nChannels = std::max(comm->nChannels, comm->nvlsChannels);
  NCCLCHECKGOTO(ncclCudaHostCalloc(&c->entries, (size_t)c->nChannels*ringDepth), ret, fail);
  NCCLCHECKGOTO(ncclCudaMalloc(&c->rings, 1, comm->memManager), ret, fail);
  rings.entries = c->entries;
  rings.depth = ringDepth;
  rings.nChannels = c->nChannels;
  NCCLCHECKGOTO(ncclCudaMemcpy(c->rings, &rings, 1), ret, fail);
  NCCLCHECKGOTO(ncclCudaMemcpy(&comm->devComm->lagomRings, &c->rings, 1), ret, fail);
  if (hostcudaClockRegister != nullptr) {
    hostcudaClockRegister(c->entries, (size_t)c->nChannels*ringDepth*sizeof(lagomEntry));
  }
  comm->lagom->counters = c;
  return ncclSuccess;
fail:
  if (c->rings != nullptr) (void)ncclCudaFree(c->rings, comm->memManager);
  if (c->entries != nullptr) (void)ncclCudaHostFree(c->entries);
  delete c;
  return ret;
}

ncclResult_t lagomCommReady(struct ncclComm* comm) {
  FILE* csv = comm->lagom->csv;
  if (csv == nullptr && !lagomEnvFlag("LAGOM_COUNTERS")) return ncclSuccess;
  NCCLCHECK(createCounters(comm));
  lagomCounters* c = comm->lagom->counters;
  c->csv = csv;
  c->enabled = true;
  if (csv != nullptr) {
    std::lock_guard<std::mutex> lock(csvFiles().mutex);
    csvFiles().users.insert(c);
  }
  return ncclSuccess;
}

ncclResult_t lagomCountersFree(struct ncclComm* comm) {
  lagomCounters* c = comm->lagom->counters;
  if (c == nullptr) return ncclSuccess;
  comm->lagom->counters = nullptr;
  {
    std::lock_guard<std::mutex> files(csvFiles().mutex);
    std::lock_guard<std::mutex> lock(c->mutex);
    drain(c);
    writeCsv(c);
    csvFiles().users.erase(c);
  }
  if (hostcudaClockUnregister != nullptr) hostcudaClockUnregister(c->entries);
  NCCLCHECK(ncclCudaFree(c->rings, comm->memManager));
  NCCLCHECK(ncclCudaHostFree(c->entries));
  delete c;
  return ncclSuccess;
}

/* ---- launch ---- */

void lagomPlanLaunched(struct ncclComm* comm, struct ncclKernelPlan* plan) {
  lagomCounters* c = comm->lagom == nullptr ? nullptr : comm->lagom->counters;
  /* A captured plan is launched by others, any number of times: not counted in this version. */
  if (c == nullptr || plan->persistent || plan->isSymColl || plan->isCeColl || plan->isRma) return;
  if (ncclIntruQueueEmpty(&plan->collTaskQueue)) return;
  std::lock_guard<std::mutex> lock(c->mutex);
  if (!c->enabled) return;
  c->launch = c->launch == lastLaunch ? 1 : c->launch + 1;
  plan->kernelArgs->lagomLaunch = c->launch;
  for (struct ncclTaskColl* task = ncclIntruQueueHead(&plan->collTaskQueue); task != nullptr; task = task->next) {
    lagomOp op;
    op.task = task->lagom;
    op.collective = task->func;
    op.opIndex = c->opIndex++;
    op.launch = c->launch;
    for (int channel = task->lagom.channelLo; channel <= task->lagom.channelHi; channel++) {
      op.sequences.push_back(c->next[channel]++);
    }
    if (!task->lagom.known) continue;
    c->issued += 1;
    c->pending.push_back(std::move(op));
  }
  drain(c);
  if (c->csv != nullptr) writeCsv(c);
  while (c->pending.size() > maxPending) {
    c->pending.pop_front();
    c->lost += 1;
  }
}

/* ---- the API ---- */

NCCL_API(ncclResult_t, ncclCommCountersEnable, ncclComm_t comm, int enable);
ncclResult_t ncclCommCountersEnable(ncclComm_t comm, int enable) {
  NCCLCHECK(CommCheck(comm, "ncclCommCountersEnable", "comm"));
  NCCLCHECK(ncclCommEnsureReady(comm));
  if (comm->lagom->counters == nullptr) {
    if (!enable) return ncclSuccess;
    NCCLCHECK(createCounters(comm));
  }
  std::lock_guard<std::mutex> lock(comm->lagom->counters->mutex);
  comm->lagom->counters->enabled = enable != 0;
  return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommCountersRead, ncclComm_t comm, ncclOpRecord* records, int capacity, int* nRecords);
ncclResult_t ncclCommCountersRead(ncclComm_t comm, ncclOpRecord* records, int capacity, int* nRecords) {
  NCCLCHECK(CommCheck(comm, "ncclCommCountersRead", "comm"));
  NCCLCHECK(ncclCommEnsureReady(comm));
  if (capacity < 0 || nRecords == nullptr || (capacity > 0 && records == nullptr)) {
    WARN("ncclCommCountersRead: room for %d records at %p, number at %p; allowed: 0 or more, not NULL", capacity,
         records, nRecords);
    return ncclInvalidArgument;
  }
  if (capacity > 0 && (records[0].size != sizeof(ncclOpRecord) || records[0].version != NCCL_OP_RECORD_VERSION)) {
    WARN("ncclCommCountersRead: the first record must say size %zu and version %d", sizeof(ncclOpRecord),
         NCCL_OP_RECORD_VERSION);
    return ncclInvalidArgument;
  }
  *nRecords = 0;
  lagomCounters* c = comm->lagom->counters;
  if (c == nullptr) return ncclSuccess;
  std::lock_guard<std::mutex> lock(c->mutex);
  drain(c);
  while (*nRecords < capacity && !c->ready.empty()) {
    lagomFillRecord(c->ready.front(), c->place, &records[(*nRecords)++]);
    c->ready.pop_front();
    c->read += 1;
  }
  return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommCountersStatus, ncclComm_t comm, ncclCountersStatus* status);
ncclResult_t ncclCommCountersStatus(ncclComm_t comm, ncclCountersStatus* status) {
  NCCLCHECK(CommCheck(comm, "ncclCommCountersStatus", "comm"));
  NCCLCHECK(ncclCommEnsureReady(comm));
  if (status == nullptr || status->size != sizeof(*status) || status->version != NCCL_COUNTERS_STATUS_VERSION) {
    WARN("ncclCommCountersStatus: status must be there, with size %zu and version %d", sizeof(ncclCountersStatus),
         NCCL_COUNTERS_STATUS_VERSION);
    return ncclInvalidArgument;
  }
  status->enabled = 0;
  status->issued = status->read = status->lost = status->pending = 0;
  lagomCounters* c = comm->lagom->counters;
  if (c == nullptr) return ncclSuccess;
  std::lock_guard<std::mutex> lock(c->mutex);
  drain(c);
  status->enabled = c->enabled;
  status->issued = c->issued;
  status->read = c->read;
  status->lost = c->lost;
  status->pending = c->pending.size() + c->ready.size();
  return ncclSuccess;
}
