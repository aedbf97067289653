// SPDX-License-Identifier: Apache-2.0
// What no program should ask for: sizes that wrap around, memory that goes away under its copies, waits that would wait
// for themselves. An error each time, never the end of the process and never a smaller answer than was asked for.
#include <cuda.h>

#include "check.h"

constexpr size_t kHuge = SIZE_MAX, kHalf = size_t{1} << 63;

CASE(sizes_that_wrap_around) {
  void* made = &made;
  size_t pitch;
  cudaPitchedPtr box;
  GIVES(cudaErrorMemoryAllocation, cudaMallocPitch(&made, &pitch, kHuge, 2));
  GIVES(cudaErrorMemoryAllocation, cudaMallocPitch(&made, &pitch, size_t{1} << 40, size_t{1} << 40));
  GIVES(cudaErrorMemoryAllocation, cudaMalloc3D(&box, (cudaExtent{kHuge, 2, 2})));
  GIVES(cudaErrorMemoryAllocation, cudaMalloc3D(&box, (cudaExtent{1, kHalf, 2})));
  GIVES(cudaErrorMemoryAllocation, cudaMallocAsync(&made, kHuge, nullptr));
  CHECK(made == nullptr);
  GIVES(cudaErrorInvalidValue, cudaHostRegister(&made, kHuge, 0));

  char *device = device_array<char>(4096), host[64] = {};
  GIVES(cudaErrorInvalidValue, cudaMemset(device, 0, kHuge));
  GIVES(cudaErrorInvalidValue, cudaMemset2D(device, kHuge, 0, 8, 4));
  GIVES(cudaErrorInvalidValue, cudaMemset2D(device, size_t{1} << 62, 0, 8, 8));
  GIVES(cudaErrorInvalidValue, cudaMemset2D(device, 16, 0, 8, (size_t{1} << 60) + 1));
  GIVES(cudaErrorInvalidValue, cudaMemset3D(cudaPitchedPtr{device, kHalf, 8, 2}, 0, cudaExtent{8, 1, 3}));
  GIVES(cudaErrorInvalidValue, cudaMemcpy(device, host, kHuge, cudaMemcpyDefault));
  GIVES(cudaErrorInvalidValue, cudaMemcpy(host, host, kHuge, cudaMemcpyDefault));
  GIVES(cudaErrorInvalidValue, cudaMemcpy2D(device, size_t{1} << 61, host, size_t{1} << 61, 16, 9, cudaMemcpyDefault));

  cudaMemcpy3DParms params{};
  params.srcPtr = {host, 16, 16, 1};
  params.dstPtr = {device, 16, 16, 1};
  params.extent = cudaExtent{8, 1, 1};
  params.kind = cudaMemcpyDefault;
  OK(cudaMemcpy3D(&params));
  for (const cudaPos at : {cudaPos{kHuge, 0, 0}, cudaPos{0, size_t{1} << 60, 0}, cudaPos{0, 0, kHalf}}) {
    params.dstPos = at;
    GIVES(cudaErrorInvalidValue, cudaMemcpy3D(&params));
  }
  cudaGraph_t graph;
  cudaGraphNode_t node;
  OK(cudaGraphCreate(&graph, 0));
  cudaMemsetParams fill{device, 0, 0, 4, size_t{1} << 62, 1};  // four bytes each
  GIVES(cudaErrorInvalidValue, cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &fill));
  fill = {device, size_t{1} << 62, 0, 4, 1, 5};
  GIVES(cudaErrorInvalidValue, cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &fill));
}

CASE(devices_and_flags_that_are_none) {
  char* device = device_array<char>(64);
  GIVES(cudaErrorInvalidDevice, cudaMemcpyPeer(device, 0, device, 99, 16));
  GIVES(cudaErrorInvalidDevice, cudaMemcpyPeerAsync(device, -1, device, 0, 16, nullptr));
  OK(cudaMemcpyPeer(device, 0, device, 1, 16));
  GIVES(cudaErrorInvalidValue, cudaSetDeviceFlags(0x1000));
  OK(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync | cudaDeviceMapHost));
  GIVES(cudaErrorInvalidValue, cudaHostRegister(reinterpret_cast<void*>(0x1234560), 4096, 0));  // nothing is there
}

struct Mapping {
  static constexpr size_t kBytes = 2 << 20;  // of 2 x this that are reserved
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle{};
  CUmemAllocationProp wanted{};

  Mapping() {
    wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    OK(cuMemCreate(&handle, kBytes, &wanted, 0));
    OK(cuMemAddressReserve(&address, 2 * kBytes, 0, 0, 0));
    OK(cuMemMap(address, kBytes, 0, handle, 0));
  }
  void* pointer() const { return reinterpret_cast<void*>(address); }
};

CASE(more_than_there_is) {
  Mapping some;
  CUmemGenericAllocationHandle handle;
  CUdeviceptr address;
  constexpr size_t kPages = Mapping::kBytes * (SIZE_MAX / Mapping::kBytes);
  for (const size_t bytes : {size_t{1} << 60, kPages}) {
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&handle, bytes, &some.wanted, 0));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAddressReserve(&address, bytes, 0, 0, 0));
  }
  GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAddressReserve(&address, Mapping::kBytes, kHalf, 0, 0));
}

