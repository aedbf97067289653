// SPDX-License-Identifier: Apache-2.0
#include "runtime/machine.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "clock/gpu.h"
#include "runtime/text_file.h"

namespace hostcuda::rt {
namespace {

constexpr const char* kDefaultMachine = "a40x8";

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string data_folder() {
  if (const std::string told = environment("HOSTCUDA_DATA"); !told.empty()) return told;
  Dl_info info;
  if (::dladdr(reinterpret_cast<void*>(&machine), &info) == 0 || info.dli_fname == nullptr) return ".";
  return folder_of(info.dli_fname) + "/share/hostcuda";
}

// A path in a description counts from the folder of that description.
std::string beside(const std::string& description, const std::string& path) {
  return path.front() == '/' ? path : folder_of(description) + "/" + path;
}

// The description of a machine that comes with hostcuda.
std::string described_machine(const std::string& folder, const std::string& name) {
  std::set<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    if (entry.path().extension() == ".ini") names.insert(entry.path().stem());
  }
  if (names.empty()) throw ini::Error(folder + ": no descriptions of machines are there");
  if (names.count(name) != 0) return folder + "/" + name + ".ini";
  std::string all;
  for (const std::string& known : names) all += known + ", ";
  throw ini::Error("HOSTCUDA_MACHINE=" + in_quotes(name) + ": it is " + all +
                   "or a path to a description, with a slash");
}

int whole(const ini::File& file, const char* key, std::uint64_t least, std::uint64_t most) {
  const std::uint64_t value = file.count("gpu", key);
  if (value < least || value > most) {
    throw ini::Error(file.path() + ": " + key + " = " + std::to_string(value) + " is outside of " +
                     std::to_string(least) + ".." + std::to_string(most));
  }
  return static_cast<int>(value);
}

GpuInfo read_gpu(const ini::File& file) {
  GpuInfo gpu;
  gpu.name = file.text("gpu", "name");
  const double capability = file.number("gpu", "compute_capability");
  const int tenths = static_cast<int>(std::lround(capability * 10));
  if (tenths < 80 || tenths > 129) {
    throw ini::Error(file.path() + ": compute_capability = " + file.text("gpu", "compute_capability") +
                     " is outside of 8.0..12.9");
  }
  gpu.major = tenths / 10;
  gpu.minor = tenths % 10;
  gpu.sms = whole(file, "sms", 1, 4096);
  gpu.memory_bytes = file.count("gpu", "memory_bytes");
  gpu.l2_bytes = file.count("gpu", "l2_bytes");
  gpu.threads_per_sm = whole(file, "threads_per_sm", 1, 4096);
  gpu.ctas_per_sm = whole(file, "ctas_per_sm", 1, 64);
  gpu.registers_per_sm = whole(file, "registers_per_sm", 1, 1 << 20);
  gpu.shared_bytes_per_sm = file.count("gpu", "shared_bytes_per_sm");
  gpu.shared_bytes_per_cta = file.count("gpu", "shared_bytes_per_cta");
  gpu.clock_khz = whole(file, "sm_clock_mhz", 1, 10000) * 1000;
  return gpu;
}

LinkFigures read_link(const ini::File& file, const char* section) {
  const double gbps = file.number(section, "gbps"), latency_us = file.number(section, "latency_us");
  if (gbps < 1e-3 || gbps > 1e6 || latency_us < 0 || latency_us > 1e6) {
    throw ini::Error(file.path() + ": [" + section +
                     "] needs gbps in 0.001..1000000 and latency_us in 0..1000000");
  }
  return {static_cast<std::uint64_t>(std::llround(gbps * 1e9)),
          static_cast<std::uint64_t>(std::llround(latency_us * 1e6))};
}

// A key that nobody reads is a figure that somebody believes in.
void refuse_unknown_keys(const ini::File& file) {
  static const std::map<std::string, std::set<std::string>> known = {
      {"machine", {"name", "gpu", "topology"}},
      {"nvlink", {"gbps", "latency_us"}},
      {"pcie", {"gbps", "latency_us"}},
      {"host", {"gbps", "latency_us"}},
  };
  for (const std::string& section : file.sections()) {
    const auto found = known.find(section);
    if (found == known.end()) throw ini::Error(file.path() + ": section [" + section + "] is not one of a machine");
    for (const std::string& key : file.keys(section)) {
      if (found->second.count(key) == 0) {
        throw ini::Error(file.path() + ": [" + section + "] " + key + " is not a key of a machine");
      }
    }
  }
}

std::vector<int> visible_devices(int gpus) {
  std::vector<int> visible;
  const char* told = std::getenv("CUDA_VISIBLE_DEVICES");
  if (told == nullptr) {
    for (int i = 0; i < gpus; ++i) visible.push_back(i);
    return visible;
  }
  // As on a real machine: what follows the first number that names no device, or one that was there, is ignored.
  const char* at = told;
  while (*at != '\0') {
    char* end = nullptr;
    const long number = std::strtol(at, &end, 10);
    if (end == at || number < 0 || number >= gpus) break;
    if (std::find(visible.begin(), visible.end(), static_cast<int>(number)) != visible.end()) break;
    visible.push_back(static_cast<int>(number));
    if (*end != ',') break;
    at = end + 1;
  }
  return visible;
}

// GPUs of a topology file; there have to be some.
std::vector<TopologyGpu> read_gpus(const std::string& topology) {
  std::vector<TopologyGpu> gpus = read_topology(topology);
  if (gpus.empty() || gpus.size() > kMostDevices) {
    throw TopologyError(topology + ": " + std::to_string(gpus.size()) + " GPUs; 1 to " + std::to_string(kMostDevices) +
                        " are possible");
  }
  return gpus;
}

// Takes the GPUs from the user's file. Where it tells no NVLinks they are joined as those of the machine are.
void use_topology(Machine* machine, const std::string& path) {
  std::vector<TopologyGpu> theirs = read_gpus(path);
  const bool tells_links =
      std::any_of(theirs.begin(), theirs.end(), [](const TopologyGpu& gpu) { return !gpu.nvlinks.empty(); });
  for (std::size_t i = 0; !tells_links && i < theirs.size() && i < machine->gpus.size(); ++i) {
    theirs[i].nvlinks = machine->gpus[i].nvlinks;
    for (NvLink& link : theirs[i].nvlinks) {
      const int peer = machine->find_bus_id(link.target);
      if (peer >= 0 && peer < static_cast<int>(theirs.size())) link.target = theirs[peer].bus_id;
    }
  }
  machine->gpus = std::move(theirs);
  machine->topology_path = path;
}

std::unique_ptr<Machine> load() {
  auto machine = std::make_unique<Machine>();
  const std::string data = data_folder();
  std::string told = environment("HOSTCUDA_MACHINE");
  if (told.empty()) told = kDefaultMachine;
  const bool is_path = told.find('/') != std::string::npos;
  machine->path = is_path ? told : described_machine(data + "/machines", told);
  machine->file = ini::File::read(machine->path);
  machine->name = machine->file.text("machine", "name");

  std::string gpu = machine->file.text("machine", "gpu");
  gpu = gpu.find('/') == std::string::npos ? data + "/gpus/" + gpu + ".ini" : beside(machine->path, gpu);
  machine->gpu_file = ini::File::read(gpu);
  machine->gpu = read_gpu(machine->gpu_file);
  clock::Gpu::read(machine->gpu_file);  // what is wrong in there should be heard of now, not at the first kernel
  refuse_unknown_keys(machine->file);
  machine->links[kLinkHost] = read_link(machine->file, "host");
  machine->links[kLinkNvlink] = read_link(machine->file, "nvlink");
  machine->links[kLinkPcie] = read_link(machine->file, "pcie");

  const std::string topology = beside(machine->path, machine->file.text("machine", "topology"));
  machine->topology_path = topology;
  machine->gpus = read_gpus(topology);

  // The user's topology wins, unless it is one that this library has set for the program that started this one.
  const std::string users = environment("NCCL_TOPO_FILE");
  if (!users.empty() && users != environment("HOSTCUDA_TOPO_FILE")) {
    use_topology(machine.get(), users);
  }
  machine->visible = visible_devices(static_cast<int>(machine->gpus.size()));
  return machine;
}

struct Loaded {
  std::unique_ptr<Machine> machine;
  std::string error;
};

const Loaded& loaded() {
  static const Loaded* result = [] {
    auto* made = new Loaded;  // never freed: threads may still ask while the process ends
    try {
      made->machine = load();
    } catch (const std::exception& error) {
      made->error = error.what();
    }
    return made;
  }();
  return *result;
}

// NCCL looks for topologies in NCCL_TOPO_FILE or under /sys, where a machine that does not exist has nothing. Set for
// this process only; HOSTCUDA_TOPO_FILE remembers that we did, for programs that this one starts.
__attribute__((constructor)) void lead_nccl_to_topology() {
  const std::string users = environment("NCCL_TOPO_FILE");
  if (!users.empty() && users != environment("HOSTCUDA_TOPO_FILE")) return;
  if (const Machine* machine = loaded().machine.get()) {
    const std::string wherever = std::filesystem::absolute(machine->topology_path);  // the program may change folders
    ::setenv("NCCL_TOPO_FILE", wherever.c_str(), 1);
    ::setenv("HOSTCUDA_TOPO_FILE", wherever.c_str(), 1);
  }
}

}  // namespace

