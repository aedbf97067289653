// SPDX-License-Identifier: Apache-2.0
#include "clock/engine.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

#include "clock/rates.h"

namespace hostcuda::clock {
namespace {

struct OpState {
  Op* op = nullptr;
  bool open = false, wanted = false, started = false, given_up = false;
  std::uint32_t waits_for = 0;
  std::uint64_t ready_ps = 0;
  std::uint32_t unplaced = 0, running = 0;  // CTAs
  std::uint32_t sms_held = 0;
  std::vector<std::uint16_t> parts_on;  // by SM: placements that hold it
  std::vector<std::pair<std::size_t, std::uint64_t>> wakes;  // op, time from our end to its earliest start
  std::vector<Hold> holds;                                   // of a grid
};

struct DeviceState {
  explicit DeviceState(const Device& device) : device(&device), sms(device.gpu) {}
  const Device* device;
  SmArray sms;
  std::vector<Item> items;
  std::vector<std::size_t> queue;  // ops with CTAs to place, in the order in which they get them
  Drawn placed;                    // by ops that are placed already, now
  std::uint64_t moved_ps = 0;     // items' work is up to date with this time
  std::uint64_t next_end_ps = kNever;
  bool changed = false;
};

enum class EventKind { hold_ends, span_ends, span_begins, hold_begins, ready, begins, ends };

struct Event {
  std::uint64_t at_ps;
  EventKind kind;
  std::size_t index;  // of an op, or of a span or hold
  int device;
  // Same-time events of one kind commute: what they decide is decided when all of them have happened.
  bool operator>(const Event& other) const {
    return std::tie(at_ps, kind, device, index) > std::tie(other.at_ps, other.kind, other.device, other.index);
  }
};

class Run {
 public:
  Run(const std::map<int, Device>& devices, const RunRequest& request) : request_(request), out_(request.ops.size()) {
    for (const Op* op : request.ops) {
      if (op->device < 0 || devices_.count(op->device) != 0) continue;
      const int number = op->device;
      const Device& device = devices.at(number);
      devices_.emplace(number, DeviceState(device));
      for (std::size_t i = 0; i < device.placed.spans.size(); ++i) {
        if (device.placed.spans[i].placed_at >= request.view) continue;
        push(device.placed.spans[i].from_ps, EventKind::span_begins, i, number);
        push(device.placed.spans[i].to_ps, EventKind::span_ends, i, number);
      }
      for (std::size_t i = 0; i < device.placed.holds.size(); ++i) {
        if (device.placed.holds[i].placed_at >= request.view) continue;
        push(device.placed.holds[i].from_ps, EventKind::hold_begins, i, number);
        push(device.placed.holds[i].to_ps, EventKind::hold_ends, i, number);
      }
    }
    enter_ops();
  }

  std::vector<RunOutcome> finish() {
    while (!done()) {
      std::uint64_t next = events_.empty() ? kNever : events_.top().at_ps;
      for (const auto& [number, device] : devices_) next = std::min(next, device.next_end_ps);
      if (next == kNever) {
        give_up_open_grids();
      } else {
        now_ = next;
        happen();
      }
      for (auto& [number, device] : devices_) {
        if (!device.changed) continue;
        move(device);
        place(device);
        device.next_end_ps = set_rates(device.device->gpu, device.placed, request_.ops, now_, device.items);
        device.changed = false;
      }
    }
    return std::move(out_);
  }

 private:
  bool done() const { return request_.arriving != nullptr ? arrived_ : wanted_left_ == 0; }

  void push(std::uint64_t at_ps, EventKind kind, std::size_t index, int device) {
    events_.push({at_ps, kind, index, device});
  }

