// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "runtime/capture.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/task.h"

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
  } else if (kernel->gpu_code) {
    complain("kernel %s is GPU code compiled by nvcc, and hostcuda runs NCCL's kernels only: no program's own",
             kernel->name.c_str());
    return nullptr;
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

void register_gpu_code(const void* symbol, std::string name) {
  Kernel kernel;
  kernel.name = std::move(name);
  kernel.gpu_code = true;
  std::lock_guard<std::mutex> guard(g_kernels_lock);
  kernels()[symbol] = std::move(kernel);
}

bool runs_here(const Kernel& kernel) {
  const GpuInfo& gpu = machine()->gpu;
  const unsigned major = kernel.arch / 100, minor = kernel.arch % 100 / 10;
  if (kernel.arch == 0 || (static_cast<unsigned>(gpu.major) == major && static_cast<unsigned>(gpu.minor) >= minor)) {
    return true;
  }
  static std::once_flag said;
  std::call_once(said, [&] {
    complain("kernels compiled for compute capability %u.%u cannot run on %s (%d.%d): a build for %d.x is needed",
             major, minor, gpu.name.c_str(), gpu.major, gpu.minor, gpu.major);
  });
  return false;
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

bool read_extra(void** extra, LaunchRequest* request) {
  const void* buffer = nullptr;
  const std::size_t* bytes = nullptr;
  for (void** at = extra; *at != CU_LAUNCH_PARAM_END; at += 2) {
    if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = at[1];
    } else if (*at == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      bytes = static_cast<const std::size_t*>(at[1]);
    } else {
      return false;
    }
  }
  if (buffer == nullptr || bytes == nullptr) return false;
  request->args = buffer;
  request->args_bytes = *bytes;
  return true;
}

cudaError_t kernel_task(const LaunchRequest& request, KernelTask* task) {
  const Kernel* kernel = launchable(request.symbol);
  if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
  if (!runs_here(*kernel)) return cudaErrorNoKernelImageForDevice;
  if (const cudaError_t error = check_shape(request, *kernel); error != cudaSuccess) return error;
  task->kernel = kernel;
  task->args.resize(std::max(kernel->args_bytes, request.args_bytes));
  if (request.args != nullptr) {
    std::memcpy(task->args.data(), request.args, request.args_bytes);
  } else if (request.params != nullptr && kernel->args_bytes != 0) {
    std::memcpy(task->args.data(), request.params[0], kernel->args_bytes);
  }
  task->grid = request.grid;
  task->block = request.block;
  task->dynamic_shared_bytes = request.dynamic_shared_bytes;
  return cudaSuccess;
}

cudaError_t launch(const LaunchRequest& request) {
  HC_DEVICE(here);
  (void)here;
  KernelTask task;
  task.announced = take_announcement();
  if (const cudaError_t error = kernel_task(request, &task); error != cudaSuccess) return report(error);

  std::lock_guard<std::mutex> guard(runtime_lock());
  const StreamRef stream = find_stream(request.stream);
  const EventRef started = request.started == nullptr ? nullptr : find_event(request.started);
  if (!stream || (request.started != nullptr && !started)) return report(cudaErrorInvalidResourceHandle);
  OpRef op;
  if (const cudaError_t error = submit(stream, std::move(task), &op); error != cudaSuccess) return report(error);
  if (started && op) {
    // Its modelled time is that of what the grid itself waits for: when a grid's last CTA has started is not placed.
    op->start_event = make_op(OpKind::record);
    started->op = op->start_event;
    started->captured = {};
  } else if (started) {
    Edge start = stream->capture_tail.front();
    start.data.from_port = cudaGraphKernelNodePortLaunchCompletion;
    start.data.type = cudaGraphDependencyTypeProgrammatic;
    started->captured = {stream->capture, {start}};
  }
  return cudaSuccess;
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
  kernel.symbol = told->symbol;
  kernel.name = told->name;
  kernel.entry = told->entry;
  kernel.args_bytes = told->args_bytes;
  kernel.max_threads = told->max_threads_per_cta;
  kernel.registers = told->registers_per_thread;
  kernel.static_shared_bytes = told->static_shared_bytes;
  kernel.arch = told->arch;
  std::lock_guard<std::mutex> guard(g_kernels_lock);
  kernels()[told->symbol] = std::move(kernel);
  return cudaSuccess;
}

HC_EXPORT cudaError_t hostcudaAnnounceLaunch(const hostcudaLaunchInfo_t* info) {
  if (info == nullptr || info->size < sizeof *info || info->version != HOSTCUDA_LAUNCH_INFO_VERSION) {
    return report(cudaErrorInvalidValue);
  }
  announce(*info);
  return cudaSuccess;
}

HC_EXPORT cudaError_t hostcudaForgetGroup(int device, uint64_t group_key) {
  forget_group(device, group_key);
  return cudaSuccess;
}

HC_EXPORT cudaError_t hostcudaLaunchDescribed(const hostcudaKernel_t* told, cudaStream_t handle) {
  HC_DEVICE(here);
  (void)here;
  if (told == nullptr || told->size < sizeof *told || told->version != HOSTCUDA_KERNEL_VERSION) {
    return report(cudaErrorInvalidValue);
  }
  hostcuda::clock::KernelWork cost;
  cost.name = told->name == nullptr ? "kernel" : told->name;
  cost.flops = told->flops;
  cost.bytes_read = told->bytes_read;
  cost.bytes_written = told->bytes_written;
  cost.ctas = told->ctas;
  cost.threads_per_cta = told->threads_per_cta;
  cost.registers_per_thread = told->registers_per_thread;
  cost.shared_bytes_per_cta = told->shared_bytes_per_cta;
  std::lock_guard<std::mutex> guard(runtime_lock());
  const StreamRef stream = find_stream(handle);
  if (!stream) return report(cudaErrorInvalidResourceHandle);
  return report(submit(stream, DescribedTask{cost}));
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
