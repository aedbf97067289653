// SPDX-License-Identifier: Apache-2.0
// Barriers and warp operations.
#include <algorithm>
#include <bit>

#include "clock/clock.h"
#include "simt/scheduler.h"

namespace hostcuda::simt {
namespace {

void release(Cta& cta, Barrier& barrier) {
  // In order of arrival; the links are rewritten as the threads move over.
  for (DeviceThread* thread = barrier.waiting.head; thread;) {
    DeviceThread* after = thread->next;
    thread->vt_ps = barrier.vt_ps + cta.view.clock->barrier_ps;
    thread->arrival_ps = barrier.arrival_ps;
    thread->result = barrier.votes;
    cta.next.push(thread);
    thread = after;
  }
  barrier = Barrier{};
  ++cta.progress;
}

bool complete(const Cta& cta, const Barrier& barrier) {
  return barrier.arrived != 0 && barrier.arrived >= (barrier.threads ? barrier.threads : cta.live);
}

void arrive(DeviceThread* self, unsigned id, unsigned threads, bool predicate) {
  Cta& cta = *self->cta;
  if (id >= kBarriers) device_fail("barrier number over 15");
  Barrier& barrier = cta.barriers[id];
  if (threads > cta.view.block_dim.x * cta.view.block_dim.y * cta.view.block_dim.z)
    device_fail("barrier for more threads than the CTA has");
  if (barrier.arrived == 0)
    barrier.threads = threads;
  else if (barrier.threads != threads)
    device_fail("threads disagree on how many a barrier is for");
  ++barrier.arrived;
  barrier.votes += predicate;
  barrier.vt_ps = std::max(barrier.vt_ps, self->vt_ps);
  barrier.arrival_ps = std::max(barrier.arrival_ps, self->arrival_ps);
  barrier.waiting.push(self);
  self->polling = false;
  ++cta.progress;
  if (complete(cta, barrier)) release(cta, barrier);
  suspend(self);
}

WarpGroup& group_of(Warp& warp, unsigned mask) {
  if (mask == ~0u) return warp.full;
  for (auto& group : warp.partial)
    if (group->mask == mask) return *group;
  warp.partial.push_back(std::make_unique<WarpGroup>());
  warp.partial.back()->mask = mask;
  return *warp.partial.back();
}

// The lanes go on in ascending order: LL128 lets the last lane of a line store the flag for all of them.
void release(Cta& cta, Warp& warp, WarpGroup& group) {
  for (unsigned left = group.arrived; left; left &= left - 1) {
    DeviceThread& lane = warp.lanes[std::countr_zero(left)];
    lane.vt_ps = group.vt_ps;
    lane.arrival_ps = group.arrival_ps;
    lane.result = group.votes;
    cta.next.push(&lane);
  }
  if (group.stepped) ++cta.progress;
  group.arrived = 0;
  group.votes = 0;
  group.stepped = false;
  group.vt_ps = group.arrival_ps = 0;
  group.turn ^= 1;
}

// `mask` may name lanes that the CTA does not have or that have returned.
unsigned warp_arrive(DeviceThread* self, unsigned mask, bool predicate, std::uint64_t value,
                     const std::uint64_t** values) {
  Cta& cta = *self->cta;
  unsigned lane = self->linear_index % kWarpSize;
  if (!(mask >> lane & 1)) device_fail("warp operation whose mask leaves out the calling lane");
  Warp& warp = cta.warps[self->linear_index / kWarpSize];
  WarpGroup& group = group_of(warp, mask);
  if (values) *values = group.values[group.turn];
  group.values[group.turn][lane] = value;
  group.arrived |= 1u << lane;
  group.votes |= unsigned(predicate) << lane;
  group.vt_ps = std::max(group.vt_ps, self->vt_ps);
  group.arrival_ps = std::max(group.arrival_ps, self->arrival_ps);
  group.stepped |= !self->polling;
  self->polling = false;
  if (group.arrived == (mask & warp.live)) release(cta, warp, group);
  suspend(self);
  return unsigned(self->result);
}

}  // namespace

void leave_groups(DeviceThread* self) {
  Cta& cta = *self->cta;
  Warp& warp = cta.warps[self->linear_index / kWarpSize];
  warp.live &= ~(1u << self->linear_index % kWarpSize);
  if (warp.full.arrived && warp.full.arrived == warp.live) release(cta, warp, warp.full);
  for (auto& group : warp.partial)
    if (group->arrived && group->arrived == (group->mask & warp.live)) release(cta, warp, *group);
  for (Barrier& barrier : cta.barriers)
    if (complete(cta, barrier)) release(cta, barrier);
}

void block_sync(unsigned barrier, unsigned threads) { arrive(hostcuda_device_thread, barrier, threads, false); }

unsigned block_count(unsigned barrier, unsigned threads, bool predicate) {
  DeviceThread* self = hostcuda_device_thread;
  arrive(self, barrier, threads, predicate);
  return unsigned(self->result);
}

unsigned warp_vote(unsigned mask, bool predicate) {
  return warp_arrive(hostcuda_device_thread, mask, predicate, 0, nullptr);
}

WarpValues warp_exchange(unsigned mask, std::uint64_t value) {
  WarpValues result{};
  result.lanes = warp_arrive(hostcuda_device_thread, mask, true, value, &result.values);
  return result;
}

unsigned warp_live_lanes() {
  DeviceThread* self = hostcuda_device_thread;
  return self->cta->warps[self->linear_index / kWarpSize].live;
}

void poll_yield() {
  DeviceThread* self = hostcuda_device_thread;
  self->polling = true;
  self->cta->next.push(self);
  suspend(self);
}

void note_progress() {
  DeviceThread* self = hostcuda_device_thread;
  self->polling = false;
  ++self->cta->progress;
}

}  // namespace hostcuda::simt
