// SPDX-License-Identifier: Apache-2.0
// What work costs alone on a GPU. Internal to clock/.
#pragma once

#include "clock/op.h"

namespace hostcuda::clock {

// Makes `op` an operation that does `work`. Throws Error where a kernel fits no SM or a figure is impossible.
void set_work(Op& op, const Gpu& gpu, const Work& work);

}  // namespace hostcuda::clock