  void enter_ops() {
    const std::size_t count = request_.ops.size();
    states_.resize(count);
    const auto among = [&](const Op& op) { return op.run_index < count && request_.ops[op.run_index] == &op; };
    for (std::size_t i = 0; i < count; ++i) request_.ops[i]->run_index = i;
    for (std::size_t i = 0; i < count; ++i) {
      Op* op = request_.ops[i];
      OpState& state = states_[i];
      state.op = op;
      state.open = request_.open[i];
      state.wanted = request_.arriving == nullptr && request_.wanted[i];
      wanted_left_ += state.wanted;
      state.ready_ps = 0;
      const auto depend = [&](const OpRef& on, std::uint64_t add_ps) {
        if (among(*on)) {
          states_[on->run_index].wakes.emplace_back(i, add_ps);
          ++state.waits_for;
        } else {
          const std::uint64_t end_ps = on->placed_in(request_.view) ? on->times.end_ps : on->found_ps;
          state.ready_ps = std::max(state.ready_ps, end_ps + add_ps);
        }
      };
      for (const OpRef& on : op->after) depend(on, op->gap_ps);
      if (op->host_since) {
        depend(op->host_since, op->host_ahead_ps);
      } else {
        state.ready_ps = std::max(state.ready_ps, op->host_ahead_ps);
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (states_[i].waits_for == 0) push(states_[i].ready_ps, EventKind::ready, i, states_[i].op->device);
    }
  }

  // Everything that happens now. Ends may make others ready at the same moment, hence the loop.
  void happen() {
    bool more = true;
    while (more) {
      more = false;
      while (!events_.empty() && events_.top().at_ps == now_) {
        const Event event = events_.top();
        events_.pop();
        happened(event);
      }
      for (auto& [number, device] : devices_) {
        if (device.next_end_ps > now_) continue;
        move(device);
        end_items(device);
        more = true;
      }
      more = more || (!events_.empty() && events_.top().at_ps == now_);
    }
  }

  void happened(const Event& event) {
    switch (event.kind) {
      case EventKind::ready: return on_ready(event.index);
      case EventKind::ends: return on_end(event.index);
      case EventKind::begins: return begin(event.index);
      default: break;
    }
    DeviceState& device = touched(event.device);
    const Usage& placed = device.device->placed;
    if (event.kind == EventKind::hold_begins) {
      device.sms.take(placed.holds[event.index].room, placed.holds[event.index].placement);
    } else if (event.kind == EventKind::hold_ends) {
      device.sms.release(placed.holds[event.index].room, placed.holds[event.index].placement);
    } else {
      const Span& span = placed.spans[event.index];
      const std::uint64_t sign = event.kind == EventKind::span_begins ? 1 : -1;
      device.placed.memory_bytes_per_s += sign * span.memory_bytes_per_s;
      device.placed.flops_per_s += sign * span.flops_per_s;
      device.placed.buffer_bytes += sign * span.buffer_bytes;
    }
  }

  // The device as of now, about to change.
  DeviceState& touched(int number) {
    DeviceState& device = devices_.at(number);
    move(device);
    device.changed = true;
    return device;
  }

  void on_ready(std::size_t index) {
    OpState& state = states_[index];
    Op* op = state.op;
    state.ready_ps = now_;
    switch (op->kind) {
      case OpKind::grid:
      case OpKind::kernel: {
        DeviceState& device = touched(op->device);
        state.unplaced = op->ctas;
        const auto before = [&](std::size_t a, std::size_t b) { return key(a) < key(b); };
        device.queue.insert(std::upper_bound(device.queue.begin(), device.queue.end(), index, before), index);
        return;
      }
      case OpKind::copy: {
        DeviceState& device = touched(op->device);
        out_[index].times.start_ps = out_[index].times.begin_ps = now_;
        Item item;
        item.op = index;
        device.items.push_back(std::move(item));
        return;
      }
      default:
        out_[index].times.start_ps = out_[index].times.begin_ps = now_;
        if (op->duration_ps == 0) return on_end(index);
        push(now_ + op->duration_ps, EventKind::ends, index, op->device);
    }
  }

  // Who gets SMs first: priority, then who was ready first.
  std::tuple<int, std::uint64_t, std::uint64_t, std::uint64_t> key(std::size_t index) const {
    const OpState& state = states_[index];
    return {state.op->priority, state.ready_ps, state.op->stream_id, state.op->stream_sequence};
  }

  void on_end(std::size_t index) {
    OpState& state = states_[index];
    RunOutcome& out = out_[index];
    out.ended = true;
    out.times.end_ps = now_;
    out.times.ctas = state.op->kind == OpKind::grid || state.op->kind == OpKind::kernel ? state.op->ctas : 0;
    if (state.wanted) --wanted_left_;
    state.parts_on = {};
    for (const auto& [woken, add_ps] : state.wakes) {
      OpState& other = states_[woken];
      other.ready_ps = std::max(other.ready_ps, now_ + add_ps);
      if (--other.waits_for == 0) push(other.ready_ps, EventKind::ready, woken, other.op->device);
    }
  }

  // Brings the items' work up to now.
  void move(DeviceState& device) {
    const std::uint64_t from = device.moved_ps;
    device.moved_ps = now_;
    if (now_ == from) return;
    for (Item& item : device.items) {
      const Wide moved = Wide{now_ - from} * (item.speed << (kWorkBits - kSpeedBits)) / item.full_ps;
      item.left = moved >= item.left ? 0 : item.left - static_cast<std::uint64_t>(moved);
      if (request_.keep_usage && states_[item.op].wanted) note(item, from);
    }
  }

  void note(Item& item, std::uint64_t from) {
    const Span span{from, now_, scaled(item.memory_demand, item.speed, kFullSpeed),
                    scaled(item.flops_demand, item.speed, kFullSpeed), item.buffer_bytes, kNotPlaced};
    std::vector<Span>& spans = out_[item.op].usage.spans;
    if (item.span < spans.size()) {
      Span& last = spans[item.span];
      if (last.to_ps == from && last.memory_bytes_per_s == span.memory_bytes_per_s &&
          last.flops_per_s == span.flops_per_s && last.buffer_bytes == span.buffer_bytes) {
        last.to_ps = now_;
        return;
      }
    }
    item.span = spans.size();
    spans.push_back(span);
  }

  void end_items(DeviceState& device) {
    device.changed = true;
    std::vector<std::size_t> ended;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < device.items.size(); ++i) {
      Item& item = device.items[i];
      if (item.ends_ps > now_) {
        if (kept != i) device.items[kept] = std::move(item);
        ++kept;
        continue;
      }
      OpState& state = states_[item.op];
      if (state.op->kind == OpKind::kernel) {
        let_go(device, item.op, item.hold);
        state.running -= item.ctas;
        if (state.running > 0 || state.unplaced > 0) continue;
      } else {
        for (Hold& hold : state.holds) let_go(device, item.op, hold);
        state.holds.clear();
      }
      ended.push_back(item.op);
    }
    device.items.resize(kept);
    device.next_end_ps = kNever;  // until set_rates
    for (const Item& item : device.items) device.next_end_ps = std::min(device.next_end_ps, item.ends_ps);
    for (const std::size_t index : ended) on_end(index);
  }

