// SPDX-License-Identifier: Apache-2.0
// The timeline behind plain C calls, so that its tests can be written in Python. Operations, streams and host threads
// are numbers here; a call that fails returns -1 and leaves its reason in abi_error().
#include <deque>
#include <exception>
#include <string>
#include <vector>

#include "clock/timeline.h"
#include "simt/grid.h"

namespace clk = hostcuda::clock;

namespace {

struct Abi {
  clk::Timeline timeline;
  std::deque<clk::HostThread> hosts;
  std::deque<clk::Stream> streams;
  std::vector<clk::OpRef> ops;
};

std::string g_error;

template <typename F>
long long guarded(F&& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    g_error = error.what();
    return -1;
  }
}

long long enqueue(Abi* abi, int host, int stream, const clk::Work& work, int after) {
  return guarded([&]() -> long long {
    std::vector<clk::OpRef> waits;
    if (after >= 0) waits.push_back(abi->ops.at(after));
    abi->ops.push_back(abi->timeline.enqueue(abi->hosts.at(host), abi->streams.at(stream), work, waits));
    return static_cast<long long>(abi->ops.size()) - 1;
  });
}

}  // namespace

extern "C" {

const char* abi_error() { return g_error.c_str(); }

Abi* abi_new(const char* gpu_ini, int devices, int hosts) {
  Abi* abi = nullptr;
  guarded([&]() -> long long {
    const clk::Gpu gpu = clk::Gpu::read(hostcuda::ini::File::read(gpu_ini));
    clk::Links links;
    for (unsigned i = 1; i < clk::kLinkClasses; ++i) {
      links.bytes_per_s[i] = 24000000000;
      links.latency_ps[i] = 1000000;
    }
    abi = new Abi;
    for (int i = 0; i < devices; ++i) abi->timeline.add_device(i, gpu, links);
    abi->hosts.resize(hosts);
    return 0;
  });
  return abi;
}

void abi_delete(Abi* abi) { delete abi; }

int abi_stream(Abi* abi, int device, int priority) {
  clk::Stream stream;
  stream.device = device;
  stream.id = abi->streams.size();
  stream.priority = priority;
  abi->streams.push_back(stream);
  return static_cast<int>(abi->streams.size()) - 1;
}

long long abi_grid(Abi* abi, int host, int stream, unsigned ctas, unsigned threads, unsigned registers,
                   unsigned long long shared, int collective, unsigned long long in_flight) {
  clk::GridWork work;
  work.name = "grid";
  work.ctas = ctas;
  work.threads_per_cta = threads;
  work.registers_per_thread = registers;
  work.shared_bytes_per_cta = shared;
  work.collective = collective != 0;
  work.epoch = 1;
  work.bytes_in_flight = in_flight;
  return enqueue(abi, host, stream, work, -1);
}

long long abi_kernel(Abi* abi, int host, int stream, double flops, double read, double written, unsigned ctas,
                     unsigned threads, unsigned registers, unsigned long long shared) {
  return enqueue(abi, host, stream, clk::KernelWork{"kernel", flops, read, written, ctas, threads, registers, shared},
                 -1);
}

long long abi_copy(Abi* abi, int host, int stream, int kind, unsigned long long bytes, unsigned long long link) {
  return enqueue(abi, host, stream, clk::CopyWork{"copy", static_cast<clk::CopyKind>(kind), bytes, link}, -1);
}

long long abi_record(Abi* abi, int host, int stream) { return enqueue(abi, host, stream, clk::EventRecord{}, -1); }

long long abi_wait(Abi* abi, int host, int stream, int op) { return enqueue(abi, host, stream, clk::EventWait{}, op); }

long long abi_host_function(Abi* abi, int host, int stream) {
  return enqueue(abi, host, stream, clk::HostFunction{}, -1);
}

// arrival, and what the launch is called in device times
long long abi_start(Abi* abi, int op, unsigned* launch_id, unsigned short* sms) {
  return guarded([&]() -> long long {
    const clk::LaunchClock clock = abi->timeline.start_grid(abi->ops.at(op));
    *launch_id = clock.launch_id;
    for (unsigned i = 0; i < clk::kPlacedCtas; ++i) sms[i] = clock.sm_of_cta[i];
    return static_cast<long long>(clock.arrival_ps);
  });
}

long long abi_executed(Abi* abi, int op, unsigned long long duration, unsigned long long peers,
                       unsigned long long bytes) {
  return guarded([&]() -> long long {
    hostcuda::simt::GridResult result;
    result.duration_ps = duration;
    result.peers_arrival_ps = peers;
    result.bytes_loaded = bytes / 2;
    result.bytes_stored = bytes - bytes / 2;
    abi->timeline.executed(abi->ops.at(op), result);
    return 0;
  });
}

long long abi_synchronize(Abi* abi, int host, const int* ops, int count) {
  return guarded([&]() -> long long {
    std::vector<clk::OpRef> refs;
    for (int i = 0; i < count; ++i) refs.push_back(abi->ops.at(ops[i]));
    abi->timeline.synchronized(abi->hosts.at(host), refs);
    return 0;
  });
}

// start, begin, end, CTAs, SMs
long long abi_times(Abi* abi, int host, int op, unsigned long long* out) {
  return guarded([&]() -> long long {
    const clk::OpTimes times = abi->timeline.times(abi->hosts.at(host), abi->ops.at(op));
    out[0] = times.start_ps;
    out[1] = times.begin_ps;
    out[2] = times.end_ps;
    out[3] = times.ctas;
    out[4] = times.sms;
    return 0;
  });
}

long long abi_host_time(Abi* abi, int host) {
  return guarded([&]() -> long long { return abi->timeline.host_time_ps(abi->hosts.at(host)); });
}

void abi_record_loads(Abi* abi) { abi->timeline.record_loads(true); }

// from, to, memory, flops, SMs, five words each; returns how many there are
long long abi_loads(Abi* abi, int device, unsigned long long* out, long long capacity) {
  const std::vector<clk::Load> loads = abi->timeline.loads(device);
  for (long long i = 0; i < capacity && i < static_cast<long long>(loads.size()); ++i) {
    out[5 * i] = loads[i].from_ps;
    out[5 * i + 1] = loads[i].to_ps;
    out[5 * i + 2] = loads[i].memory_bytes_per_s;
    out[5 * i + 3] = loads[i].flops_per_s;
    out[5 * i + 4] = loads[i].sms_busy;
  }
  return static_cast<long long>(loads.size());
}

long long abi_register(void* base, unsigned long long bytes) {
  return guarded([&]() -> long long {
    clk::register_device_times(base, bytes);
    return 0;
  });
}

int abi_unregister(void* base) { return clk::unregister_device_times(base) ? 1 : 0; }

// The formulas that device code uses.
unsigned long long abi_copy_ps(unsigned load_fs, unsigned store_fs, unsigned full_threads, unsigned long long loaded,
                               unsigned long long stored, unsigned threads) {
  clk::LaunchClock clock;
  clock.load_fs_per_byte = load_fs;
  clock.store_fs_per_byte = store_fs;
  clock.full_threads = full_threads;
  return clk::copy_ps(clock, loaded, stored, threads);
}
}
