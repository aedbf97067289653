// SPDX-License-Identifier: Apache-2.0
// The machine that hostcuda pretends to be: which GPUs, how many, how they are joined. HOSTCUDA_MACHINE names it (a
// name from the data folder's machines/, or a path to an INI file); HOSTCUDA_DATA is the data folder, by default
// share/hostcuda beside libcudart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/ini.h"
#include "runtime/topology.h"
#include "runtime/va.h"

namespace hostcuda::rt {

// What the CUDA API tells about a GPU. Rates and costs of the model are the clock's business: it reads gpu_file itself.
struct GpuInfo {
  std::string name;
  int major = 0, minor = 0;
  int sms = 0;
  std::uint64_t memory_bytes = 0, l2_bytes = 0;
  int threads_per_sm = 0, ctas_per_sm = 0, registers_per_sm = 0;
  std::uint64_t shared_bytes_per_sm = 0, shared_bytes_per_cta = 0;
  int clock_khz = 0;
};

// One direction of a link between two devices, or a device and the host.
struct LinkFigures {
  std::uint64_t bytes_per_s = 0, latency_ps = 0;
};

struct Machine {
  std::string name, path;
  std::string topology_path;
  ini::File file;      // the machine's own description
  ini::File gpu_file;  // the description of its GPUs
  GpuInfo gpu;
  LinkFigures links[4];  // by LinkClass; local is left empty
  std::vector<TopologyGpu> gpus;     // all of the machine
  std::vector<int> visible;          // program's device number -> place in gpus (CUDA_VISIBLE_DEVICES)

  int device_count() const { return static_cast<int>(visible.size()); }
  // Place in gpus of a bus id, -1 where there is none.
  int find_bus_id(const std::string& bus_id) const;
  LinkClass link(int gpu_a, int gpu_b) const;  // by places in gpus
  unsigned nvlinks(int gpu_a, int gpu_b) const;
  // Whether a GPU has multicast addresses (NVLink SHARP): from compute capability 9.0 on, whose switches can reduce,
  // where all its NVLinks lead to switches.
  bool has_multicast(int gpu) const;
};

// The machine, loaded at the first call. nullptr where its description is missing or malformed; the first call says why
// on standard error.
const Machine* machine();

}  // namespace hostcuda::rt
