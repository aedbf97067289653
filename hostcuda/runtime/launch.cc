// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "runtime/device.h"
#include "runtime/error.h"

namespace hostcuda::rt {
namespace {

constexpr unsigned kMostThreadsPerCta = 1024;

std::mutex g_kernels_lock;
std::map<const void*, Kernel>& kernels() {
  static auto* all = new std::map<const void*, Kernel>;  // entries stay where they are; names are handed out
  return *all;
}

// The kernel that may be launched, or nullptr with a line that names what was asked for.
const Kernel* launchable(const void* symbol) {
  const Kernel* kernel = find_kernel(symbol);
  if (kernel == nullptr) {
    complain("kernel %s is not known: it was not compiled for hostcuda", kernel_name(symbol).c_str());
  } else if (kernel->entry == nullptr) {
    complain("kernel %s is not in this build", kernel->name.c_str());
    return nullptr;
  }
  return kernel;
}

cudaError_t check_shape(const LaunchRequest& request, const Kernel& kernel) {
  const GpuInfo& gpu = machine()->gpu;
  const auto empty = [](const simt::Dim3& d) { return d.x == 0 || d.y == 0 || d.z == 0; };
  if (empty(request.grid) || empty(request.block)) return cudaErrorInvalidConfiguration;
  const std::uint64_t threads = std::uint64_t{request.block.x} * request.block.y * request.block.z;
  const unsigned most = kernel.max_threads != 0 ? kernel.max_threads : kMostThreadsPerCta;
  if (threads > most) {
    complain("kernel %s: %llu threads a CTA, at most %u are allowed", kernel.name.c_str(),
             static_cast<unsigned long long>(threads), most);
    return cudaErrorInvalidConfiguration;
  }
  const std::size_t shared = kernel.static_shared_bytes + request.dynamic_shared_bytes;
  if (shared > gpu.shared_bytes_per_cta) {
    complain("kernel %s: %zu bytes of shared memory a CTA, %s has %llu", kernel.name.c_str(), shared, gpu.name.c_str(),
             static_cast<unsigned long long>(gpu.shared_bytes_per_cta));
    return cudaErrorInvalidConfiguration;
  }
  return cudaSuccess;
}

}  // namespace

const Kernel* find_kernel(const void* symbol) {
  std::lock_guard<std::mutex> guard(g_kernels_lock);
  const auto found = kernels().find(symbol);
  return found == kernels().end() ? nullptr : &found->second;
}

std::string kernel_name(const void* symbol) {
  if (const Kernel* kernel = find_kernel(symbol)) return kernel->name;
  Dl_info info;
  char text[64];
  std::snprintf(text, sizeof text, "at %p", symbol);
  if (::dladdr(symbol, &info) == 0) return text;
  if (info.dli_sname != nullptr && info.dli_saddr == symbol) return info.dli_sname;
  return std::string(text) + " in " + (info.dli_fname != nullptr ? info.dli_fname : "an unknown file");
}

cudaError_t launch(const LaunchRequest& request) {
  HC_DEVICE(here);
  (void)here;
  const Announced announced = take_announcement();
  const Kernel* kernel = launchable(request.symbol);
  if (kernel == nullptr) return report(cudaErrorInvalidDeviceFunction);
  if (const cudaError_t error = check_shape(request, *kernel); error != cudaSuccess) return report(error);

  const OpRef op = make_op(OpKind::kernel, announced.name.empty() ? kernel->name : announced.name);
  simt::GridSpec& spec = op->grid;
  spec.entry = kernel->entry;
  spec.args.resize(std::max(kernel->args_bytes, request.args_bytes));
  if (request.args != nullptr) {
    std::memcpy(spec.args.data(), request.args, request.args_bytes);
  } else if (request.params != nullptr && kernel->args_bytes != 0) {
    std::memcpy(spec.args.data(), request.params[0], kernel->args_bytes);
  }
  spec.grid = request.grid;
  spec.block = request.block;
  spec.static_shared_bytes = kernel->static_shared_bytes;
  spec.dynamic_shared_bytes = request.dynamic_shared_bytes;
  spec.name = kernel->name.c_str();

  clock::GridWork cost;
  cost.name = op->name;
  cost.ctas = request.grid.x * request.grid.y * request.grid.z;
  cost.threads_per_cta = request.block.x * request.block.y * request.block.z;
  cost.registers_per_thread = kernel->registers;
  cost.shared_bytes_per_cta = kernel->static_shared_bytes + request.dynamic_shared_bytes;
  cost.collective = announced.epoch != 0;
  cost.epoch = announced.epoch;
  cost.bytes_in_flight = announced.bytes_in_flight;
  op->cost = cost;

  std::lock_guard<std::mutex> guard(runtime_lock());
  const StreamRef stream = find_stream(request.stream);
  if (!stream) return report(cudaErrorInvalidResourceHandle);
  spec.device = stream->device->place;
  if (request.started != nullptr) {
    Event* event = find_event(request.started);
    if (event == nullptr) return report(cudaErrorInvalidResourceHandle);
    // Its modelled time is that of what the grid itself waits for: when a grid's last CTA has started is not placed.
    op->start_event = make_op(OpKind::record);
    event->op = op->start_event;
  }
  return report(enqueue(stream, op));
}

}  // namespace hostcuda::rt

