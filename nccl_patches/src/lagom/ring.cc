/* SPDX-License-Identifier: Apache-2.0 */
#include "ring.h"

#include "bootstrap.h"
#include "comm.h"
#include "core.h"

#include <algorithm>
#include <thread>

using Clock = std::chrono::steady_clock;

ncclResult_t lagomRingListen(struct ncclComm* comm, lagomRing* ring, union ncclSocketAddress* own) {
  union ncclSocketAddress address;
  NCCLCHECK(bootstrapOwnInterface(&address));
  /* Sockets that are accepted inherit that they never block. */
  NCCLCHECK(ncclSocketInit(&ring->listen, &address, comm->magic, ncclSocketTypeBootstrap, comm->abortFlag,
                           /*asyncFlag=*/1));
  ring->listening = true;
  NCCLCHECK(ncclSocketListen(&ring->listen));
  return ncclSocketGetAddr(&ring->listen, own);
}

void lagomRingClose(lagomRing* ring) {
  if (ring->connected) {
    (void)ncclSocketClose(&ring->next);
    (void)ncclSocketClose(&ring->prev);
  }
  if (ring->listening) (void)ncclSocketClose(&ring->listen);
  ring->listening = ring->connected = false;
}

namespace {

/* Polls with ever longer pauses until the deadline. */
class Waiting {
 public:
  Waiting(struct ncclComm* comm, Clock::time_point deadline, std::string* why)
      : comm_(comm), deadline_(deadline), why_(why) {}

  /* False where it is over. */
  bool pause(bool progressed) {
    if (COMPILER_ATOMIC_LOAD(comm_->abortFlag, std::memory_order_acquire)) {
      *why_ = "the communicator is being aborted";
      return false;
    }
    if (progressed) {
      pause_ = std::chrono::microseconds(20);
      return true;
    }
    if (Clock::now() >= deadline_) {
      *why_ = "not all ranks came within the time limit";
      return false;
    }
    std::this_thread::sleep_for(pause_);
    pause_ = std::min(pause_*2, std::chrono::microseconds(2000));
    return true;
  }

  bool broken() {
    *why_ = "a rank closed its connection";
    return false;
  }

 private:
  struct ncclComm* comm_;
  Clock::time_point deadline_;
  std::string* why_;
  std::chrono::microseconds pause_{20};
};

bool connect(struct ncclComm* comm, lagomRing* ring, Waiting* waiting) {
  if (ncclSocketInit(&ring->next, &ring->nextAddress, comm->magic, ncclSocketTypeBootstrap, comm->abortFlag, 1) !=
          ncclSuccess ||
      ncclSocketInit(&ring->prev) != ncclSuccess) {
    return waiting->broken();
  }
  ring->connected = true;
  if (ncclSocketConnect(&ring->next) != ncclSuccess || ncclSocketAccept(&ring->prev, &ring->listen) != ncclSuccess) {
    return waiting->broken();
  }
  int to = 0, from = 0;
  while (!to || !from) {
    if (!to && ncclSocketReady(&ring->next, &to) != ncclSuccess) return waiting->broken();
    if (!from && ncclSocketReady(&ring->prev, &from) != ncclSuccess) return waiting->broken();
    if ((!to || !from) && !waiting->pause(false)) return false;
  }
  return true;
}

}  // namespace

bool lagomRingGather(struct ncclComm* comm, lagomRing* ring, void* all, size_t bytes, Clock::time_point deadline,
                     std::string* why) {
  Waiting waiting(comm, deadline, why);
  int n = comm->nRanks, size = (int)bytes;
  if (n > 1 && !ring->connected && !connect(comm, ring, &waiting)) return false;
  char* blocks = (char*)all;
  for (int step = 0; step < n-1; step++) {
    char* out = blocks + (size_t)((comm->rank - step + n) % n)*bytes;
    char* in = blocks + (size_t)((comm->rank - step - 1 + n) % n)*bytes;
    int sent = 0, got = 0;
    while (sent < size || got < size) {
      int before = sent + got, closed = 0;
      if (sent < size && (ncclSocketProgress(NCCL_SOCKET_SEND, &ring->next, out, size, &sent, &closed) != ncclSuccess ||
                          closed)) {
        return waiting.broken();
      }
      if (got < size && (ncclSocketProgress(NCCL_SOCKET_RECV, &ring->prev, in, size, &got, &closed) != ncclSuccess ||
                         closed)) {
        return waiting.broken();
      }
      if ((sent < size || got < size) && !waiting.pause(sent + got > before)) return false;
    }
  }
  return true;
}