const Machine* machine() {
  const Loaded& result = loaded();
  if (!result.machine) {
    static std::once_flag said;
    std::call_once(said, [&] { std::fprintf(stderr, "hostcuda: no machine to simulate: %s\n", result.error.c_str()); });
  }
  return result.machine.get();
}

int Machine::find_bus_id(const std::string& bus_id) const {
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (gpus[i].bus_id == bus_id) return static_cast<int>(i);
  }
  return -1;
}

unsigned Machine::nvlinks(int gpu_a, int gpu_b) const {
  unsigned direct = 0, up_a = 0, up_b = 0;
  for (const NvLink& link : gpus[gpu_a].nvlinks) {
    if (link.to_switch) up_a += link.count;
    if (!link.to_switch && link.target == gpus[gpu_b].bus_id) direct += link.count;
  }
  for (const NvLink& link : gpus[gpu_b].nvlinks) {
    if (link.to_switch) up_b += link.count;
  }
  return direct + std::min(up_a, up_b);
}

LinkClass Machine::link(int gpu_a, int gpu_b) const {
  if (gpu_a == gpu_b) return kLinkLocal;
  return nvlinks(gpu_a, gpu_b) > 0 ? kLinkNvlink : kLinkPcie;
}

bool Machine::has_multicast(int gpu) const {
  const std::vector<NvLink>& links = gpus[gpu].nvlinks;
  return this->gpu.major >= 9 && !links.empty() &&
         std::all_of(links.begin(), links.end(), [](const NvLink& link) { return link.to_switch; });
}

const std::uint8_t* link_classes(int device) {
  static const std::vector<std::uint8_t>* table = [] {
    const Machine* m = machine();
    const int gpus = m == nullptr ? 0 : static_cast<int>(m->gpus.size());
    auto* made = new std::vector<std::uint8_t>(256 * (gpus + 1), kLinkHost);
    for (int a = 0; a < gpus; ++a) {
      std::uint8_t* row = made->data() + 256 * a;
      for (int b = 0; b < gpus; ++b) row[1 + b] = row[kOwnerBound + 1 + b] = m->link(a, b);
      row[kOwnerMulticast] = kLinkNvlink;  // only GPUs behind NVLink switches have multicast addresses
    }
    return made;
  }();
  const int rows = static_cast<int>(table->size() / 256);
  return table->data() + 256 * (device >= 0 && device < rows ? device : rows - 1);
}

}  // namespace hostcuda::rt
