// SPDX-License-Identifier: Apache-2.0
// What AddressSanitizer has to be told about fibers: which stack the code runs on, and that a stack which is used again
// holds nothing. Costs nothing in builds without it.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace hostcuda::simt {

struct StackBounds {
  const void* lowest = nullptr;
  std::size_t bytes = 0;
};

#if defined(__SANITIZE_ADDRESS__)

inline StackBounds thread_stack() {
  thread_local const StackBounds mine = [] {  // asked once: for the main thread the answer is in /proc/self/maps
    pthread_attr_t attributes;
    void* lowest = nullptr;
    std::size_t bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
      pthread_attr_getstack(&attributes, &lowest, &bytes);
      pthread_attr_destroy(&attributes);
    }
    return StackBounds{lowest, bytes};
  }();
  return mine;
}
// Just before the stack pointer changes to that of another stack, and first thing on it. `kept` lies on the stack that
// is left, or is null where nobody comes back to it.
inline void leaving_stack(void** kept, StackBounds next) { __sanitizer_start_switch_fiber(kept, next.lowest, next.bytes); }
inline void entered_stack(void* kept) { __sanitizer_finish_switch_fiber(kept, nullptr, nullptr); }
inline void forget_stack(void* lowest, std::size_t bytes) { ASAN_UNPOISON_MEMORY_REGION(lowest, bytes); }

#else

inline StackBounds thread_stack() { return {}; }
inline void leaving_stack(void**, StackBounds) {}
inline void entered_stack(void*) {}
inline void forget_stack(void*, std::size_t) {}

#endif

}  // namespace hostcuda::simt
