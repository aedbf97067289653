// SPDX-License-Identifier: Apache-2.0
// Device units tell the runtime which kernels they hold when the library is loaded.
#pragma once

#include "hostcuda.h"

namespace hostcuda::shim {

struct KernelRegistration {
  KernelRegistration(const void* symbol, void (*entry)(const void*), const char* name, std::size_t args_bytes,
                     std::uint32_t static_shared_bytes) {
    hostcudaKernelEntry_t kernel{};
    kernel.size = sizeof kernel;
    kernel.version = HOSTCUDA_KERNEL_ENTRY_VERSION;
    kernel.symbol = symbol;
    kernel.name = name;
    kernel.entry = entry;
    kernel.args_bytes = args_bytes;
    kernel.static_shared_bytes = static_shared_bytes;
    kernel.arch = HOSTCUDA_ARCH;
    hostcudaRegisterKernel(&kernel);
  }
};

// A kernel takes its arguments as one structure by reference, which is a pointer in the ABI.
template <class Args>
auto entry_of(void (*kernel)(const Args&)) {
  return reinterpret_cast<void (*)(const void*)>(kernel);
}

// For instances of templates, where they are launched. Registering twice is harmless.
inline void register_once(const void* symbol, const char* name, std::size_t args_bytes) {
  KernelRegistration(symbol, reinterpret_cast<void (*)(const void*)>(const_cast<void*>(symbol)), name, args_bytes, 0);
}

}  // namespace hostcuda::shim

#define HOSTCUDA_REGISTER_KERNEL(kernel, args_type, static_shared)                                              \
  static const ::hostcuda::shim::KernelRegistration hostcuda_registered_##kernel(                              \
      reinterpret_cast<const void*>(&kernel), ::hostcuda::shim::entry_of<args_type>(&kernel), #kernel,         \
      sizeof(args_type), std::uint32_t(static_shared));

// Known by name, no code: launching it fails and says so.
#define HOSTCUDA_REGISTER_LEFT_OUT(kernel)                                         \
  static const ::hostcuda::shim::KernelRegistration hostcuda_registered_##kernel( \
      reinterpret_cast<const void*>(&kernel), nullptr, #kernel, 0, 0);
