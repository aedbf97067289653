// SPDX-License-Identifier: Apache-2.0
// NVML: the machine as its management library shows it. Devices are those of the machine, whatever CUDA_VISIBLE_DEVICES
// says, and a handle is the place of a device plus one.
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "nvml/nvml_types.h"
#include "runtime/error.h"
#include "runtime/machine.h"
#include "runtime/pages.h"

namespace hostcuda::nvml {
namespace {

using rt::machine;
using Handle = void*;

int place_of(Handle handle) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  return machine() != nullptr && number >= 1 && number <= machine()->gpus.size() ? static_cast<int>(number) - 1 : -1;
}

Handle handle_of(int place) { return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(place) + 1); }

// The `link`-th NVLink of a GPU, counted over its targets; nullptr where it has fewer.
const rt::NvLink* nvlink(int place, unsigned link) {
  for (const rt::NvLink& group : machine()->gpus[place].nvlinks) {
    if (link < group.count) return &group;
    link -= group.count;
  }
  return nullptr;
}

unsigned count_nvlinks(int place, bool to_switch_only) {
  unsigned count = 0;
  for (const rt::NvLink& group : machine()->gpus[place].nvlinks) {
    if (group.to_switch || !to_switch_only) count += group.count;
  }
  return count;
}

struct BusId {
  unsigned domain = 0, bus = 0, device = 0, function = 0;
};

BusId parse(const char* text) {
  BusId id;
  std::sscanf(text, "%x:%x:%x.%x", &id.domain, &id.bus, &id.device, &id.function);
  return id;
}

void fill(const char* bus_id, PciInfo* info) {
  const BusId id = parse(bus_id);
  std::memset(info, 0, sizeof *info);
  std::snprintf(info->bus_id_old, sizeof info->bus_id_old, "%04X:%02X:%02X.%X", id.domain & 0xffff, id.bus & 0xff,
                id.device & 0xff, id.function & 0xf);
  std::snprintf(info->bus_id, sizeof info->bus_id, "%08X:%02X:%02X.%X", id.domain, id.bus & 0xff, id.device & 0xff,
                id.function & 0xf);
  info->domain = id.domain;
  info->bus = id.bus;
  info->device = id.device;
  info->pci_device_id = 0x10de;
}

Return field_value(int place, FieldValue* value) {
  value->value_type = kValueUnsignedInt;
  value->as_u64 = 0;
  switch (value->field_id) {
    case kNvlinkLinkCount: value->as_unsigned = count_nvlinks(place, false); return kSuccess;
    case kNvswitchConnectedLinkCount: value->as_unsigned = count_nvlinks(place, true); return kSuccess;
    case kNvlinkState: value->as_unsigned = nvlink(place, value->scope_id) != nullptr; return kSuccess;
    case kC2cLinkCount: return kSuccess;  // none
    default: return kNotSupported;
  }
}

}  // namespace
}  // namespace hostcuda::nvml

using namespace hostcuda::nvml;
using hostcuda::rt::machine;

HC_EXPORT Return nvmlInit_v2() { return machine() == nullptr ? kDriverNotLoaded : kSuccess; }
HC_EXPORT Return nvmlInit() { return nvmlInit_v2(); }
HC_EXPORT Return nvmlInitWithFlags(unsigned) { return nvmlInit_v2(); }
HC_EXPORT Return nvmlShutdown() { return kSuccess; }

HC_EXPORT const char* nvmlErrorString(Return result) {
  switch (result) {
    case kSuccess: return "success";
    case kUninitialized: return "not initialized";
    case kInvalidArgument: return "invalid argument";
    case kNotSupported: return "not supported";
    case kNotFound: return "not found";
    case kInsufficientSize: return "insufficient size";
    case kDriverNotLoaded: return "no machine to simulate";
    default: return "unknown error";
  }
}

HC_EXPORT Return nvmlSystemGetDriverVersion(char* text, unsigned bytes) {
  constexpr const char* kVersion = "580.00.00";  // of the branch that CUDA 13.0 belongs to
  if (text == nullptr) return kInvalidArgument;
  if (bytes <= std::strlen(kVersion)) return kInsufficientSize;
  std::snprintf(text, bytes, "%s", kVersion);
  return kSuccess;
}

HC_EXPORT Return nvmlSystemGetNVMLVersion(char* text, unsigned bytes) {
  return nvmlSystemGetDriverVersion(text, bytes);
}

HC_EXPORT Return nvmlSystemGetCudaDriverVersion_v2(int* version) {
  if (version == nullptr) return kInvalidArgument;
  *version = CUDART_VERSION;
  return kSuccess;
}
HC_EXPORT Return nvmlSystemGetCudaDriverVersion(int* version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

HC_EXPORT Return nvmlDeviceGetCount_v2(unsigned* count) {
  if (count == nullptr) return kInvalidArgument;
  if (machine() == nullptr) return kUninitialized;
  *count = static_cast<unsigned>(machine()->gpus.size());
  return kSuccess;
}
HC_EXPORT Return nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }

HC_EXPORT Return nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  if (handle == nullptr || machine() == nullptr || index >= machine()->gpus.size()) return kInvalidArgument;
  *handle = handle_of(static_cast<int>(index));
  return kSuccess;
}
HC_EXPORT Return nvmlDeviceGetHandleByIndex(unsigned index, void** handle) {
  return nvmlDeviceGetHandleByIndex_v2(index, handle);
}

