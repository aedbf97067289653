/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What host and device share about counters. A kernel counts when its arguments carry a launch number other than 0.
 *
 * Each channel has a ring of entries in pinned host memory. The CTA that ran a collective on that channel writes one
 * entry for it, in the order in which it ran them, so the n-th collective of a channel is found at n % depth. How far
 * each channel is lives in device memory, because only the device advances it.
 */
#ifndef LAGOM_DEVICE_H_
#define LAGOM_DEVICE_H_

#include <stdint.h>

/* Written by one thread. No member may use its topmost bit: a device clock that is not settled yet marks its words by
 * that bit, in startNs and stopNs, and whoever settles them looks through the whole ring. */
struct alignas(16) lagomEntry {
  uint64_t sequence; /* n + 1 once the entry is whole; 0 while it is written */
  uint32_t launch;   /* from the kernel's arguments */
  uint32_t ordinal;  /* which collective of that kernel on this channel, from 0 */
  uint32_t smId;
  uint32_t threads;
  uint32_t chunkBytes;
  uint8_t algorithm, protocol, collective, elementBytes;
  uint64_t partBytes;
  uint64_t maxCount;
  uint64_t startNs;
  uint64_t stopNs;
  uint64_t waitNs;
  uint64_t sequenceEnd; /* equal to sequence in a whole entry */
};

struct lagomCounterRings {
  struct lagomEntry* entries; /* [channel][depth] */
  uint32_t depth;
  uint32_t nChannels;
  uint64_t next[64];          /* by channel: collectives counted so far */
};

/* What a CTA keeps in shared memory while it runs a collective. */
struct lagomScratch {
  uint64_t startNs;
  uint32_t waitNs;   /* modulo 2^32: one register, and one instruction that adds to it */
  uint32_t threads;
  uint32_t maxCount;
  uint32_t ordinal;
};

/* What is known when a collective has ended. It takes the place of the buffers' addresses in the collective's
 * descriptor, which nobody needs any more, until the batch has ended and the entry is written. */
struct lagomOutcome {
  uint64_t startNs;
  uint64_t stopNs;
  uint32_t waitNs;
  uint32_t threads;
  uint32_t maxCount;
  uint8_t algorithm, protocol, collective, elementBytes;
};

#endif
