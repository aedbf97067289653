// SPDX-License-Identifier: Apache-2.0
// Stream memory operations and batches of copies.
#include <cuda.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "check.h"

constexpr int kWhile = 30;  // ms in which something that must not happen would have happened

static CUdeviceptr at(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

template <typename T>
static T* pinned(size_t count = 1) {
  void* made = nullptr;
  OK(cudaMallocHost(&made, count * sizeof(T)));
  std::memset(made, 0, count * sizeof(T));
  return static_cast<T*>(made);
}

static bool is_waiting(cudaStream_t stream) {
  sleep_ms(kWhile);
  return cudaStreamQuery(stream) == cudaErrorNotReady;
}

// Waits for `op` on a word that first holds `before`, then `after`.
template <typename Word, typename Wait>
static void check_condition(Wait wait, Word value, unsigned flags, Word before, Word after) {
  Word* word = pinned<Word>();
  *word = before;
  cudaStream_t stream = new_stream();
  OK(wait(stream, at(word), value, flags));
  CHECK(is_waiting(stream));
  __atomic_store_n(word, after, __ATOMIC_RELEASE);
  OK(cudaStreamSynchronize(stream));
}

CASE(wait_greater_or_equal_is_cyclic) {
  check_condition<cuuint32_t>(cuStreamWaitValue32, 5, CU_STREAM_WAIT_VALUE_GEQ, 4, 6);
  check_condition<cuuint32_t>(cuStreamWaitValue32, 1, CU_STREAM_WAIT_VALUE_GEQ, 0xffffffffu, 1);
  check_condition<cuuint64_t>(cuStreamWaitValue64, 1, CU_STREAM_WAIT_VALUE_GEQ, ~0ull, 2);
}

CASE(wait_equal) {
  check_condition<cuuint32_t>(cuStreamWaitValue32, 5, CU_STREAM_WAIT_VALUE_EQ, 6, 5);
  // The upper half counts in 64 bits, and does not in 32.
  check_condition<cuuint64_t>(cuStreamWaitValue64, 5, CU_STREAM_WAIT_VALUE_EQ, 5 | 1ull << 32, 5);
}

CASE(wait_any_bit) {
  check_condition<cuuint32_t>(cuStreamWaitValue32, 6, CU_STREAM_WAIT_VALUE_AND, 9, 4);
  check_condition<cuuint64_t>(cuStreamWaitValue64, 1ull << 40, CU_STREAM_WAIT_VALUE_AND, 1, 1ull << 40);
}

CASE(wait_any_zero_bit) {
  check_condition<cuuint32_t>(cuStreamWaitValue32, 0xffff0000u, CU_STREAM_WAIT_VALUE_NOR, 0xffffu, 0xfffeu);
  check_condition<cuuint64_t>(cuStreamWaitValue64, 0, CU_STREAM_WAIT_VALUE_NOR, ~0ull, ~1ull);
}

CASE(writes_come_in_order) {
  cudaStream_t stream = new_stream();
  cuuint32_t* words = pinned<cuuint32_t>(2);
  cuuint64_t* wide = pinned<cuuint64_t>();
  int* cell = device_array<int>(1);
  Gate gate;
  gate.hold(stream, cell, 7);
  OK(cuStreamWriteValue32(stream, at(words), 11, CU_STREAM_WRITE_VALUE_DEFAULT));
  OK(cuStreamWriteValue64(stream, at(wide), 1ull << 40, CU_STREAM_WRITE_VALUE_DEFAULT));
  CHECK(is_waiting(stream));
  CHECK(words[0] == 0 && *wide == 0);
  gate.open();
  while (__atomic_load_n(wide, __ATOMIC_ACQUIRE) == 0) sched_yield();
  CHECK(*cell == 7 && words[0] == 11 && words[1] == 0 && *wide == 1ull << 40);
  OK(cudaStreamSynchronize(stream));
}

CASE(what_follows_a_wait_waits) {
  cudaStream_t waits = new_stream(), writes = new_stream();
  cuuint32_t* flag = device_array<cuuint32_t>(1);
  int* cell = pinned<int>();
  int* one = device_array<int>(1);  // a copy from host to host would hold this thread up
  const int value = 1;
  OK(cudaMemcpy(one, &value, sizeof value, cudaMemcpyDefault));
  OK(cudaMemset(flag, 0, sizeof *flag));
  OK(cuStreamWaitValue32(waits, at(flag), 3, CU_STREAM_WAIT_VALUE_EQ));
  OK(cudaMemcpyAsync(cell, one, sizeof *cell, cudaMemcpyDefault, waits));
  CHECK(is_waiting(waits) && *cell == 0);
  // The other stream of the device goes on beside it.
  OK(cuStreamWriteValue32(writes, at(flag), 2, CU_STREAM_WRITE_VALUE_DEFAULT));
  OK(cudaStreamSynchronize(writes));
  CHECK(is_waiting(waits) && *cell == 0);
  OK(cuStreamWriteValue32(writes, at(flag), 3, CU_STREAM_WRITE_VALUE_DEFAULT));
  OK(cudaStreamSynchronize(waits));
  CHECK(*cell == 1);
}

CASE(batch_in_order) {
  cudaStream_t stream = new_stream();
  cuuint32_t* words = pinned<cuuint32_t>(3);
  CUstreamBatchMemOpParams ops[5] = {};
  ops[0].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, at(words), {1}, CU_STREAM_WRITE_VALUE_DEFAULT, 0};
  ops[1].waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32, at(words + 1), {1}, CU_STREAM_WAIT_VALUE_EQ, 0};
  ops[2].memoryBarrier = {CU_STREAM_MEM_OP_BARRIER, CU_STREAM_MEMORY_BARRIER_TYPE_SYS};
  ops[3].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, at(words + 2), {1}, CU_STREAM_WRITE_VALUE_DEFAULT, 0};
  ops[4].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, at(words), {2}, CU_STREAM_WRITE_VALUE_DEFAULT, 0};
  OK(cuStreamBatchMemOp(stream, 5, ops, 0));
  CHECK(is_waiting(stream));
  CHECK(words[0] == 1 && words[2] == 0);
  __atomic_store_n(words + 1, 1u, __ATOMIC_RELEASE);
  OK(cudaStreamSynchronize(stream));
  CHECK(words[0] == 2 && words[2] == 1);
  OK(cuStreamBatchMemOp(stream, 0, nullptr, 0));
}

