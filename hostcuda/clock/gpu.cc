// SPDX-License-Identifier: Apache-2.0
#include "clock/gpu.h"

#include <cmath>
#include <map>
#include <set>

namespace hostcuda::clock {
namespace {

// Reads figures and remembers which keys it knows, so that a misspelt one is not ignored.
class Reader {
 public:
  explicit Reader(const ini::File& file) : file_(file) {}

  std::uint64_t count(const char* section, const char* key, std::uint64_t least, std::uint64_t most) {
    known_[section].insert(key);
    const std::uint64_t value = file_.count(section, key);
    if (value < least || value > most) outside(section, key, std::to_string(least), std::to_string(most));
    return value;
  }

  // The figure times `unit`, as a whole number.
  std::uint64_t scaled(const char* section, const char* key, double unit, double least, double most) {
    known_[section].insert(key);
    const double value = file_.number(section, key);
    if (!(value >= least && value <= most)) outside(section, key, text(least), text(most));
    return static_cast<std::uint64_t>(std::llround(value * unit));
  }

  const std::string& text_of(const char* section, const char* key) {
    known_[section].insert(key);
    return file_.text(section, key);
  }

  void refuse_unknown() const {
    for (const std::string& section : file_.sections()) {
      if (known_.count(section) == 0) {
        throw ini::Error(file_.path() + ": section [" + section + "] is not one of a GPU");
      }
    }
    for (const auto& [section, keys] : known_) {
      for (const std::string& key : file_.keys(section)) {
        if (keys.count(key) == 0) refuse(section, key, "is not a figure of a GPU");
      }
    }
  }

  [[noreturn]] void refuse(const std::string& section, const std::string& key, const std::string& why) const {
    throw ini::Error(file_.path() + ": [" + section + "] " + key + " " + why);
  }

 private:
  [[noreturn]] void outside(const char* section, const char* key, const std::string& least,
                            const std::string& most) const {
    refuse(section, key, "= " + file_.text(section, key) + " is outside of " + least + ".." + most);
  }

  static std::string text(double value) {
    std::string digits = std::to_string(value);
    digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.back() == '.') digits.pop_back();
    return digits;
  }

  const ini::File& file_;
  std::map<std::string, std::set<std::string>> known_;
};

std::uint32_t fs_per_byte(std::uint64_t bytes_per_s) {
  return static_cast<std::uint32_t>(std::uint64_t{1000000000000000} / bytes_per_s);
}

constexpr double kGiga = 1e9, kTera = 1e12, kPsPerUs = 1e6;

}  // namespace

Gpu Gpu::read(const ini::File& file) {
  Reader in(file);
  Gpu gpu;
  gpu.name = in.text_of("gpu", "name");
  in.scaled("gpu", "compute_capability", 10, 8, 12.9);
  in.count("gpu", "memory_bytes", 1, std::uint64_t{1} << 50);
  in.count("gpu", "sm_clock_mhz", 1, 10000);
  gpu.sms = static_cast<std::uint32_t>(in.count("gpu", "sms", 1, 4096));
  gpu.threads_per_sm = static_cast<std::uint32_t>(in.count("gpu", "threads_per_sm", 32, 4096));
  gpu.ctas_per_sm = static_cast<std::uint32_t>(in.count("gpu", "ctas_per_sm", 1, 64));
  gpu.registers_per_sm = static_cast<std::uint32_t>(in.count("gpu", "registers_per_sm", 1024, 1 << 20));
  gpu.shared_bytes_per_sm = in.count("gpu", "shared_bytes_per_sm", 1024, 1 << 24);
  gpu.shared_bytes_per_cta = in.count("gpu", "shared_bytes_per_cta", 1024, 1 << 24);
  gpu.shared_bytes_reserved = in.count("gpu", "shared_bytes_reserved", 0, 1 << 16);
  gpu.l2_bytes = in.count("gpu", "l2_bytes", 1, std::uint64_t{1} << 36);

  const std::uint64_t memory = in.scaled("memory", "gbps", kGiga, 1, 100000);
  const std::uint64_t memory_ppm = in.scaled("memory", "achievable_share", kPpm, 0.01, 1);
  gpu.memory_bytes_per_s = memory / kPpm * memory_ppm;
  gpu.sm_memory_bytes_per_s = in.scaled("memory", "sm_gbps", kGiga, 0.1, 10000);

  const std::uint64_t flops = in.scaled("compute", "dense_bf16_tflops", kTera, 0.1, 100000);
  gpu.flops_per_s = flops / kPpm * in.scaled("compute", "achievable_share", kPpm, 0.01, 1);

  gpu.l2_buffer_share_ppm = in.scaled("l2", "buffer_share", kPpm, 0, 1);
  gpu.buffer_traffic_ppm = in.scaled("l2", "buffer_traffic_share", kPpm, 0, 1);
  gpu.reuse_flops_per_byte = in.count("l2", "reuse_flops_per_byte", 1, 1 << 20);
  gpu.reuse_loss_ppm = in.scaled("l2", "reuse_loss", kPpm, 0, 1);

  gpu.grid_registers_per_thread = static_cast<std::uint32_t>(in.count("grid", "registers_per_thread", 1, 255));
  gpu.load_fs_per_byte = fs_per_byte(in.scaled("grid", "cta_load_gbps", kGiga, 0.5, 100000));
  gpu.store_fs_per_byte = fs_per_byte(in.scaled("grid", "cta_store_gbps", kGiga, 0.5, 100000));
  gpu.full_threads = static_cast<std::uint32_t>(in.count("grid", "full_threads", 1, 1024));
  gpu.local_latency_ps = static_cast<std::uint32_t>(in.scaled("grid", "local_latency_us", kPsPerUs, 0, 1000));
  gpu.start_ps = static_cast<std::uint32_t>(in.scaled("grid", "start_us", kPsPerUs, 0, 1000));
  gpu.barrier_ps = static_cast<std::uint32_t>(in.scaled("grid", "barrier_us", kPsPerUs, 0, 1000));
  gpu.fence_ps = static_cast<std::uint32_t>(in.scaled("grid", "fence_us", kPsPerUs, 0, 1000));
  gpu.poll_ps = static_cast<std::uint32_t>(in.scaled("grid", "poll_us", kPsPerUs, 0, 1000));

  gpu.host_launch_ps = in.scaled("calls", "host_launch_us", kPsPerUs, 0, 1e6);
  gpu.host_event_ps = in.scaled("calls", "host_event_us", kPsPerUs, 0, 1e6);
  gpu.host_return_ps = in.scaled("calls", "host_return_us", kPsPerUs, 0, 1e6);
  gpu.launch_latency_ps = in.scaled("calls", "launch_latency_us", kPsPerUs, 0, 1e6);
  gpu.stream_gap_ps = in.scaled("calls", "stream_gap_us", kPsPerUs, 0, 1e6);
  gpu.copy_start_ps = in.scaled("calls", "copy_start_us", kPsPerUs, 0, 1e6);
  gpu.host_function_ps = in.scaled("calls", "host_function_us", kPsPerUs, 0, 1e6);

  in.refuse_unknown();
  if (gpu.shared_bytes_per_cta + gpu.shared_bytes_reserved > gpu.shared_bytes_per_sm) {
    in.refuse("gpu", "shared_bytes_per_cta", "and shared_bytes_reserved together exceed shared_bytes_per_sm");
  }
  if (gpu.sm_memory_bytes_per_s * gpu.sms < gpu.memory_bytes_per_s) {
    in.refuse("memory", "sm_gbps", "times the SMs is less than gbps times achievable_share");
  }
  return gpu;
}

}  // namespace hostcuda::clock
