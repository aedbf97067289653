// SPDX-License-Identifier: Apache-2.0
// Stream-ordered allocation and memory pools.
#include "check.h"

#include <vector>

constexpr int kWhile = 30;  // ms in which something that must not happen would have happened
constexpr uint64_t kBlock = 2 << 20;

bool is_device_memory(const void* address) {
  cudaPointerAttributes attributes;
  OK(cudaPointerGetAttributes(&attributes, address));
  return attributes.type == cudaMemoryTypeDevice;
}

uint64_t attribute(cudaMemPool_t pool, cudaMemPoolAttr which) {
  uint64_t value = 0;
  OK(cudaMemPoolGetAttribute(pool, which, &value));
  return value;
}

void keep(cudaMemPool_t pool, uint64_t bytes) {
  OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &bytes));
}

cudaMemPool_t new_pool(int device = 0, uint64_t most_bytes = 0) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  properties.maxSize = most_bytes;
  cudaMemPool_t pool;
  OK(cudaMemPoolCreate(&pool, &properties));
  return pool;
}

int* allocate(uint64_t bytes, cudaStream_t stream, cudaMemPool_t pool = nullptr) {
  void* made;
  OK(pool == nullptr ? cudaMallocAsync(&made, bytes, stream) : cudaMallocFromPoolAsync(&made, bytes, pool, stream));
  return static_cast<int*>(made);
}

// Freed memory stays what it was until the stream has come to the free, and nobody else gets it before.
CASE(freed_in_stream_order) {
  cudaStream_t stream = new_stream(), other = new_stream();
  int* made = allocate(kBlock, stream);
  Gate gate;
  gate.hold(stream, made, 6);
  OK(cudaFreeAsync(made, stream));
  GIVES(cudaErrorInvalidValue, cudaFreeAsync(made, stream));  // once
  GIVES(cudaErrorInvalidValue, cudaFree(made));
  CHECK(is_device_memory(made));
  int* next = allocate(kBlock, other);
  CHECK(next != made);
  OK(cudaStreamSynchronize(other));
  CHECK(is_device_memory(made));
  sleep_ms(kWhile);
  *made = 5;  // still mapped
  gate.open();
  OK(cudaStreamSynchronize(stream));
  CHECK(!is_device_memory(made));
}

// What is idle is given back when the host synchronizes, down to the threshold.
CASE(release_threshold) {
  cudaStream_t stream = new_stream();
  cudaMemPool_t pool = new_pool();
  CHECK(attribute(pool, cudaMemPoolAttrReleaseThreshold) == 0);
  int* made = allocate(kBlock, stream, pool);
  OK(cudaFreeAsync(made, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
  keep(pool, kBlock);
  made = allocate(kBlock, stream, pool);
  int* second = allocate(kBlock, stream, pool);
  OK(cudaFreeAsync(made, stream));
  OK(cudaFreeAsync(second, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == kBlock);
  CHECK(is_device_memory(made) || is_device_memory(second));
  int* again = allocate(kBlock, stream, pool);  // the one that was kept
  CHECK(again == made || again == second);
  CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == kBlock);
  OK(cudaFreeAsync(again, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaMemPoolTrimTo(pool, kBlock));
  CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == kBlock);
  OK(cudaMemPoolTrimTo(pool, 0));
  CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
}

CASE(what_is_used_is_counted) {
  cudaStream_t stream = new_stream();
  cudaMemPool_t pool = new_pool();
  int *a = allocate(1000, stream, pool), *b = allocate(3 * kBlock, stream, pool);
  CHECK(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 1000 + 3 * kBlock);
  CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 4 * kBlock);
  OK(cudaMemPoolTrimTo(pool, 0));  // what is used stays
  *a = *b = 1;
  OK(cudaFreeAsync(b, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 1000);
  CHECK(attribute(pool, cudaMemPoolAttrUsedMemHigh) == 1000 + 3 * kBlock);
  CHECK(attribute(pool, cudaMemPoolAttrReservedMemHigh) == 4 * kBlock);
  uint64_t value = 0;
  OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &value));
  CHECK(attribute(pool, cudaMemPoolAttrUsedMemHigh) == 1000);
  value = 7;
  GIVES(cudaErrorInvalidValue, cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &value));
  GIVES(cudaErrorInvalidValue, cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &value));
  int allowed = -1;
  for (const auto which : {cudaMemPoolReuseFollowEventDependencies, cudaMemPoolReuseAllowOpportunistic,
                           cudaMemPoolReuseAllowInternalDependencies}) {
    OK(cudaMemPoolGetAttribute(pool, which, &allowed));
    CHECK(allowed == 1);
    allowed = 0;
    OK(cudaMemPoolSetAttribute(pool, which, &allowed));
    OK(cudaMemPoolGetAttribute(pool, which, &allowed));
    CHECK(allowed == 0);
  }
}

// cudaFree on such memory waits for nobody: the program vouches that it is idle.
CASE(plain_free_of_pooled_memory) {
  cudaStream_t stream = new_stream();
  Gate gate;
  gate.hold(stream);
  int* made = allocate(kBlock, stream);
  OK(cudaFree(made));
  GIVES(cudaErrorNotReady, cudaStreamQuery(stream));
  GIVES(cudaErrorInvalidValue, cudaFree(made));
  int* plain = device_array<int>(1);
  GIVES(cudaErrorInvalidValue, cudaFreeAsync(plain, stream));  // no pool's
  GIVES(cudaErrorInvalidValue, cudaFreeAsync(plain + 1, stream));
  OK(cudaFreeAsync(nullptr, stream));
  gate.open();
  OK(cudaDeviceSynchronize());
}

