// SPDX-License-Identifier: Apache-2.0
// What a device answers when it is asked about itself.
#pragma once

#include <cuda_runtime_api.h>

#include <optional>

#include "runtime/device.h"

namespace hostcuda::rt {

inline constexpr int kLeastPriority = 0;
inline constexpr int kGreatestPriority = -5;

// By CUdevice_attribute number; none for a number that CUDA 13 does not know.
std::optional<int> device_attribute(const Device& device, int attribute);
void fill_properties(const Device& device, cudaDeviceProp* properties);

}  // namespace hostcuda::rt
