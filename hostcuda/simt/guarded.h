// SPDX-License-Identifier: Apache-2.0
// Work outside of device threads that touches memory which may have gone away meanwhile.
#pragma once

#include <functional>

namespace hostcuda::simt {

// Runs `work`; true if it touched memory that is not there, at `*address`. It was then left at once, without
// destructors: for plain loads and stores only, that hold nothing.
bool faults(const std::function<void()>& work, const void** address);

}  // namespace hostcuda::simt