using namespace hostcuda::rt;

HC_EXPORT int hostcudaVersion() { return 1; }

HC_EXPORT cudaError_t hostcudaRegisterKernel(const hostcudaKernelEntry_t* told) {
  if (told == nullptr || told->size < sizeof *told || told->version != HOSTCUDA_KERNEL_ENTRY_VERSION ||
      told->symbol == nullptr || told->name == nullptr) {
    return report(cudaErrorInvalidValue);
  }
  Kernel kernel;
  kernel.name = told->name;
  kernel.entry = told->entry;
  kernel.args_bytes = told->args_bytes;
  kernel.max_threads = told->max_threads_per_cta;
  kernel.registers = told->registers_per_thread;
  kernel.static_shared_bytes = told->static_shared_bytes;
  std::lock_guard<std::mutex> guard(g_kernels_lock);
  kernels()[told->symbol] = std::move(kernel);
  return cudaSuccess;
}

HC_EXPORT cudaError_t hostcudaAnnounceLaunch(const hostcudaLaunchInfo_t* info) {
  if (info == nullptr || info->size < sizeof *info || info->version != HOSTCUDA_LAUNCH_INFO_VERSION) {
    return report(cudaErrorInvalidValue);
  }
  return report(announce(*info));
}

HC_EXPORT cudaError_t hostcudaLaunchDescribed(const hostcudaKernel_t* told, cudaStream_t handle) {
  HC_DEVICE(here);
  (void)here;
  if (told == nullptr || told->size < sizeof *told || told->version != HOSTCUDA_KERNEL_VERSION) {
    return report(cudaErrorInvalidValue);
  }
  const OpRef op = make_op(OpKind::described, told->name == nullptr ? "kernel" : told->name);
  hostcuda::clock::KernelWork cost;
  cost.name = op->name;
  cost.flops = told->flops;
  cost.bytes_read = told->bytes_read;
  cost.bytes_written = told->bytes_written;
  cost.ctas = told->ctas;
  cost.threads_per_cta = told->threads_per_cta;
  cost.registers_per_thread = told->registers_per_thread;
  cost.shared_bytes_per_cta = told->shared_bytes_per_cta;
  op->cost = cost;
  std::lock_guard<std::mutex> guard(runtime_lock());
  const StreamRef stream = find_stream(handle);
  if (!stream) return report(cudaErrorInvalidResourceHandle);
  return report(enqueue(stream, op));
}

HC_EXPORT cudaError_t hostcudaHelperThread() {
  t_state.helper = true;
  return cudaSuccess;
}

HC_EXPORT uint64_t hostcudaHostTimeNs() {
  hostcuda::clock::HostThread* host = host_thread();
  if (host == nullptr || machine() == nullptr) return 0;
  try {
    return timeline().host_time_ps(*host) / 1000;
  } catch (const std::exception& error) {
    complain("%s", error.what());
    return 0;
  }
}

HC_EXPORT cudaError_t hostcudaClockRegister(void* base, size_t bytes) {
  try {
    hostcuda::clock::register_device_times(base, bytes);
  } catch (const std::exception& error) {
    complain("%s", error.what());
    return report(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

HC_EXPORT cudaError_t hostcudaClockUnregister(void* base) {
  return report(hostcuda::clock::unregister_device_times(base) ? cudaSuccess : cudaErrorInvalidValue);
}
