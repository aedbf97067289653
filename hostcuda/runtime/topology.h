// SPDX-License-Identifier: Apache-2.0
// What hostcuda needs to know of a machine's topology file, the XML that NCCL reads too: which GPUs there are, in
// order, and what their NVLinks lead to.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace hostcuda::rt {

struct TopologyError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct NvLink {
  std::string target;  // PCI bus id, lower case
  unsigned count = 0;
  bool to_switch = false;
};

struct TopologyGpu {
  std::string bus_id;  // dddd:bb:dd.f, lower case
  unsigned numa_node = 0;
  std::vector<NvLink> nvlinks;
};

// The GPUs of the file, in its order. Throws TopologyError, naming file and line, where it cannot be read or parsed.
std::vector<TopologyGpu> read_topology(const std::string& path);

}  // namespace hostcuda::rt
