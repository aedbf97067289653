// SPDX-License-Identifier: Apache-2.0
// Modules hold machine code for a GPU, which there is none to run. Functions are the kernels that programs registered,
// and a CUfunction is the address under which one did.
#include "driver/driver.h"

using namespace hostcuda;

namespace {

CUresult refuse(const char* what) {
  rt::complain(
      "%s: modules hold code for a GPU and none is here; hostcudaRegisterKernel takes kernels compiled for the CPU, "
      "hostcudaLaunchDescribed kernels known by their cost",
      what);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

HC_EXPORT CUresult cuModuleLoad(CUmodule*, const char*) { return refuse("cuModuleLoad"); }
HC_EXPORT CUresult cuModuleLoadData(CUmodule*, const void*) { return refuse("cuModuleLoadData"); }
HC_EXPORT CUresult cuModuleLoadDataEx(CUmodule*, const void*, unsigned, CUjit_option*, void**) {
  return refuse("cuModuleLoadDataEx");
}
HC_EXPORT CUresult cuModuleLoadFatBinary(CUmodule*, const void*) { return refuse("cuModuleLoadFatBinary"); }
// Nobody has a module that was loaded here.
HC_EXPORT CUresult cuModuleUnload(CUmodule) { return CUDA_ERROR_INVALID_HANDLE; }
HC_EXPORT CUresult cuModuleGetFunction(CUfunction*, CUmodule, const char*) { return CUDA_ERROR_INVALID_HANDLE; }

HC_EXPORT CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  const bool shared = attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  return rt::to_driver(cudaFuncSetAttribute(
      function, shared ? cudaFuncAttributeMaxDynamicSharedMemorySize : cudaFuncAttributePreferredSharedMemoryCarveout,
      value));
}