CASE(bad_operations) {
  cudaStream_t stream = new_stream();
  cuuint32_t* words = pinned<cuuint32_t>(4);
  cuuint32_t outside = 0;
  const CUdeviceptr here = at(words);
  GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32(stream, here + 2, 0, CU_STREAM_WAIT_VALUE_EQ));
  GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue64(stream, here + 4, 0, CU_STREAM_WAIT_VALUE_EQ));
  GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32(stream, at(&outside), 0, CU_STREAM_WRITE_VALUE_DEFAULT));
  GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32(stream, 0, 0, CU_STREAM_WAIT_VALUE_EQ));
  GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32(stream, here, 0, 4));
  GIVES(CUDA_ERROR_NOT_SUPPORTED, cuStreamWaitValue32(stream, here, 0, CU_STREAM_WAIT_VALUE_FLUSH));
  GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32(stream, here, 0, 2));
  GIVES(CUDA_ERROR_NOT_SUPPORTED, cuStreamWriteValue32(stream, here, 0, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
  CUstreamBatchMemOpParams ops[256] = {};
  GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(stream, 1, ops, 0));  // operation 0 does not exist
  ops[0].flushRemoteWrites = {CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES, 0};
  GIVES(CUDA_ERROR_NOT_SUPPORTED, cuStreamBatchMemOp(stream, 1, ops, 0));
  for (auto& op : ops) op.writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, here, {9}, CU_STREAM_WRITE_VALUE_DEFAULT, 0};
  GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(stream, 256, ops, 0));
  GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(stream, 1, ops, 1));
  GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(stream, 1, nullptr, 0));
  ops[1].writeValue.address = here + 1;
  GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(stream, 2, ops, 0));
  OK(cudaStreamSynchronize(stream));
  CHECK(words[0] == 0);  // a batch that is refused does nothing
  (void)cudaGetLastError();
}

