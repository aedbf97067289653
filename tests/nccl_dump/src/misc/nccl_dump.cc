/* SPDX-License-Identifier: Apache-2.0 */
/* See nccl_dump.h. */
#include "nccl_dump.h"

#include "nccl_dump_line.h"
#include "enqueue.h"
#include "proxy.h"
#include "sym_kernels.h"
#include "transport.h"

#include <cstdlib>
#include <cstring>

namespace ncclDump {

Dump::Dump() {
  const char* path = getenv("NCCL_DUMP_FILE");
  if (path == nullptr || *path == '\0') return;
  file = fopen(path, "ae");
  if (file == nullptr) {
    fprintf(stderr, "NCCL_DUMP_FILE: %s cannot be written\n", path);
    abort(); /* a test that compares nothing must not pass */
  }
  const char* flag = getenv("NCCL_DUMP_DRY");
  dry = flag != nullptr && strcmp(flag, "1") == 0;
}

Dump& dump() {
  static Dump* instance = new Dump; /* threads of NCCL may outlive static objects */
  return *instance;
}

}  // namespace ncclDump

using namespace ncclDump;

extern "C" __attribute__((visibility("default"))) void ncclDumpName(const void* handle, int name) {
  std::lock_guard<std::mutex> lock(dump().mutex);
  dump().names[(uintptr_t)handle] = name;
}

/* Which communicator, and which of its ranks: one process may hold several. */
static void addComm(Line& line, struct ncclComm* comm) {
  line.string("comm", comm->config.commName == nullptr ? "" : comm->config.commName);
  line.field("rank", comm->rank);
  line.field("nRanks", comm->nRanks);
}

bool ncclDumpLaunch(struct ncclComm* comm, struct ncclKernelPlan* plan, CUlaunchConfig const* config) {
  Dump& d = dump();
  if (d.file == nullptr) return false;
  std::lock_guard<std::mutex> lock(d.mutex);
  int kernel = 0, nKernels = plan->isSymColl ? ncclSymkKernelCount : ncclDevKernelCount;
  void** kernels = plan->isSymColl ? ncclSymkKernelList : ncclDevKernelList;
  while (kernel < nKernels && kernels[kernel] != plan->kernelFn) kernel++;

  Line line("launch");
  addComm(line, comm);
  line.field("symmetric", plan->isSymColl);
  line.field("persistent", plan->persistent);
  line.field("kernel", kernel);
  line.field("kernelSpecialized", plan->kernelSpecialized);
  line.field("kernelArgsSize", plan->kernelArgsSize);
  line.field("gridX", config->gridDimX);
  line.field("gridY", config->gridDimY);
  line.field("gridZ", config->gridDimZ);
  line.field("blockX", config->blockDimX);
  line.field("blockY", config->blockDimY);
  line.field("blockZ", config->blockDimZ);
  line.field("sharedMemBytes", config->sharedMemBytes);
  line.field("stream", nameOf((uintptr_t)config->hStream));
  line.openList("attributes");
  for (unsigned i = 0; i < config->numAttrs; i++) {
    line.openItem();
    line.field("id", (int)config->attrs[i].id);
    /* The rest hold one number, or one and two ones, first; this one holds a handle. */
    if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT) {
      line.field("value", *(const int*)&config->attrs[i].value);
    }
    line.closeItem();
  }
  line.closeList();
  line.field("channelMask", plan->channelMask);
  line.field("threadPerBlock", plan->threadPerBlock);
  line.field("workStorageType", (int)plan->workStorageType);
  line.field("collOpCount", plan->collOpCount);
  line.field("nTasksBcast", plan->nTasksBcast);
  line.field("hasProxyOps", plan->hasProxyOps);
  line.field("workBytes", plan->workBytes);
  addArguments(line, comm, plan);
  line.write();
  return d.dry;
}

bool ncclDumpProxyOp(struct ncclComm* comm, struct ncclProxyConnector* connector, struct ncclProxyOp* op) {
  Dump& d = dump();
  if (d.file == nullptr) return false;
  std::lock_guard<std::mutex> lock(d.mutex);
  struct ncclTransport const* transports[] = {&netTransport, &collNetTransport, &profilerTransport, &p2pTransport,
                                              &shmTransport};
  std::string transport = "other";
  for (auto const* t : transports) {
    if (connector->proxyProgress == t->send.proxyProgress) transport = std::string(t->name) + " send";
    if (connector->proxyProgress == t->recv.proxyProgress) transport = std::string(t->name) + " recv";
  }

  Line line("proxy");
  addComm(line, comm);
  line.string("transport", transport.c_str());
  line.field("toRank", connector->tpRank);
  line.field("toLocalRank", connector->tpLocalRank);
  line.field("nbytes", op->nbytes);
  line.field("opCount", op->opCount);
  line.field("root", op->root);
  line.field("nsteps", op->nsteps);
  line.field("chunkSize", op->chunkSize);
  line.field("sliceSize", op->sliceSize);
  line.field("loopSize", op->loopSize);
  line.field("loopOffset", op->loopOffset);
  line.field("channelSize", op->channelSize);
  line.field("sliceSteps", op->sliceSteps);
  line.field("chunkSteps", op->chunkSteps);
  line.field("channelId", op->channelId);
  line.field("dtype", op->dtype);
  line.field("redOp", op->redOp);
  line.field("coll", op->coll);
  line.field("collAPI", op->collAPI);
  line.field("pattern", op->pattern);
  line.field("protocol", op->protocol);
  line.field("algorithm", op->algorithm);
  line.field("reg", op->reg);
  line.field("sendMhandle", op->sendMhandle != nullptr);
  line.field("recvMhandle", op->recvMhandle != nullptr);
  line.pointer("sendbuff", op->sendbuff);
  line.pointer("recvbuff", op->recvbuff);
  line.field("isOneRPN", op->isOneRPN);
  line.field("ringAlgo", op->ringAlgo != nullptr);
  uint64_t words[sizeof(op->specifics)/sizeof(uint64_t)];
  static_assert(sizeof(words) == sizeof(op->specifics), "whole words");
  memcpy(words, &op->specifics, sizeof(words));
  line.field("specifics0", words[0]);
  line.field("specifics1", words[1]);
  line.field("nChannels", op->nChannels);
  line.field("nPeers", op->nPeers);
  line.field("incWorkCounter", op->incWorkCounter);
  line.field("eActivationMask", op->eActivationMask);
  line.field("taskEventHandle", op->taskEventHandle != nullptr);
  line.field("opRank", op->rank);
  line.field("peer", op->peer);
  line.field("profilerContext", op->profilerContext != nullptr);
  line.field("workCounter", op->workCounter);
  line.write();
  return d.dry;
}
