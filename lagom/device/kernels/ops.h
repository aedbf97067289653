/* SPDX-License-Identifier: Apache-2.0 */
/* The few operations of a GPU that kernels.cu needs beyond C++. A build for something else than a GPU brings its own:
 * LAGOM_DEVICE_OPS names the header. */
#ifndef LAGOM_DEVICE_OPS_H
#define LAGOM_DEVICE_OPS_H

#ifdef LAGOM_DEVICE_OPS
#include LAGOM_DEVICE_OPS
#else

#include <stdint.h>

#define LAGOM_ARGUMENTS(type) const type
#define LAGOM_SHARED(name) extern __shared__ uint4 name[]

/* 16 bytes from global to shared memory, some time before the wait that covers them. */
__device__ __forceinline__ void copy_async(void* shared, const void* global) {
  unsigned at = (unsigned)__cvta_generic_to_shared(shared);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(global) : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/* Until no more than `Left` of this thread's groups of copies are on their way. */
template <int Left>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
}

/* c[16][8] += a[16][16] b[16][8] by a warp on its tensor cores, bf16 in, f32 out. With lane = 4 g + t:
 * a[0..3]: columns 2t and 2t+1 of row g, of row g+8, then both 8 columns further; b[0..1]: rows 2t and 2t+1 of column g,
 * then 8 rows further; c[0..3]: columns 2t and 2t+1 of row g, then of row g+8. Needs compute capability 8.0. */
__device__ __forceinline__ void multiply(float c[4], const uint32_t a[4], const uint32_t b[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#endif
#endif
