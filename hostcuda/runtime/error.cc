// SPDX-License-Identifier: Apache-2.0
#include "runtime/error.h"

#include <cctype>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <string>

#include "runtime/device.h"

namespace hostcuda::rt {

thread_local ThreadState t_state{};

namespace {

struct Named {
  std::string name, text;
};

// "cudaErrorInvalidValue" and "CUDA_ERROR_INVALID_VALUE" both read "invalid value".
std::string in_words(const std::string& name) {
  std::string words;
  const bool camel = name.rfind("cuda", 0) == 0;
  std::size_t at = camel ? (name.rfind("cudaError", 0) == 0 ? 9 : 4) : (name.rfind("CUDA_ERROR_", 0) == 0 ? 11 : 5);
  for (const std::size_t start = at; at < name.size(); ++at) {
    const unsigned char c = static_cast<unsigned char>(name[at]);
    if (camel && std::isupper(c) && at > start && std::islower(static_cast<unsigned char>(name[at - 1]))) words += ' ';
    words += c == '_' ? ' ' : static_cast<char>(std::tolower(c));
  }
  return words;
}

const std::map<int, Named>& names(bool driver) {
  static const auto* tables = [] {
    auto* made = new std::map<int, Named>[2];
#define RUNTIME_ERROR(code) made[0].emplace(code, Named{#code, in_words(#code)});
#define DRIVER_ERROR(code) made[1].emplace(code, Named{#code, in_words(#code)});
#include "runtime/error_names.inc"
#undef RUNTIME_ERROR
#undef DRIVER_ERROR
    return made;
  }();
  return tables[driver ? 1 : 0];
}

}  // namespace

cudaError_t report(cudaError_t error) {
  if (error != cudaSuccess) t_state.last_error = error;
  return error;
}

void complain(const char* format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "hostcuda: %s\n", line);
}

cudaError_t refuse_unsupported(const char* what) {
  complain("%s is not offered by this version", what);
  return report(cudaErrorNotSupported);
}

CUresult to_driver(cudaError_t error) {
  switch (error) {
    case cudaErrorInvalidDevicePointer: return CUDA_ERROR_INVALID_VALUE;
    case cudaErrorInvalidDeviceFunction: return CUDA_ERROR_NOT_FOUND;
    default: break;
  }
  const auto& table = names(true);
  return table.count(error) != 0 ? static_cast<CUresult>(error) : CUDA_ERROR_UNKNOWN;
}

cudaError_t from_driver(CUresult result) {
  const auto& table = names(false);
  return table.count(result) != 0 ? static_cast<cudaError_t>(result) : cudaErrorUnknown;
}

const char* error_name(cudaError_t error) {
  const auto found = names(false).find(error);
  return found == names(false).end() ? "unrecognized error code" : found->second.name.c_str();
}

const char* error_text(cudaError_t error) {
  const auto found = names(false).find(error);
  return found == names(false).end() ? "unrecognized error code" : found->second.text.c_str();
}

}  // namespace hostcuda::rt

using namespace hostcuda::rt;

HC_EXPORT cudaError_t cudaGetLastError() {
  const cudaError_t error = t_state.last_error;
  t_state.last_error = cudaSuccess;
  const cudaError_t sticky = device_failure(t_state.device);
  return sticky != cudaSuccess ? sticky : error;
}

HC_EXPORT cudaError_t cudaPeekAtLastError() {
  const cudaError_t sticky = device_failure(t_state.device);
  return sticky != cudaSuccess ? sticky : t_state.last_error;
}

HC_EXPORT const char* cudaGetErrorString(cudaError_t error) { return error_text(error); }
HC_EXPORT const char* cudaGetErrorName(cudaError_t error) { return error_name(error); }

HC_EXPORT CUresult cuGetErrorName(CUresult result, const char** name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto& table = names(true);
  const auto found = table.find(result);
  *name = found == table.end() ? nullptr : found->second.name.c_str();
  return *name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

HC_EXPORT CUresult cuGetErrorString(CUresult result, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto& table = names(true);
  const auto found = table.find(result);
  *text = found == table.end() ? nullptr : found->second.text.c_str();
  return *text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
