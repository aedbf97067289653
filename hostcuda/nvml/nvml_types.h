// SPDX-License-Identifier: Apache-2.0
// The part of NVML's binary interface that hostcuda answers. NVML's header is not among the CUDA wheels that a build
// needs, so the few layouts and numbers are written down here.
#pragma once

namespace hostcuda::nvml {

enum Return : int {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kUnknown = 999,
};

enum Field : unsigned {
  kNvlinkLinkCount = 91,
  kNvswitchConnectedLinkCount = 147,
  kNvlinkState = 165,
  kC2cLinkCount = 170,
};

enum P2pCapability : unsigned { kP2pRead = 0, kP2pWrite = 1, kP2pNvlink = 2, kP2pAtomics = 3 };
enum P2pStatus : unsigned { kP2pOk = 0, kP2pNotSupported = 5 };

constexpr int kBusIdBytes = 16;        // the old form with a four-digit domain
constexpr int kLongBusIdBytes = 32;
constexpr unsigned kValueUnsignedInt = 1;

struct PciInfo {
  char bus_id_old[kBusIdBytes];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[kLongBusIdBytes];
};

struct FieldValue {
  unsigned field_id, scope_id;
  long long timestamp, latency_us;
  unsigned value_type;
  Return result;
  union {
    double as_double;
    unsigned as_unsigned;
    unsigned long long as_u64;
  };
};

struct Memory {
  unsigned long long total, free, used;
};

struct ConfidentialSettings {  // version 1
  unsigned version, environment, feature, dev_tools_mode, multi_gpu_mode;
};

struct ConfidentialState {
  unsigned environment, feature, dev_tools_mode;
};

}  // namespace hostcuda::nvml
