/* SPDX-License-Identifier: Apache-2.0 */
/* Linked into NCCL's inspector plug-in with --wrap=pthread_create,--wrap=nanosleep.
 *
 * To stop its dump thread the plug-in of NCCL 2.29.7 clears a flag and sleeps for a millisecond; NCCL then unloads the
 * library. On a busy machine, with a GPU or without, the thread wakes up later than that, in code that is gone. Here the
 * thread that stops it waits for its end instead. */
#include <pthread.h>
#include <time.h>

namespace {
pthread_t dumper;
bool running;
}  // namespace

extern "C" {
int __real_pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
int __real_nanosleep(const timespec*, timespec*);

int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  const int status = __real_pthread_create(thread, attributes, body, argument);
  if (status == 0) dumper = *thread, running = true;
  return status;
}

// The plug-in sleeps in two places: between two dumps, in its thread, and while it stops that thread, in another.
int __wrap_nanosleep(const timespec* time, timespec* left) {
  if (!running || pthread_equal(dumper, pthread_self())) return __real_nanosleep(time, left);
  running = false;
  return pthread_join(dumper, nullptr);
}
}
