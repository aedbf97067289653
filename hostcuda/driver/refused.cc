// SPDX-License-Identifier: Apache-2.0
// What the driver offers on some GPUs and this version does not. The attributes say so first; who calls anyway is refused
// by name.
#include "driver/driver.h"

using namespace hostcuda;

namespace {

CUresult refuse(const char* what) {
  rt::complain("%s is not offered by this version", what);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

HC_EXPORT CUresult cuStreamBatchMemOp(CUstream, unsigned, CUstreamBatchMemOpParams*, unsigned) {
  return refuse("cuStreamBatchMemOp");
}
HC_EXPORT CUresult cuStreamWaitValue32(CUstream, CUdeviceptr, cuuint32_t, unsigned) {
  return refuse("cuStreamWaitValue32");
}
HC_EXPORT CUresult cuStreamWaitValue64(CUstream, CUdeviceptr, cuuint64_t, unsigned) {
  return refuse("cuStreamWaitValue64");
}
HC_EXPORT CUresult cuStreamWriteValue32(CUstream, CUdeviceptr, cuuint32_t, unsigned) {
  return refuse("cuStreamWriteValue32");
}
HC_EXPORT CUresult cuStreamWriteValue64(CUstream, CUdeviceptr, cuuint64_t, unsigned) {
  return refuse("cuStreamWriteValue64");
}
