// SPDX-License-Identifier: Apache-2.0
#include "clock/timeline.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "clock/cut.h"
#include "clock/engine.h"
#include "clock/words.h"
#include "clock/work.h"
#include "simt/grid.h"

namespace hostcuda::clock {
namespace {

std::uint32_t fs_per_byte(std::uint64_t bytes_per_s) {
  return bytes_per_s == 0 ? 0 : static_cast<std::uint32_t>(std::uint64_t{1000000000000000} / bytes_per_s);
}

// The operations that a question is about. `seen` are those that take part: what the asked-for operations wait
// for, and whatever the host threads behind any of them had enqueued before. `needed` among them are those that the
// asked-for operations wait for, so that their grids have run.
struct Walk {
  std::vector<Op*> seen;  // in program order
  std::vector<bool> needed;

  void forget_first(std::size_t count) {
    seen.erase(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(count));
    needed.erase(needed.begin(), needed.begin() + static_cast<std::ptrdiff_t>(count));
  }
};

}  // namespace

struct Timeline::State {
  std::mutex mutex;
  std::map<int, Device> devices;
  std::vector<OpRef> open;  // in the order of their enqueue: not placed, or not placed in a view still to come
  std::uint64_t placements = 0;
  std::uint64_t walks = 0;
  std::uint64_t host_threads = 0;
  bool logging = false;
  std::map<int, Usage> log;  // of everything placed while logging

  Device& device(int number) {
    const auto found = devices.find(number);
    if (found == devices.end()) throw Error("no device " + std::to_string(number) + " in the timeline");
    return found->second;
  }

  std::uint64_t number_of(HostThread& host) {
    if (host.number_ == 0) host.number_ = ++host_threads;
    return host.number_;
  }

  // Asked by `last`, an operation, about itself.
  Walk walk(const OpRef& last, std::uint64_t view) {
    last->walk_needed = ++walks;
    const auto at = std::find(open.rbegin(), open.rend(), last);
    return walk_back(at, {last->host_number}, view);
  }

  // Asked now by a host thread about `op` and all that it has synchronized with.
  Walk walk(const OpRef& op, const HostThread& host) {
    op->walk_needed = ++walks;
    if (host.since_) host.since_->walk_needed = walks;
    return walk_back(open.rbegin(), {host.number_}, kLatestView);
  }

  // Dependencies point backwards in `open`, so one pass towards its front finds them all.
  Walk walk_back(std::vector<OpRef>::reverse_iterator at, std::set<std::uint64_t> hosts, std::uint64_t view) {
    Walk found;
    for (; at != open.rend(); ++at) {
      Op* op = at->get();
      if (op->placed_in(view)) continue;
      const bool needed = op->walk_needed == walks;
      if (!needed && op->walk_seen != walks && hosts.count(op->host_number) == 0) continue;
      hosts.insert(op->host_number);
      found.seen.push_back(op);
      found.needed.push_back(needed);
      const auto reach = [&](const OpRef& on) {
        if (on) (needed ? on->walk_needed : on->walk_seen) = walks;
      };
      for (const OpRef& on : op->after) reach(on);
      reach(op->host_since);
    }
    std::reverse(found.seen.begin(), found.seen.end());
    std::reverse(found.needed.begin(), found.needed.end());
    return found;
  }

  RunRequest request_for(const Walk& walk) {
    RunRequest request;
    request.ops = walk.seen;
    request.wanted = walk.needed;
    for (std::size_t i = 0; i < walk.seen.size(); ++i) {
      request.open.push_back(walk.seen[i]->kind == OpKind::grid && !walk.needed[i]);
    }
    return request;
  }

  static void require_run(const Walk& walk, const Op* except) {
    for (std::size_t i = 0; i < walk.seen.size(); ++i) {
      const Op* op = walk.seen[i];
      if (walk.needed[i] && op != except && op->kind == OpKind::grid && !op->has_run) {
        throw Error(op->name + ": its times are asked for before it has run");
      }
    }
  }

  void place(const Walk& walk) {
    const auto needed = static_cast<std::size_t>(std::count(walk.needed.begin(), walk.needed.end(), true));
    if (needed == 0) return;
    require_run(walk, nullptr);
    RunRequest request = request_for(walk);
    request.keep_usage = logging || needed < open.size();
    std::vector<RunOutcome> outcomes = run(devices, request);

    std::vector<PlacedLaunch> launches;
    for (std::size_t i = 0; i < walk.seen.size(); ++i) {
      if (!walk.needed[i]) continue;
      Op* op = walk.seen[i];
      op->placed_at = placements;
      op->times = outcomes[i].times;
      if (op->kind == OpKind::grid) {
        launches.push_back({op->launch_id, op->times.begin_ps, op->times.end_ps, op->duration_ps});
      }
      if (op->device < 0) continue;
      if (logging) append(log[op->device], outcomes[i].usage);
      if (request.keep_usage) append(devices.at(op->device).placed, outcomes[i].usage);
    }
    ++placements;
    correct_device_times(launches);
    forget();
  }

