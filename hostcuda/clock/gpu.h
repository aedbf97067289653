// SPDX-License-Identifier: Apache-2.0
// A modelled GPU: the figures of hostcuda/gpus/NAME.ini in whole units. Every figure there names its source.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/ini.h"

namespace hostcuda::clock {

inline constexpr std::uint64_t kPpm = 1000000;  // shares are parts per million

struct Gpu {
  std::string name;

  // Room on an SM.
  std::uint32_t sms = 0;
  std::uint32_t threads_per_sm = 0, ctas_per_sm = 0, registers_per_sm = 0;
  std::uint64_t shared_bytes_per_sm = 0, shared_bytes_per_cta = 0;
  std::uint64_t shared_bytes_reserved = 0;  // of every CTA, by the system

  // What all SMs share, as far as programs can reach it.
  std::uint64_t memory_bytes_per_s = 0;
  std::uint64_t l2_bytes = 0;
  std::uint64_t flops_per_s = 0;
  std::uint64_t sm_memory_bytes_per_s = 0;  // most that one SM draws

  // How communication buffers and computation share the L2.
  std::uint64_t l2_buffer_share_ppm = 0;     // of the L2 that communication buffers may fill before they spill
  std::uint64_t buffer_traffic_ppm = 0;      // of a grid's traffic that goes through communication buffers
  std::uint64_t reuse_flops_per_byte = 0;    // of a kernel that asks the L2 for every tile again
  std::uint64_t reuse_loss_ppm = 0;          // of what the L2 saved, lost once communication fills all of it

  // What a grid that runs on CPUs costs.
  std::uint32_t grid_registers_per_thread = 0;
  std::uint32_t load_fs_per_byte = 0, store_fs_per_byte = 0, full_threads = 0;
  std::uint32_t local_latency_ps = 0, start_ps = 0, barrier_ps = 0, fence_ps = 0, poll_ps = 0;

  // Costs of calls.
  std::uint64_t host_launch_ps = 0;     // host time of a launch, copy or host-function call
  std::uint64_t host_event_ps = 0;      // of an event call
  std::uint64_t host_return_ps = 0;     // from the end of the work to the return of a synchronization
  std::uint64_t launch_latency_ps = 0;  // from the end of the call to the earliest start
  std::uint64_t stream_gap_ps = 0;      // between an operation of a stream and the kernel after it
  std::uint64_t copy_start_ps = 0;      // of a copy or a memset
  std::uint64_t host_function_ps = 0;

  // Throws ini::Error that names file, section and key where a figure is missing, unknown or out of range, or
  // contradicts another.
  static Gpu read(const ini::File& file);
};

}  // namespace hostcuda::clock