CASE(pools_of_devices) {
  cudaMemPool_t first, second, current;
  OK(cudaDeviceGetDefaultMemPool(&first, 0));
  OK(cudaDeviceGetDefaultMemPool(&second, 1));
  CHECK(first != second);
  GIVES(cudaErrorInvalidValue, cudaMemPoolDestroy(first));  // stays
  OK(cudaSetDevice(1));
  cudaStream_t there = new_stream();
  OK(cudaSetDevice(0));
  cudaPointerAttributes attributes;
  OK(cudaPointerGetAttributes(&attributes, allocate(4, there)));  // from the stream's device, not the current one
  CHECK(attributes.device == 1);
  cudaMemPool_t own = new_pool(1);
  GIVES(cudaErrorInvalidValue, cudaDeviceSetMemPool(0, own));
  OK(cudaDeviceSetMemPool(1, own));
  OK(cudaDeviceGetMemPool(&current, 1));
  CHECK(current == own);
  int* made = allocate(kBlock, there);
  CHECK(attribute(own, cudaMemPoolAttrUsedMemCurrent) == kBlock);
  OK(cudaMemPoolDestroy(own));
  OK(cudaDeviceGetMemPool(&current, 1));
  CHECK(current == second);
  GIVES(cudaErrorInvalidValue, cudaMemPoolDestroy(own));
  *made = 1;  // outlives its pool's handle
  OK(cudaFreeAsync(made, there));
  OK(cudaStreamSynchronize(there));
  CHECK(!is_device_memory(made));
}

CASE(access) {
  cudaMemPool_t pool = new_pool();
  cudaMemAccessFlags flags;
  cudaMemLocation peer{};
  peer.type = cudaMemLocationTypeDevice;
  peer.id = 1;
  OK(cudaMemPoolGetAccess(&flags, pool, &peer));
  CHECK(flags == cudaMemAccessFlagsProtNone);
  cudaMemAccessDesc wanted{peer, cudaMemAccessFlagsProtReadWrite};
  OK(cudaMemPoolSetAccess(pool, &wanted, 1));
  OK(cudaMemPoolGetAccess(&flags, pool, &peer));
  CHECK(flags == cudaMemAccessFlagsProtReadWrite);
  wanted.location.id = 0;
  wanted.flags = cudaMemAccessFlagsProtNone;
  GIVES(cudaErrorInvalidValue, cudaMemPoolSetAccess(pool, &wanted, 1));  // its own device always has access
  wanted.location.id = 99;
  GIVES(cudaErrorInvalidDevice, cudaMemPoolSetAccess(pool, &wanted, 1));
}

CASE(limits) {
  cudaStream_t stream = new_stream();
  cudaMemPool_t pool = new_pool(0, 2 * kBlock);
  void* made;
  int* first = allocate(kBlock, stream, pool);
  allocate(kBlock, stream, pool);
  GIVES(cudaErrorMemoryAllocation, cudaMallocFromPoolAsync(&made, 1, pool, stream));
  OK(cudaFreeAsync(first, stream));
  while (attribute(pool, cudaMemPoolAttrUsedMemCurrent) != kBlock) sleep_ms(1);
  allocate(1, stream, pool);
  GIVES(cudaErrorMemoryAllocation, cudaMallocAsync(&made, uint64_t{1} << 41, stream));
  CHECK(made == nullptr);
  GIVES(cudaErrorInvalidValue, cudaMallocAsync(nullptr, 1, stream));
  GIVES(cudaErrorInvalidValue, cudaMallocFromPoolAsync(&made, 1, reinterpret_cast<cudaMemPool_t>(0x1234), stream));
  GIVES(cudaErrorInvalidResourceHandle, cudaMallocAsync(&made, 1, reinterpret_cast<cudaStream_t>(0x1234)));
  cudaIpcMemHandle_t handle;
  GIVES(cudaErrorInvalidValue, cudaIpcGetMemHandle(&handle, allocate(4, stream)));
  cudaMemPoolProps properties{};
  GIVES(cudaErrorInvalidValue, cudaMemPoolCreate(&pool, &properties));
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = 99;
  GIVES(cudaErrorInvalidDevice, cudaMemPoolCreate(&pool, &properties));
  properties.location.id = 0;
  properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  GIVES(cudaErrorNotSupported, cudaMemPoolCreate(&pool, &properties));
}

// Memory that would belong to a graph is refused by name, and the capture with it.
CASE(not_in_a_capture) {
  cudaStream_t stream = new_stream(), other = new_stream();
  int* made = allocate(4, stream);
  cudaGraph_t graph;
  void* refused;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaFreeAsync(allocate(4, other), other));  // another stream's
  GIVES(cudaErrorNotSupported, cudaMallocAsync(&refused, 4, stream));
  GIVES(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  GIVES(cudaErrorNotSupported, cudaFreeAsync(made, stream));
  GIVES(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
  OK(cudaFreeAsync(made, stream));
}

int main(int argc, char** argv) { return run_case(argc, argv); }