  void append(Usage& to, const Usage& from) const {
    for (Span span : from.spans) {
      span.placed_at = placements;
      to.spans.push_back(span);
    }
    for (Hold hold : from.holds) {
      hold.placed_at = placements;
      to.holds.push_back(std::move(hold));
    }
  }

  // Lets go of operations that no view to come will see as not placed, and of what placed ones held before any of those
  // that are left can start.
  void forget() {
    std::uint64_t oldest_view = kLatestView;
    for (const OpRef& op : open) {
      if (op->kind == OpKind::grid && !op->has_arrival) oldest_view = std::min(oldest_view, op->view);
    }
    std::uint64_t earliest = UINT64_MAX;
    for (const OpRef& op : open) {
      if (op->placed_in(oldest_view)) {
        op->after.clear();
        op->host_since.reset();
      } else {
        earliest = std::min(earliest, op->earliest_ps);
      }
    }
    std::erase_if(open, [&](const OpRef& op) { return op->placed_in(oldest_view); });
    for (auto& [number, device] : devices) {
      std::erase_if(device.placed.spans, [&](const Span& span) { return span.to_ps <= earliest; });
      std::erase_if(device.placed.holds, [&](const Hold& hold) { return hold.to_ps <= earliest; });
    }
  }

  void enter(const OpRef& op) {
    const Op* since = op->host_since.get();
    op->earliest_ps = op->host_ahead_ps;
    if (since != nullptr) op->earliest_ps += since->placed_in(kLatestView) ? since->times.end_ps : since->earliest_ps;
    op->view = placements;
    open.push_back(op);
  }

};

Timeline::Timeline() : state_(std::make_unique<State>()) {}

Timeline::~Timeline() {
  // One by one: a chain of a million operations would otherwise be freed by as many nested calls.
  for (const OpRef& op : state_->open) {
    op->after.clear();
    op->host_since.reset();
  }
}

void Timeline::add_device(int device, const Gpu& gpu, const Links& links) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->devices.emplace(device, Device{gpu, links, {}}).second) {
    throw Error("device " + std::to_string(device) + " is in the timeline already");
  }
}

OpRef Timeline::enqueue(HostThread& host, Stream& stream, const Work& work, std::span<const OpRef> after,
                        bool in_graph) {
  const std::lock_guard lock(state_->mutex);
  const Gpu& gpu = state_->device(stream.device).gpu;
  const bool event = std::holds_alternative<EventRecord>(work) || std::holds_alternative<EventWait>(work);
  const std::uint64_t call_ps = in_graph ? 0 : event ? gpu.host_event_ps : gpu.host_launch_ps;

  auto op = std::make_shared<Op>();
  op->device = stream.device;
  op->priority = stream.priority;
  op->stream_id = stream.id;
  op->stream_sequence = stream.enqueued;
  op->host_number = state_->number_of(host);
  op->host_since = host.since_;
  op->host_ahead_ps = host.ahead_ps_ + call_ps + gpu.launch_latency_ps;
  if (stream.last) op->after.push_back(stream.last);
  for (const OpRef& on : after) {
    if (on && on != stream.last) op->after.push_back(on);
  }
  set_work(*op, gpu, work);

  host.ahead_ps_ += call_ps;
  stream.last = op;
  ++stream.enqueued;
  state_->enter(op);
  return op;
}

LaunchClock Timeline::start_grid(const OpRef& grid) {
  const std::lock_guard lock(state_->mutex);
  if (grid->kind != OpKind::grid || grid->has_arrival) {
    throw Error(grid->name + ": only a grid starts, and once");
  }
  Walk walk = state_->walk(grid, grid->view);  // of what its host thread enqueued, only what came before it
  State::require_run(walk, grid.get());
  const Cut cut = hostcuda::clock::cut(walk.seen);
  walk.forget_first(cut.found);
  RunRequest request = state_->request_for(walk);
  request.view = grid->view;
  request.open.back() = true;
  request.arriving = grid.get();
  const std::vector<RunOutcome> outcomes = run(state_->devices, request);
  for (std::size_t i = 0; i + cut.found < cut.settled; ++i) {
    if (!outcomes[i].ended) continue;
    request.ops[i]->found_view = grid->view;
    request.ops[i]->found_ps = outcomes[i].times.end_ps;
  }
  const RunOutcome& outcome = outcomes.back();
  grid->arrival_ps = outcome.times.begin_ps;
  grid->has_arrival = true;

  const Device& device = state_->devices.at(grid->device);
  const Gpu& gpu = device.gpu;
  LaunchClock clock;
  clock.arrival_ps = grid->arrival_ps;
  clock.launch_id = grid->launch_id;
  clock.epoch = grid->epoch;
  clock.grid_ctas = grid->ctas;
  clock.start_ps = gpu.start_ps;
  clock.barrier_ps = gpu.barrier_ps;
  clock.fence_ps = gpu.fence_ps;
  clock.poll_ps = gpu.poll_ps;
  for (unsigned i = 0; i < kLinkClasses; ++i) {
    clock.latency_ps[i] = i == 0 ? gpu.local_latency_ps : static_cast<std::uint32_t>(device.links.latency_ps[i]);
    clock.link_fs_per_byte[i] = fs_per_byte(device.links.bytes_per_s[i]);
  }
  clock.load_fs_per_byte = gpu.load_fs_per_byte;
  clock.store_fs_per_byte = gpu.store_fs_per_byte;
  clock.full_threads = gpu.full_threads;
  clock.sms = static_cast<std::uint16_t>(gpu.sms);
  std::vector<std::uint16_t> sms;
  for (const Placed& placed : outcome.placement) sms.insert(sms.end(), placed.ctas, placed.sm);
  for (unsigned i = 0; i < kPlacedCtas; ++i) clock.sm_of_cta[i] = sms[i % sms.size()];
  return clock;
}