// Two processes share nothing but memory: the wait is ended by the other one's stream.
CASE(between_processes) {
  int there[2];
  CHECK(pipe(there) == 0);
  const pid_t child = fork();
  if (child == 0) {
    cudaIpcMemHandle_t handle;
    CHECK(::read(there[0], &handle, sizeof handle) == sizeof handle);
    void* mapped = nullptr;
    OK(cudaIpcOpenMemHandle(&mapped, handle, cudaIpcMemLazyEnablePeerAccess));
    cudaStream_t stream = new_stream();
    sleep_ms(kWhile);
    OK(cuStreamWriteValue64(stream, at(mapped), 77, CU_STREAM_WRITE_VALUE_DEFAULT));
    OK(cudaStreamSynchronize(stream));
    std::_Exit(0);
  }
  auto* word = device_array<cuuint64_t>(1);
  OK(cudaMemset(word, 0, sizeof *word));
  cudaIpcMemHandle_t handle;
  OK(cudaIpcGetMemHandle(&handle, word));
  cudaStream_t stream = new_stream();
  OK(cuStreamWaitValue64(stream, at(word), 77, CU_STREAM_WAIT_VALUE_EQ));
  CHECK(::write(there[1], &handle, sizeof handle) == sizeof handle);
  OK(cudaStreamSynchronize(stream));
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

// A wait that lasts must not burn a core.
CASE(idle_wait_is_cheap) {
  cuuint32_t* word = pinned<cuuint32_t>();
  cudaStream_t stream = new_stream();
  OK(cuStreamWaitValue32(stream, at(word), 1, CU_STREAM_WAIT_VALUE_EQ));
  sleep_ms(300);  // until the pauses have grown
  const double before = cpu_s();
  sleep_ms(1000);
  CHECK(cpu_s() - before < 0.5);  // a thread that spins would have used 1 on an idle machine
  *word = 1;
  OK(cudaStreamSynchronize(stream));
}

// ---- cudaMemcpyBatchAsync ----

static cudaMemcpyAttributes attributes_of(cudaMemcpySrcAccessOrder order) {
  cudaMemcpyAttributes made{};
  made.srcAccessOrder = order;
  return made;
}

CASE(batch_copies_in_stream_order) {
  constexpr size_t kCount = 3, kBytes = 5 << 20;
  cudaStream_t stream = new_stream();
  Gate gate;
  gate.hold(stream);
  char* from[kCount];
  char* to[kCount];
  size_t bytes[kCount];
  for (size_t i = 0; i < kCount; ++i) {
    from[i] = pinned<char>(kBytes);
    to[i] = device_array<char>(kBytes);
    bytes[i] = kBytes - 3 * i;
  }
  cudaMemcpyAttributes attributes[] = {attributes_of(cudaMemcpySrcAccessOrderStream)};
  size_t first[] = {0};
  OK(cudaMemcpyBatchAsync(reinterpret_cast<void**>(to), reinterpret_cast<void**>(from), bytes, kCount, attributes,
                          first, 1, stream));
  CHECK(is_waiting(stream));
  for (size_t i = 0; i < kCount; ++i) {  // read in stream order: after the gate
    std::memset(from[i], int('a' + i), kBytes);
  }
  gate.open();
  OK(cudaStreamSynchronize(stream));
  for (size_t i = 0; i < kCount; ++i) {
    CHECK(to[i][0] == char('a' + i) && to[i][bytes[i] - 1] == char('a' + i));
    CHECK(i == 0 || to[i][bytes[i]] == 0);
  }
}

CASE(batch_takes_ephemeral_sources_along) {
  cudaStream_t stream = new_stream();
  Gate gate;
  gate.hold(stream);
  int source[2] = {5, 6};
  int* cells = device_array<int>(2);
  void* to[] = {cells, cells + 1};
  const void* from[] = {source, source + 1};
  size_t bytes[] = {sizeof(int), sizeof(int)}, first[] = {0, 1};
  cudaMemcpyAttributes attributes[] = {attributes_of(cudaMemcpySrcAccessOrderDuringApiCall),
                                       attributes_of(cudaMemcpySrcAccessOrderAny)};
  OK(cudaMemcpyBatchAsync(to, from, bytes, 2, attributes, first, 2, stream));
  source[0] = 0;
  gate.open();
  OK(cudaStreamSynchronize(stream));
  CHECK(read(cells, stream) == 5 && read(cells + 1, stream) == 6);
}

// Pageable memory in stream order: what an operation before the copy has left there.
CASE(batch_reads_pageable_memory_in_order) {
  static int source = 1;
  int* cell = device_array<int>(1);
  cudaStream_t stream = new_stream();
  Gate gate;
  gate.hold(stream);
  OK(cudaLaunchHostFunc(stream, [](void*) { source = 2; }, nullptr));
  void* to[] = {cell};
  const void* from[] = {&source};
  size_t bytes[] = {sizeof(int)}, first[] = {0};
  cudaMemcpyAttributes attributes[] = {attributes_of(cudaMemcpySrcAccessOrderStream)};
  OK(cudaMemcpyBatchAsync(to, from, bytes, 1, attributes, first, 1, stream));
  gate.open();
  OK(cudaStreamSynchronize(stream));
  CHECK(read(cell, stream) == 2);
}

// A graph's memory operations do their work at every launch, and nothing while they are captured.
CASE(captured_operations) {
  cuuint32_t* words = pinned<cuuint32_t>(2);
  cudaStream_t stream = new_stream();
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cuStreamWaitValue32(stream, at(words), 1, CU_STREAM_WAIT_VALUE_EQ));
  OK(cuStreamWriteValue32(stream, at(words + 1), 5, CU_STREAM_WRITE_VALUE_DEFAULT));
  cudaGraph_t graph;
  OK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t launchable;
  OK(cudaGraphInstantiate(&launchable, graph, 0));
  for (int launch = 0; launch < 2; ++launch) {
    words[0] = words[1] = 0;
    OK(cudaGraphLaunch(launchable, stream));
    CHECK(is_waiting(stream) && words[1] == 0);
    __atomic_store_n(words, 1u, __ATOMIC_RELEASE);
    OK(cudaStreamSynchronize(stream));
    CHECK(words[1] == 5);
  }
}

