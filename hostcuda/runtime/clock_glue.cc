// SPDX-License-Identifier: Apache-2.0
#include "runtime/clock_glue.h"

#include <cstdio>
#include <map>
#include <memory>
#include <utility>

#include "runtime/error.h"
#include "runtime/machine.h"
#include "runtime/pages.h"
#include "runtime/stream.h"

namespace hostcuda::rt {
namespace {

clock::Links links_of(const Machine& m) {
  clock::Links links;
  for (const LinkClass link : {kLinkHost, kLinkNvlink, kLinkPcie}) {
    links.bytes_per_s[link] = m.links[link].bytes_per_s;
    links.latency_ps[link] = m.links[link].latency_ps;
  }
  return links;
}

// Launches counted by group, and by device as well: two ranks of a group may live in one process.
std::map<std::pair<int, std::uint64_t>, std::uint16_t>& launches() {
  static auto* counted = new std::map<std::pair<int, std::uint64_t>, std::uint16_t>;
  return *counted;
}

// What this thread said about its next launch. A pointer, because libcudart's share of the static TLS block has to stay
// small.
thread_local std::unique_ptr<Announced> t_announced;
thread_local std::unique_ptr<clock::HostThread> t_host;

}  // namespace

clock::Timeline& timeline() {
  static clock::Timeline* made = [] {
    const Machine* m = machine();
    if (m == nullptr) throw ini::Error("no machine to simulate");
    auto* line = new clock::Timeline;  // never freed: device times may be asked for while the process ends
    const clock::Gpu gpu = clock::Gpu::read(m->gpu_file);
    for (std::size_t place = 0; place < m->gpus.size(); ++place) {
      line->add_device(static_cast<int>(place), gpu, links_of(*m));
    }
    return line;
  }();
  return *made;
}

clock::HostThread* host_thread() {
  if (t_state.helper) return nullptr;
  if (!t_host) t_host = std::make_unique<clock::HostThread>();
  return t_host.get();
}

std::uint64_t link_bytes_per_s(int from_place, int to_place) {
  const Machine& m = *machine();
  if (from_place == to_place) return 0;
  const bool with_host = from_place == kHostMemory || to_place == kHostMemory;
  return m.links[with_host ? kLinkHost : m.link(from_place, to_place)].bytes_per_s;
}

void announce(const hostcudaLaunchInfo_t& info) {
  auto made = std::make_unique<Announced>();
  made->name = info.name == nullptr ? "" : info.name;
  made->collective = true;
  made->group_key = info.group_key;
  made->bytes_in_flight = info.bytes_in_flight;
  t_announced = std::move(made);
}

std::uint16_t count_launch(int number, const Announced& announced) {
  if (!announced.collective) return 0;
  std::uint16_t& count = launches()[{number, announced.group_key}];
  if (++count == 0) ++count;  // 0 means that nothing was announced
  return count;
}

void forget_group(int device, std::uint64_t group_key) {
  std::lock_guard<std::mutex> guard(runtime_lock());
  launches().erase({device, group_key});
}

Announced take_announcement() {
  Announced taken;
  if (t_announced) taken = std::move(*t_announced);
  t_announced.reset();
  return taken;
}

void OpRecords::add(std::uint64_t sequence, hostcudaOpKind_t kind, const std::string& name, clock::OpRef op) {
  if (!kept_) return;
  if (records_.size() == kMost) records_.pop_front();
  records_.push_back({sequence, kind, name, std::move(op)});
}

std::vector<hostcudaOpTime_t> OpRecords::since(std::uint64_t mark, clock::HostThread& host) {
  std::vector<hostcudaOpTime_t> found;
  for (const Record& record : records_) {
    if (record.sequence < mark) continue;
    const clock::OpTimes times = timeline().times(host, record.op);
    hostcudaOpTime_t one{};
    one.sequence = record.sequence;
    one.kind = record.kind;
    one.ctas = times.ctas;
    one.start_ns = times.start_ps / 1000;
    one.end_ns = times.end_ps / 1000;
    std::snprintf(one.name, sizeof one.name, "%s", record.name.c_str());
    found.push_back(one);
  }
  return found;
}

}  // namespace hostcuda::rt