  void let_go(DeviceState& device, std::size_t index, Hold& hold) {
    device.sms.release(hold.room, hold.placement);
    OpState& state = states_[index];
    for (const Placed& placed : hold.placement) state.sms_held -= --state.parts_on[placed.sm] == 0;
    hold.to_ps = now_;
    if (request_.keep_usage && state.wanted && hold.to_ps > hold.from_ps) {
      out_[index].usage.holds.push_back(std::move(hold));
    }
  }

  // Gives SMs away in the queue's order. Nobody overtakes: a kernel gets SMs only when all CTAs before it have theirs.
  void place(DeviceState& device) {
    std::size_t served = 0;
    for (; served < device.queue.size(); ++served) {
      const std::size_t index = device.queue[served];
      OpState& state = states_[index];
      Placement placement = device.sms.place(state.op->room, state.unplaced);
      if (!placement.empty()) occupy(device, index, std::move(placement));
      if (state.unplaced > 0) break;
      if (state.op->kind != OpKind::grid) continue;
      out_[index].times.begin_ps = now_;
      if (state.op == request_.arriving) {
        arrived_ = true;
        for (const Hold& hold : state.holds) {
          out_[index].placement.insert(out_[index].placement.end(), hold.placement.begin(), hold.placement.end());
        }
      }
      if (state.open) continue;
      if (state.op->peers_arrival_ps > now_) {
        push(state.op->peers_arrival_ps, EventKind::begins, index, state.op->device);
      } else {
        begin(index);
      }
    }
    device.queue.erase(device.queue.begin(), device.queue.begin() + static_cast<std::ptrdiff_t>(served));
  }

