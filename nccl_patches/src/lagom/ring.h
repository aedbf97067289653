/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of sockets of our own through the ranks of a communicator. NCCL's bootstrap ring has no time limit and is left
 * unusable by a rank that never comes; here only later agreements are. */
#ifndef LAGOM_RING_H_
#define LAGOM_RING_H_

#include "socket.h"

#include <chrono>
#include <string>

struct lagomRing {
  struct ncclSocket listen = {}, next = {}, prev = {};
  union ncclSocketAddress nextAddress = {};
  bool listening = false, connected = false;
};

/* Where the rank before this one may connect; to be told to it. */
ncclResult_t lagomRingListen(struct ncclComm* comm, lagomRing* ring, union ncclSocketAddress* own);
void lagomRingClose(lagomRing* ring);

/* All-gather of `bytes` a rank, this rank's at all[rank*bytes]. Connects at its first use. False, with *why: not all
 * ranks came in time, one is gone, or the communicator is aborted; the ring cannot be used again. */
bool lagomRingGather(struct ncclComm* comm, lagomRing* ring, void* all, size_t bytes,
                     std::chrono::steady_clock::time_point deadline, std::string* why);

#endif