CASE(bad_batches) {
  cudaStream_t stream = new_stream();
  int* cells = device_array<int>(4);
  OK(cudaMemset(cells, 0, 4 * sizeof(int)));
  int* source = pinned<int>(4);
  source[0] = 1;
  void* to[] = {cells, cells + 2};
  const void* from[] = {source, source};
  size_t bytes[] = {4, 4}, first[] = {0, 1};
  cudaMemcpyAttributes good[] = {attributes_of(cudaMemcpySrcAccessOrderStream),
                                 attributes_of(cudaMemcpySrcAccessOrderAny)};
  const auto refused = [&](size_t count, cudaMemcpyAttributes* attributes, size_t* indices, size_t attribute_count,
                           cudaStream_t where) {
    GIVES(cudaErrorInvalidValue,
          cudaMemcpyBatchAsync(to, from, bytes, count, attributes, indices, attribute_count, where));
    (void)cudaGetLastError();
  };
  refused(2, good, first, 1, nullptr);  // the legacy default stream
  refused(0, good, first, 1, stream);
  refused(2, good, first, 0, stream);
  refused(2, nullptr, first, 1, stream);
  refused(1, good, first, 2, stream);  // more attributes than copies
  size_t late[] = {1, 1}, twice[] = {0, 0}, beyond[] = {0, 2};
  refused(2, good, late, 1, stream);
  refused(2, good, twice, 2, stream);
  refused(2, good, beyond, 2, stream);
  cudaMemcpyAttributes none[] = {attributes_of(cudaMemcpySrcAccessOrderInvalid)};
  refused(2, none, first, 1, stream);
  bytes[1] = size_t{1} << 40;  // ends outside of its allocation
  refused(2, good, first, 1, stream);
  OK(cudaStreamSynchronize(stream));
  CHECK(read(cells, stream) == 0);  // a batch that is refused copies nothing
}

int main(int argc, char** argv) { return run_case(argc, argv); }
