// SPDX-License-Identifier: Apache-2.0
// Driver functions by name and version, for those who ask cuGetProcAddress or the runtime instead of linking.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>

#include "driver/driver.h"

using namespace hostcuda;

extern "C" CUresult cuStreamGetCaptureInfo_v2(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*,
                                              const CUgraphNode**, std::size_t*);
extern "C" CUresult cuCtxCreate_v2(CUcontext*, unsigned, CUdevice);
extern "C" CUresult cuCtxCreate_v3(CUcontext*, CUexecAffinityParam*, int, unsigned, CUdevice);
extern "C" CUresult cuCtxCreate_v4(CUcontext*, CUctxCreateParams*, unsigned, CUdevice);

namespace {

struct EntryPoint {
  const char* name;
  int since;  // CUDA version that brought this signature
  void* function;
};

// The headers rename functions to their latest version, so &name is that one.
#define LATEST(name, since) {#name, since, reinterpret_cast<void*>(&name)}
const EntryPoint kEntryPoints[] = {
    {"cuCtxCreate", 3020, reinterpret_cast<void*>(&cuCtxCreate_v2)},
    {"cuCtxCreate", 11040, reinterpret_cast<void*>(&cuCtxCreate_v3)},
    {"cuCtxCreate", 12050, reinterpret_cast<void*>(&cuCtxCreate_v4)},
    {"cuGraphInstantiate", 12000, reinterpret_cast<void*>(&cuGraphInstantiateWithFlags)},
    {"cuStreamGetCaptureInfo", 11030, reinterpret_cast<void*>(&cuStreamGetCaptureInfo_v2)},
    {"cuGetErrorName", 6000, reinterpret_cast<void*>(&cuGetErrorName)},
    {"cuGetProcAddress", 12000, reinterpret_cast<void*>(&cuGetProcAddress)},
    LATEST(cuCtxDestroy, 4000),
    LATEST(cuCtxGetCurrent, 4000),
    LATEST(cuCtxGetDevice, 2000),
    LATEST(cuCtxGetStreamPriorityRange, 5050),
    LATEST(cuCtxPopCurrent, 4000),
    LATEST(cuCtxPushCurrent, 4000),
    LATEST(cuCtxSetCurrent, 4000),
    LATEST(cuCtxSynchronize, 2000),
    LATEST(cuDeviceCanAccessPeer, 4000),
    LATEST(cuDeviceGet, 2000),
    LATEST(cuDeviceGetAttribute, 2000),
    LATEST(cuDeviceGetByPCIBusId, 4010),
    LATEST(cuDeviceGetCount, 2000),
    LATEST(cuDeviceGetDefaultMemPool, 11020),
    LATEST(cuDeviceGetMemPool, 11020),
    LATEST(cuDeviceGetName, 2000),
    LATEST(cuDeviceGetPCIBusId, 4010),
    LATEST(cuDeviceGetUuid, 11040),
    LATEST(cuDevicePrimaryCtxGetState, 7000),
    LATEST(cuDevicePrimaryCtxRelease, 11000),
    LATEST(cuDevicePrimaryCtxRetain, 7000),
    LATEST(cuDeviceSetMemPool, 11020),
    LATEST(cuDeviceTotalMem, 3020),
    LATEST(cuDriverGetVersion, 2020),
    LATEST(cuEventCreate, 2000),
    LATEST(cuEventDestroy, 4000),
    LATEST(cuEventElapsedTime, 2000),
    LATEST(cuEventQuery, 2000),
    LATEST(cuEventRecord, 2000),
    LATEST(cuEventRecordWithFlags, 11010),
    LATEST(cuEventSynchronize, 2000),
    LATEST(cuFuncSetAttribute, 9000),
    LATEST(cuGetErrorString, 6000),
    LATEST(cuGraphAddChildGraphNode, 10000),
    LATEST(cuGraphAddDependencies, 12030),
    LATEST(cuGraphAddEmptyNode, 10000),
    LATEST(cuGraphAddEventRecordNode, 11010),
    LATEST(cuGraphAddEventWaitNode, 11010),
    LATEST(cuGraphAddHostNode, 10000),
    LATEST(cuGraphAddKernelNode, 12000),
    LATEST(cuGraphAddMemsetNode, 10000),
    LATEST(cuGraphClone, 10000),
    LATEST(cuGraphCreate, 10000),
    LATEST(cuGraphDestroy, 10000),
    LATEST(cuGraphDestroyNode, 10000),
    LATEST(cuGraphExecDestroy, 10000),
    LATEST(cuGraphExecUpdate, 12000),
    LATEST(cuGraphGetNodes, 10000),
    LATEST(cuGraphGetRootNodes, 10000),
    LATEST(cuGraphInstantiateWithFlags, 11040),
    LATEST(cuGraphInstantiateWithParams, 12000),
    LATEST(cuGraphLaunch, 10000),
    LATEST(cuGraphNodeGetType, 10000),
    LATEST(cuGraphReleaseUserObject, 11030),
    LATEST(cuGraphRetainUserObject, 11030),
    LATEST(cuGraphUpload, 11010),
    LATEST(cuInit, 2000),
    LATEST(cuLaunchHostFunc, 10000),
    LATEST(cuLaunchKernel, 4000),
    LATEST(cuLaunchKernelEx, 11060),
    LATEST(cuMemAddressFree, 10020),
    LATEST(cuMemAddressReserve, 10020),
    LATEST(cuMemAlloc, 3020),
    LATEST(cuMemAllocAsync, 11020),
    LATEST(cuMemAllocFromPoolAsync, 11020),
    LATEST(cuMemAllocHost, 3020),
    LATEST(cuMemcpy, 4000),
    LATEST(cuMemcpyAsync, 4000),
    LATEST(cuMemcpyDtoD, 3020),
    LATEST(cuMemcpyDtoDAsync, 3020),
    LATEST(cuMemcpyDtoH, 3020),
    LATEST(cuMemcpyDtoHAsync, 3020),
    LATEST(cuMemcpyHtoD, 3020),
    LATEST(cuMemcpyHtoDAsync, 3020),
    LATEST(cuMemcpyPeer, 4000),
    LATEST(cuMemcpyPeerAsync, 4000),
    LATEST(cuMemCreate, 10020),
    LATEST(cuMemExportToShareableHandle, 10020),
    LATEST(cuMemFree, 3020),
    LATEST(cuMemFreeAsync, 11020),
    LATEST(cuMemFreeHost, 2000),
    LATEST(cuMemGetAccess, 10020),
    LATEST(cuMemGetAddressRange, 3020),
    LATEST(cuMemGetAllocationGranularity, 10020),
    LATEST(cuMemGetAllocationPropertiesFromHandle, 10020),
    LATEST(cuMemGetHandleForAddressRange, 11070),
    LATEST(cuMemGetInfo, 3020),
    LATEST(cuMemHostAlloc, 2020),
    LATEST(cuMemHostRegister, 6050),
    LATEST(cuMemHostUnregister, 4000),
    LATEST(cuMemImportFromShareableHandle, 10020),
    LATEST(cuMemMap, 10020),
    LATEST(cuMemPoolCreate, 11020),
    LATEST(cuMemPoolDestroy, 11020),
    LATEST(cuMemPoolGetAccess, 11020),
    LATEST(cuMemPoolGetAttribute, 11020),
    LATEST(cuMemPoolSetAccess, 11020),
    LATEST(cuMemPoolSetAttribute, 11020),
    LATEST(cuMemPoolTrimTo, 11020),
    LATEST(cuMemRelease, 10020),
    LATEST(cuMemRetainAllocationHandle, 11000),
    LATEST(cuMemSetAccess, 10020),
    LATEST(cuMemsetD16, 3020),
    LATEST(cuMemsetD16Async, 3020),
    LATEST(cuMemsetD32, 3020),
    LATEST(cuMemsetD32Async, 3020),
    LATEST(cuMemsetD8, 3020),
    LATEST(cuMemsetD8Async, 3020),
    LATEST(cuMemUnmap, 10020),
    LATEST(cuModuleGetFunction, 2000),
    LATEST(cuModuleLoad, 2000),
    LATEST(cuModuleLoadData, 2000),
    LATEST(cuModuleLoadDataEx, 2010),
    LATEST(cuModuleLoadFatBinary, 2000),
    LATEST(cuModuleUnload, 2000),
    LATEST(cuMulticastAddDevice, 12010),
    LATEST(cuMulticastBindAddr, 12010),
    LATEST(cuMulticastBindMem, 12010),
    LATEST(cuMulticastCreate, 12010),
    LATEST(cuMulticastGetGranularity, 12010),
    LATEST(cuMulticastUnbind, 12010),
    LATEST(cuPointerGetAttribute, 4000),
    LATEST(cuPointerGetAttributes, 7000),
    LATEST(cuStreamAddCallback, 5000),
    LATEST(cuStreamBatchMemOp, 11070),
    LATEST(cuStreamBeginCapture, 10010),
    LATEST(cuStreamBeginCaptureToGraph, 12030),
    LATEST(cuStreamCreate, 2000),
    LATEST(cuStreamCreateWithPriority, 5050),
    LATEST(cuStreamDestroy, 4000),
    LATEST(cuStreamEndCapture, 10000),
    LATEST(cuStreamGetCaptureInfo, 12030),
    LATEST(cuStreamGetCtx, 9020),
    LATEST(cuStreamGetDevice, 12080),
    LATEST(cuStreamGetFlags, 5050),
    LATEST(cuStreamGetId, 12000),
    LATEST(cuStreamGetPriority, 5050),
    LATEST(cuStreamIsCapturing, 10000),
    LATEST(cuStreamQuery, 2000),
    LATEST(cuStreamSynchronize, 2000),
    LATEST(cuStreamUpdateCaptureDependencies, 12030),
    LATEST(cuStreamWaitEvent, 3020),
    LATEST(cuStreamWaitValue32, 11070),
    LATEST(cuStreamWaitValue64, 11070),
    LATEST(cuStreamWriteValue32, 11070),
    LATEST(cuStreamWriteValue64, 11070),
    LATEST(cuThreadExchangeStreamCaptureMode, 10010),
    LATEST(cuUserObjectCreate, 11030),
    LATEST(cuUserObjectRelease, 11030),
    LATEST(cuUserObjectRetain, 11030),
};
#undef LATEST

// The newest signature that a program built for `version` may be given.
void* find(const char* name, int version, CUdriverProcAddressQueryResult* status) {
  const EntryPoint* best = nullptr;
  bool known = false;
  for (const EntryPoint& entry : kEntryPoints) {
    if (std::strcmp(entry.name, name) != 0) continue;
    known = true;
    if (entry.since <= version && (best == nullptr || entry.since > best->since)) best = &entry;
  }
  if (status != nullptr) {
    *status = best != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
              : known         ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                              : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return best == nullptr ? nullptr : best->function;
}

// NVIDIA's own runtime works with tables of NVIDIA's driver that are in no documentation. Says so once, and who it is.
void refuse_foreign_runtime(const void* caller) {
  static std::once_flag told;
  std::call_once(told, [caller] {
    Dl_info info{};
    const bool known = ::dladdr(caller, &info) != 0 && info.dli_fname != nullptr;
    rt::complain(
        "%s holds NVIDIA's own CUDA runtime (cudart_static?), which works with NVIDIA's driver only; link it with "
        "hostcuda's libcudart instead (g++: -lcudart, nvcc: -cudart shared)",
        known ? info.dli_fname : "this program");
  });
}

}  // namespace

HC_EXPORT CUresult cuGetProcAddress(const char* name, void** function, int version, cuuint64_t,
                                    CUdriverProcAddressQueryResult* status) {
  if (name == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // That runtime's first question, and nobody else's.
  if (*name == '\0') refuse_foreign_runtime(__builtin_return_address(0));
  *function = find(name, version, status);
  return *function != nullptr || status != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

// How such a runtime before CUDA 11.3 began.
HC_EXPORT CUresult cuGetExportTable(const void** table, const CUuuid*) {
  refuse_foreign_runtime(__builtin_return_address(0));
  if (table != nullptr) *table = nullptr;
  return CUDA_ERROR_NOT_SUPPORTED;
}

HC_EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                                       unsigned long long, cudaDriverEntryPointQueryResult* status) {
  if (name == nullptr || function == nullptr) return rt::report(cudaErrorInvalidValue);
  CUdriverProcAddressQueryResult found;
  *function = find(name, static_cast<int>(version), &found);
  if (status != nullptr) *status = static_cast<cudaDriverEntryPointQueryResult>(found);  // the same numbers
  return cudaSuccess;
}

HC_EXPORT cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                                              cudaDriverEntryPointQueryResult* status) {
  return cudaGetDriverEntryPointByVersion(name, function, CUDART_VERSION, flags, status);
}
