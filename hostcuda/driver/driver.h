// SPDX-License-Identifier: Apache-2.0
// The driver API answers by calling the runtime's own machinery; a context is simply its device.
#pragma once

#include <cuda.h>

#include <exception>

#include "runtime/device.h"
#include "runtime/error.h"

namespace hostcuda::driver {

inline CUcontext context_of(rt::Device* device) { return reinterpret_cast<CUcontext>(device); }

// The device behind a context handle, or nullptr.
inline rt::Device* device_of(CUcontext context) {
  for (int i = 0; rt::device(i) != nullptr; ++i) {
    if (context_of(rt::device(i)) == context) return rt::device(i);
  }
  return nullptr;
}

inline CUresult no_device() {
  return rt::machine() == nullptr ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_INVALID_DEVICE;
}

// What the runtime's own function answers, in the driver's numbers; no exception leaves the library.
template <typename Call>
CUresult guarded(Call call) {
  try {
    return rt::to_driver(call());
  } catch (const std::exception& error) {
    rt::complain("%s", error.what());
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

// The result of a call of the runtime. The driver's own calls leave the runtime's last error alone.
template <typename Call>
CUresult quietly(Call call) {
  const cudaError_t before = rt::t_state.last_error;
  const cudaError_t error = call();
  rt::t_state.last_error = before;
  return rt::to_driver(error);
}

}  // namespace hostcuda::driver