HC_EXPORT Return nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** handle) {
  if (bus_id == nullptr || handle == nullptr || machine() == nullptr) return kInvalidArgument;
  const BusId id = parse(bus_id);
  for (std::size_t place = 0; place < machine()->gpus.size(); ++place) {
    const BusId known = parse(machine()->gpus[place].bus_id.c_str());
    if (known.domain == id.domain && known.bus == id.bus && known.device == id.device) {
      *handle = handle_of(static_cast<int>(place));
      return kSuccess;
    }
  }
  return kNotFound;
}
HC_EXPORT Return nvmlDeviceGetHandleByPciBusId(const char* bus_id, void** handle) {
  return nvmlDeviceGetHandleByPciBusId_v2(bus_id, handle);
}

HC_EXPORT Return nvmlDeviceGetIndex(void* handle, unsigned* index) {
  const int place = place_of(handle);
  if (index == nullptr || place < 0) return kInvalidArgument;
  *index = static_cast<unsigned>(place);
  return kSuccess;
}

HC_EXPORT Return nvmlDeviceGetName(void* handle, char* name, unsigned bytes) {
  if (name == nullptr || bytes == 0 || place_of(handle) < 0) return kInvalidArgument;
  std::snprintf(name, bytes, "%s", machine()->gpu.name.c_str());
  return kSuccess;
}

HC_EXPORT Return nvmlDeviceGetPciInfo_v3(void* handle, PciInfo* info) {
  const int place = place_of(handle);
  if (info == nullptr || place < 0) return kInvalidArgument;
  fill(machine()->gpus[place].bus_id.c_str(), info);
  return kSuccess;
}

HC_EXPORT Return nvmlDeviceGetMemoryInfo(void* handle, Memory* memory) {
  const int place = place_of(handle);
  if (memory == nullptr || place < 0) return kInvalidArgument;
  std::uint64_t available, total;
  hostcuda::rt::device_memory(place, &available, &total);  // as far as this process uses it
  *memory = {total, available, total - available};
  return kSuccess;
}

HC_EXPORT Return nvmlDeviceGetCudaComputeCapability(void* handle, int* major, int* minor) {
  if (major == nullptr || minor == nullptr || place_of(handle) < 0) return kInvalidArgument;
  *major = machine()->gpu.major;
  *minor = machine()->gpu.minor;
  return kSuccess;
}

HC_EXPORT Return nvmlDeviceGetNvLinkState(void* handle, unsigned link, unsigned* active) {
  const int place = place_of(handle);
  if (active == nullptr || place < 0) return kInvalidArgument;
  *active = nvlink(place, link) != nullptr;
  return kSuccess;
}

HC_EXPORT Return nvmlDeviceGetNvLinkCapability(void* handle, unsigned link, unsigned, unsigned* capable) {
  const int place = place_of(handle);
  if (capable == nullptr || place < 0) return kInvalidArgument;
  *capable = nvlink(place, link) != nullptr;
  return kSuccess;
}

HC_EXPORT Return nvmlDeviceGetNvLinkRemotePciInfo_v2(void* handle, unsigned link, PciInfo* info) {
  const int place = place_of(handle);
  if (info == nullptr || place < 0) return kInvalidArgument;
  const hostcuda::rt::NvLink* found = nvlink(place, link);
  if (found == nullptr) return kNotSupported;
  fill(found->target.c_str(), info);
  return kSuccess;
}

// The first version of the call fills a structure that ends before the long form of the bus id.
HC_EXPORT Return nvmlDeviceGetNvLinkRemotePciInfo(void* handle, unsigned link, void* old_info) {
  if (old_info == nullptr) return kInvalidArgument;
  PciInfo info;
  const Return result = nvmlDeviceGetNvLinkRemotePciInfo_v2(handle, link, &info);
  if (result == kSuccess) std::memcpy(old_info, &info, offsetof(PciInfo, bus_id));
  return result;
}

HC_EXPORT Return nvmlDeviceGetP2PStatus(void* handle_a, void* handle_b, unsigned capability, unsigned* status) {
  const int a = place_of(handle_a), b = place_of(handle_b);
  if (status == nullptr || a < 0 || b < 0) return kInvalidArgument;
  const bool over_nvlink = machine()->link(a, b) != hostcuda::rt::kLinkPcie;
  *status = capability == kP2pNvlink && !over_nvlink ? kP2pNotSupported : kP2pOk;
  return kSuccess;
}

HC_EXPORT Return nvmlDeviceGetFieldValues(void* handle, int count, FieldValue* values) {
  const int place = place_of(handle);
  if (values == nullptr || count < 0 || place < 0) return kInvalidArgument;
  for (int i = 0; i < count; ++i) values[i].result = field_value(place, &values[i]);
  return kSuccess;
}

// No fabric that spans machines, no platform that tells its slots, no confidential computing.
HC_EXPORT Return nvmlDeviceGetGpuFabricInfoV(void*, void*) { return kNotSupported; }
HC_EXPORT Return nvmlDeviceGetPlatformInfo(void*, void*) { return kNotSupported; }

HC_EXPORT Return nvmlSystemGetConfComputeState(ConfidentialState* state) {
  if (state == nullptr) return kInvalidArgument;
  *state = {};
  return kSuccess;
}

HC_EXPORT Return nvmlSystemGetConfComputeSettings(ConfidentialSettings* settings) {
  if (settings == nullptr) return kInvalidArgument;
  *settings = {settings->version, 0, 0, 0, 0};
  return kSuccess;
}