  void occupy(DeviceState& device, std::size_t index, Placement placement) {
    OpState& state = states_[index];
    OpTimes& times = out_[index].times;
    if (!state.started) times.start_ps = times.begin_ps = now_;
    state.started = true;
    std::map<std::uint32_t, Placement> by_level;  // of a kernel: crowded SMs are slower
    for (const Placed& placed : placement) {
      state.unplaced -= placed.ctas;
      by_level[state.op->kind == OpKind::kernel ? device.sms.computing_on(placed.sm) : 0].push_back(placed);
    }
    for (auto& [level, part] : by_level) {
      Hold hold = {now_, kNever, state.op->room, std::move(part), kNotPlaced};
      hold_sms(device, state, hold);
      times.sms = std::max(times.sms, state.sms_held);
      if (state.op->kind == OpKind::grid) {
        state.holds.push_back(std::move(hold));
        continue;
      }
      Item item;
      item.op = index;
      item.level = level;
      for (const Placed& placed : hold.placement) item.ctas += placed.ctas;
      state.running += item.ctas;
      item.hold = std::move(hold);
      device.items.push_back(std::move(item));
    }
  }

  static void hold_sms(const DeviceState& device, OpState& state, const Hold& hold) {
    state.parts_on.resize(device.device->gpu.sms);
    for (const Placed& placed : hold.placement) state.sms_held += state.parts_on[placed.sm]++ == 0;
  }

  void begin(std::size_t index) {
    if (states_[index].given_up) return;
    DeviceState& device = touched(states_[index].op->device);
    out_[index].times.begin_ps = now_;
    Item item;
    item.op = index;
    device.items.push_back(std::move(item));
  }

  void give_up_open_grids() {
    bool any = false;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      OpState& state = states_[i];
      if (!state.open || state.given_up || state.op == request_.arriving || state.holds.empty()) continue;
      DeviceState& device = touched(state.op->device);
      for (Hold& hold : state.holds) let_go(device, i, hold);
      state.holds.clear();
      state.given_up = true;
      device.queue.erase(std::remove(device.queue.begin(), device.queue.end(), i), device.queue.end());
      any = true;
    }
    if (any) return;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      const bool missed = request_.arriving == nullptr ? states_[i].wanted && !out_[i].ended
                                                       : states_[i].op == request_.arriving;
      if (missed) throw Error(states_[i].op->name + ": can never run: what it waits for never ends");
    }
    throw Error("the timeline is stuck");
  }

  const RunRequest& request_;
  std::vector<RunOutcome> out_;
  std::vector<OpState> states_;
  std::map<int, DeviceState> devices_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t now_ = 0;
  std::size_t wanted_left_ = 0;
  bool arrived_ = false;
};

}  // namespace

std::vector<RunOutcome> run(const std::map<int, Device>& devices, const RunRequest& request) {
  return Run(devices, request).finish();
}

}  // namespace hostcuda::clock
