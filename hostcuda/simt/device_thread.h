// SPDX-License-Identifier: Apache-2.0
// A device thread as device code sees it. The shim inlines accesses to this structure into every device unit, so it is
// the one thing that libcudart and the device units must agree on; both are built from the same tree.
#pragma once

#include <cstddef>
#include <cstdint>

#if !defined(__x86_64__) || !defined(__linux__)
#error "hostcuda runs on x86-64 Linux only: fibers switch in assembly, and device code relies on x86 store order"
#endif

#define HOSTCUDA_SIMT_API __attribute__((visibility("default")))

namespace hostcuda::clock {
struct LaunchClock;
}

namespace hostcuda::simt {

struct Cta;

struct Index3 {
  unsigned x, y, z;
};

inline constexpr unsigned kWarpSize = 32;
inline constexpr unsigned kBarriers = 16;     // named barriers a CTA
inline constexpr unsigned kMaxThreads = 1024;  // threads a CTA

// What all threads of a CTA share and device code reads often.
struct CtaView {
  Index3 block_index, block_dim, grid_dim;
  const clock::LaunchClock* clock;
  const std::uint8_t* link_class_of_owner;  // see runtime/va.h
  std::uint32_t sm_id;
  std::uint64_t bytes_loaded, bytes_stored;  // of this CTA; only its own threads add to it, one at a time
};

struct alignas(64) DeviceThread {
  void* stack_pointer;    // where it stopped, while it does not run
  DeviceThread* next;     // in a queue of the scheduler
  std::uint64_t vt_ps;    // its virtual time since the start of its grid
  std::uint64_t arrival_ps;  // latest modelled arrival of any rank that it has heard of, absolute
  char* static_shared;
  char* dynamic_shared;
  CtaView* view;
  Cta* cta;
  Index3 thread_index;
  std::uint32_t linear_index;  // in the CTA
  std::uint64_t result;        // what the barrier or the warp operation that it waited for decided
  bool polling;                // since its last step forward it has only polled
  bool done;
};

}  // namespace hostcuda::simt

// The thread that runs on this CPU thread; null outside of grids. Plain __thread: no initialisation wrapper, and one
// %fs-relative load in device code. Initial-exec, because libnccl's own TLS is.
extern "C" HOSTCUDA_SIMT_API __thread hostcuda::simt::DeviceThread* hostcuda_device_thread
    __attribute__((tls_model("initial-exec")));

namespace hostcuda::simt {

// Gives way in a loop that waits for memory: does not count as progress.
HOSTCUDA_SIMT_API void poll_yield();

// The running thread has made a step forward that no barrier shows (it has entered its next wait loop).
HOSTCUDA_SIMT_API void note_progress();

// Named barrier for `threads` threads (0: all of the CTA that have not returned). Its time is the latest of theirs.
HOSTCUDA_SIMT_API void block_sync(unsigned barrier, unsigned threads);

// The same, and the number of threads whose predicate held.
HOSTCUDA_SIMT_API unsigned block_count(unsigned barrier, unsigned threads, bool predicate);

// Waits for the lanes of `mask` that have not returned; gives the lanes whose predicate held.
HOSTCUDA_SIMT_API unsigned warp_vote(unsigned mask, bool predicate);

// Waits likewise, then shows what every lane that came has brought. The values stay valid until this lane's next warp
// operation.
struct WarpValues {
  const std::uint64_t* values;  // kWarpSize of them
  unsigned lanes;               // which ones are there
};
HOSTCUDA_SIMT_API WarpValues warp_exchange(unsigned mask, std::uint64_t value);

// Lanes of the running warp that have not returned.
HOSTCUDA_SIMT_API unsigned warp_live_lanes();

// Ends the grid with an error that names kernel, CTA and thread.
[[noreturn]] HOSTCUDA_SIMT_API void device_fail(const char* what);

}  // namespace hostcuda::simt
