// SPDX-License-Identifier: Apache-2.0
// What nvcc puts into a program that has kernels of its own: it announces its GPU code when it starts, and launches by
// calls that are in no header for people. hostcuda cannot run GPU code. Such a program starts, its CUDA calls work, and
// the launch of a kernel or the use of a device variable fails with a line that names it.
#include <cxxabi.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "runtime/error.h"
#include "runtime/launch.h"

namespace hostcuda::rt {
namespace {

std::mutex g_variables_lock;
std::map<const void*, std::string>& variables() {
  static auto* all = new std::map<const void*, std::string>;
  return *all;
}

std::string readable(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  const std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

cudaError_t refuse_variable(const void* symbol, const char* call) {
  std::lock_guard<std::mutex> guard(g_variables_lock);
  const auto found = variables().find(symbol);
  complain("%s: %s is a variable of GPU code compiled by nvcc, which hostcuda cannot run", call,
           found == variables().end() ? "what is asked for" : found->second.c_str());
  return report(cudaErrorInvalidSymbol);
}

void* g_handle = &g_handle;  // there is nothing to hand out; it only must not be null

}  // namespace
}  // namespace hostcuda::rt

using namespace hostcuda::rt;

HC_EXPORT void** __cudaRegisterFatBinary(void*) { return &g_handle; }
HC_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}
HC_EXPORT void __cudaUnregisterFatBinary(void**) {}
HC_EXPORT char __cudaInitModule(void**) { return 0; }

HC_EXPORT void __cudaRegisterFunction(void**, const char* symbol, char*, const char* name, int, void*, void*, void*,
                                      void*, int*) {
  register_gpu_code(symbol, readable(name));
}

HC_EXPORT void __cudaRegisterVar(void**, char* symbol, char*, const char* name, int, std::size_t, int, int) {
  std::lock_guard<std::mutex> guard(g_variables_lock);
  variables()[symbol] = readable(name);
}

HC_EXPORT void __cudaRegisterManagedVar(void**, void** symbol, char*, const char* name, int, std::size_t, int, int) {
  std::lock_guard<std::mutex> guard(g_variables_lock);
  variables()[symbol] = readable(name);
}

// The shape that <<<>>> gives is kept nowhere: the launch that asks for it is refused.
HC_EXPORT unsigned __cudaPushCallConfiguration(dim3, dim3, std::size_t, CUstream_st*) { return 0; }

HC_EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes, void* stream) {
  *grid = *block = dim3(1, 1, 1);
  *shared_bytes = 0;
  *static_cast<cudaStream_t*>(stream) = nullptr;
  return cudaSuccess;
}

HC_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* symbol) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(symbol));
  return cudaSuccess;
}

HC_EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** params, std::size_t bytes,
                                         cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, params, bytes, stream);
}

HC_EXPORT cudaError_t cudaMemcpyToSymbol(const void* symbol, const void*, std::size_t, std::size_t, cudaMemcpyKind) {
  return refuse_variable(symbol, "cudaMemcpyToSymbol");
}
HC_EXPORT cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void*, std::size_t, std::size_t, cudaMemcpyKind,
                                              cudaStream_t) {
  return refuse_variable(symbol, "cudaMemcpyToSymbolAsync");
}
HC_EXPORT cudaError_t cudaMemcpyFromSymbol(void*, const void* symbol, std::size_t, std::size_t, cudaMemcpyKind) {
  return refuse_variable(symbol, "cudaMemcpyFromSymbol");
}
HC_EXPORT cudaError_t cudaMemcpyFromSymbolAsync(void*, const void* symbol, std::size_t, std::size_t, cudaMemcpyKind,
                                                cudaStream_t) {
  return refuse_variable(symbol, "cudaMemcpyFromSymbolAsync");
}
HC_EXPORT cudaError_t cudaGetSymbolAddress(void**, const void* symbol) {
  return refuse_variable(symbol, "cudaGetSymbolAddress");
}
HC_EXPORT cudaError_t cudaGetSymbolSize(std::size_t*, const void* symbol) {
  return refuse_variable(symbol, "cudaGetSymbolSize");
}
