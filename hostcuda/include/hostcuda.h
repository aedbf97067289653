/* SPDX-License-Identifier: Apache-2.0 */
/* What hostcuda offers beyond the CUDA API: kernels launched by description, facts about launches that a library hands
 * to the clock, ranges in which stored device times are corrected, and the modelled times themselves.
 *
 * Every symbol is exported by libcudart.so.13. Structures begin with their size and a version so that they can grow; a
 * call refuses a size or version that it does not know with cudaErrorInvalidValue. All times are modelled times of the
 * described machine, counted from the start of the process; none of them depends on how fast the CPUs are.
 */
#ifndef HOSTCUDA_H
#define HOSTCUDA_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HOSTCUDA_API __attribute__((visibility("default")))

/* 1 wherever the library that answers is hostcuda; lets a program find out with dlsym before it uses the rest. */
HOSTCUDA_API int hostcudaVersion(void);

/* ---- kernels that hostcuda can run, and kernels it only accounts for ---- */

/* A kernel compiled for the CPU. `symbol` is the address that the program passes to the launch calls, `entry` the
 * function a device thread runs with a pointer to the packed parameters. Launching an address that nobody registered
 * is refused with cudaErrorInvalidDeviceFunction and a line that names it; an entry of NULL registers the name of a
 * kernel that this build left out, so that the line can name it. As with the machine code of real GPUs, a kernel runs on
 * devices of the same major compute capability and the same or a higher minor one; elsewhere launching it is refused
 * with cudaErrorNoKernelImageForDevice and a line that names both. */
typedef struct {
  size_t size;
  uint32_t version; /* 1 */
  const void* symbol;
  const char* name;
  void (*entry)(const void* args);
  size_t args_bytes;
  uint32_t max_threads_per_cta;   /* 0: the device's limit */
  uint32_t registers_per_thread;  /* 0: unknown */
  uint32_t static_shared_bytes;
  uint32_t arch; /* compute capability x 100 that it was compiled for; 0: it runs on any */
} hostcudaKernelEntry_t;
#define HOSTCUDA_KERNEL_ENTRY_VERSION 1
HOSTCUDA_API cudaError_t hostcudaRegisterKernel(const hostcudaKernelEntry_t* kernel);

/* A compute kernel known only by what it costs. It takes its place in the stream and on the modelled GPU like any
 * other kernel, and touches no memory. */
typedef struct {
  size_t size;
  uint32_t version; /* 1 */
  const char* name;
  double flops;
  double bytes_read;
  double bytes_written;
  uint32_t ctas;
  uint32_t threads_per_cta;
  uint32_t registers_per_thread;
  uint32_t shared_bytes_per_cta;
} hostcudaKernel_t;
#define HOSTCUDA_KERNEL_VERSION 1
HOSTCUDA_API cudaError_t hostcudaLaunchDescribed(const hostcudaKernel_t* kernel, cudaStream_t stream);

/* ---- what a communication library tells the clock ---- */

/* Describes the next grid that the calling host thread launches. Grids of the same `group_key` are launched in the
 * same order by every rank of a group; hostcuda counts them, and the count ties the ranks' grids together. */
typedef struct {
  size_t size;
  uint32_t version; /* 1 */
  uint64_t group_key;
  uint32_t ctas;
  uint64_t bytes_in_flight; /* communication buffers in use at once, all CTAs together */
  const char* name;
} hostcudaLaunchInfo_t;
#define HOSTCUDA_LAUNCH_INFO_VERSION 1
HOSTCUDA_API cudaError_t hostcudaAnnounceLaunch(const hostcudaLaunchInfo_t* info);

/* Called once by a thread that works for a library behind the program's back (a proxy, a watchdog). What such a thread
 * enqueues runs as usual but costs no modelled time, because when it runs is the CPU's choice and not the program's. */
HOSTCUDA_API cudaError_t hostcudaHelperThread(void);

/* Device code stores %globaltimer and clock64 values as tagged words, because a grid's place in time is known only
 * when the host synchronizes. In registered ranges of 8-byte words they are replaced by absolute nanoseconds before
 * the synchronization returns. */
HOSTCUDA_API cudaError_t hostcudaClockRegister(void* base, size_t bytes);
HOSTCUDA_API cudaError_t hostcudaClockUnregister(void* base);

/* ---- modelled times ---- */

/* Modelled time of the calling host thread, in nanoseconds. */
HOSTCUDA_API uint64_t hostcudaHostTimeNs(void);

typedef enum {
  hostcudaOpKernel = 0,    /* ran on the simulated GPU */
  hostcudaOpDescribed = 1, /* hostcudaLaunchDescribed */
  hostcudaOpCopy = 2,
  hostcudaOpSet = 3,
  hostcudaOpHost = 4
} hostcudaOpKind_t;

typedef struct {
  uint64_t sequence; /* place in the stream's program order; later operations have larger numbers */
  hostcudaOpKind_t kind;
  uint32_t ctas;
  uint64_t start_ns;
  uint64_t end_ns;
  char name[96]; /* cut short where longer */
} hostcudaOpTime_t;

/* `*mark` is the sequence number that the next operation of `stream` gets. Operations are recorded from the first mark of
 * a stream on. */
HOSTCUDA_API cudaError_t hostcudaStreamMark(cudaStream_t stream, uint64_t* mark);

/* Waits for `stream`, then writes up to `capacity` operations with sequence >= mark to `times`, oldest first; `*count`
 * is how many there are. The records of an operation are kept until the stream is destroyed or 65536 newer ones exist. */
HOSTCUDA_API cudaError_t hostcudaStreamOpTimes(cudaStream_t stream, uint64_t mark, hostcudaOpTime_t* times,
                                              size_t capacity, size_t* count);

#ifdef __cplusplus
}
#endif
#endif