CASE(ranges_that_are_mapped_in_part) {
  Mapping first;
  static char host[2 * Mapping::kBytes];
  CUmemAccessDesc access{first.wanted.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  const auto all_refused = [&](CUresult set_access, cudaError_t bytes) {
    GIVES(set_access, cuMemSetAccess(first.address, sizeof host, &access, 1));
    GIVES(bytes, cudaMemset(first.pointer(), 1, sizeof host));
    GIVES(bytes, cudaMemcpy(first.pointer(), host, sizeof host, cudaMemcpyDefault));
    GIVES(bytes, cudaMemcpy(host, first.pointer(), sizeof host, cudaMemcpyDefault));
  };
  all_refused(CUDA_ERROR_INVALID_VALUE, cudaErrorInvalidValue);
  CUmemGenericAllocationHandle second;
  OK(cuMemCreate(&second, Mapping::kBytes, &first.wanted, 0));
  OK(cuMemMap(first.address + Mapping::kBytes, Mapping::kBytes, 0, second, 0));
  all_refused(CUDA_SUCCESS, cudaSuccess);  // one mapping continues the other

  GIVES(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(first.address, 0, &access, 1));
  access.location.id = 99;
  GIVES(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(first.address, sizeof host, &access, 1));
  access = {first.wanted.location, static_cast<CUmemAccess_flags>(77)};
  GIVES(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(first.address, sizeof host, &access, 1));
  GIVES(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(first.address, 0));
  size_t bytes;
  auto wanted = first.wanted;
  GIVES(CUDA_ERROR_INVALID_VALUE,
        cuMemGetAllocationGranularity(&bytes, &wanted, static_cast<CUmemAllocationGranularity_flags>(9)));
  wanted.location.id = 99;
  GIVES(CUDA_ERROR_INVALID_VALUE, cuMemGetAllocationGranularity(&bytes, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

// As on a GPU: the device is lost, the process is not.
template <typename Enqueue>
void goes_away_before(Enqueue enqueue) {
  Mapping mapping;
  cudaStream_t stream = new_stream();
  Gate gate;
  gate.hold(stream);
  enqueue(mapping, stream);
  OK(cuMemUnmap(mapping.address, Mapping::kBytes));
  gate.open();
  GIVES(cudaErrorIllegalAddress, cudaStreamSynchronize(stream));
  GIVES(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  OK(cudaSetDevice(1));
  OK(cudaDeviceSynchronize());
}

CASE(memory_goes_away_before_a_fill) {
  goes_away_before([](Mapping& mapping, cudaStream_t stream) {
    OK(cudaMemsetAsync(mapping.pointer(), 1, 64, stream));
  });
}

CASE(memory_goes_away_before_a_copy) {
  char* other = device_array<char>(64);
  goes_away_before([=](Mapping& mapping, cudaStream_t stream) {
    OK(cudaMemcpyAsync(other, mapping.pointer(), 64, cudaMemcpyDefault, stream));
  });
}

CASE(memory_goes_away_before_a_stream_write) {
  goes_away_before([](Mapping& mapping, cudaStream_t stream) {
    OK(cuStreamWriteValue32(stream, mapping.address, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
  });
}

CASE(host_memory_that_is_not_there) {
  char* device = device_array<char>(64);
  GIVES(cudaErrorIllegalAddress, cudaMemcpy(device, reinterpret_cast<void*>(0x1234560), 64, cudaMemcpyHostToDevice));
}

// CUDA forbids calls from host functions, because the device stands behind them. Those that wait say so.
CASE(host_functions_that_wait) {
  static char* device = device_array<char>(64);
  static std::atomic<bool> called{false};
  cudaStream_t stream = new_stream();
  static const auto waits = [] {
    char host[64];
    GIVES(cudaErrorNotPermitted, cudaDeviceSynchronize());
    GIVES(cudaErrorNotPermitted, cudaStreamSynchronize(nullptr));
    GIVES(cudaErrorNotPermitted, cudaMemcpy(host, device, sizeof host, cudaMemcpyDefault));
    GIVES(cudaErrorNotPermitted, cudaMemcpyAsync(host, device, sizeof host, cudaMemcpyDefault, nullptr));
    GIVES(cudaErrorNotPermitted, cudaFree(device));
    called = true;
  };
  OK(cudaLaunchHostFunc(stream, [](void*) { waits(); }, nullptr));
  OK(cudaStreamSynchronize(stream));
  CHECK(called.exchange(false));
  OK(cudaStreamAddCallback(stream, [](cudaStream_t, cudaError_t, void*) { waits(); }, nullptr, 0));
  OK(cudaStreamSynchronize(stream));
  CHECK(called);
  OK(cudaFree(device));
}

int main(int argc, char** argv) { return run_case(argc, argv); }