void Timeline::executed(const OpRef& grid, const simt::GridResult& result) {
  const std::lock_guard lock(state_->mutex);
  if (grid->kind != OpKind::grid || !grid->has_arrival || grid->has_run) {
    throw Error(grid->name + ": only a grid that has started ends, and once");
  }
  grid->duration_ps = result.duration_ps;
  grid->bytes = result.bytes_loaded + result.bytes_stored;
  grid->peers_arrival_ps = std::max(result.peers_arrival_ps, grid->arrival_ps);
  grid->has_run = true;
}

void Timeline::synchronized(HostThread& host, std::span<const OpRef> ops) {
  const std::lock_guard lock(state_->mutex);
  auto wait = std::make_shared<Op>();
  wait->kind = OpKind::host_wait;
  wait->name = "synchronization";
  wait->host_number = state_->number_of(host);
  wait->host_since = host.since_;
  wait->host_ahead_ps = host.ahead_ps_;
  for (const OpRef& op : ops) {
    if (!op) continue;
    wait->after.push_back(op);
    if (op->device >= 0) wait->gap_ps = std::max(wait->gap_ps, state_->device(op->device).gpu.host_return_ps);
  }
  state_->enter(wait);
  const Walk walk = state_->walk(wait, kLatestView);
  bool waited_for_grid = false, open_grid = false;
  for (std::size_t i = 0; i < walk.seen.size(); ++i) {
    if (walk.seen[i]->kind == OpKind::grid) (walk.needed[i] ? waited_for_grid : open_grid) = true;
  }
  host.since_ = wait;
  host.ahead_ps_ = 0;
  // Beside a grid whose end is not known, placing can wait until somebody asks: by then it may be.
  if (open_grid && !waited_for_grid) return State::require_run(walk, nullptr);
  state_->place(walk);
}

OpTimes Timeline::times(HostThread& host, const OpRef& op) {
  const std::lock_guard lock(state_->mutex);
  if (!op->placed_in(kLatestView)) {
    state_->number_of(host);
    state_->place(state_->walk(op, host));
  }
  return op->times;
}

std::uint64_t Timeline::host_time_ps(HostThread& host) {
  const std::lock_guard lock(state_->mutex);
  if (!host.since_) return host.ahead_ps_;
  if (!host.since_->placed_in(kLatestView)) state_->place(state_->walk(host.since_, kLatestView));
  return host.since_->times.end_ps + host.ahead_ps_;
}

void Timeline::record_loads(bool on) {
  const std::lock_guard lock(state_->mutex);
  state_->logging = on;
  if (!on) state_->log.clear();
}

std::vector<Load> Timeline::loads(int device) {
  const std::lock_guard lock(state_->mutex);
  const std::uint32_t sms = state_->device(device).gpu.sms;
  const Usage& usage = state_->log[device];
  std::set<std::uint64_t> edges;
  for (const Span& span : usage.spans) edges.insert({span.from_ps, span.to_ps});
  for (const Hold& hold : usage.holds) edges.insert({hold.from_ps, hold.to_ps});
  std::vector<Load> loads;
  for (auto at = edges.begin(); at != edges.end() && std::next(at) != edges.end(); ++at) {
    Load load{*at, *std::next(at), 0, 0, 0};
    const auto covers = [&](const auto& part) { return part.from_ps <= load.from_ps && part.to_ps >= load.to_ps; };
    for (const Span& span : usage.spans) {
      if (!covers(span)) continue;
      load.memory_bytes_per_s += span.memory_bytes_per_s;
      load.flops_per_s += span.flops_per_s;
    }
    std::vector<bool> busy(sms);
    for (const Hold& hold : usage.holds) {
      if (!covers(hold)) continue;
      for (const Placed& placed : hold.placement) busy[placed.sm] = true;
    }
    load.sms_busy = static_cast<std::uint32_t>(std::count(busy.begin(), busy.end(), true));
    loads.push_back(load);
  }
  return loads;
}

}  // namespace hostcuda::clock
