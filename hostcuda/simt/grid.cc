// SPDX-License-Identifier: Apache-2.0
// Grids: starting CTAs, running their fibers pass by pass, collecting results.
#include "simt/grid.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

#include "clock/clock.h"
#include "runtime/va.h"
#include "simt/scheduler.h"

extern "C" {
__thread hostcuda::simt::DeviceThread* hostcuda_device_thread = nullptr;
}

namespace hostcuda::simt {
namespace {

// Fibers of one CTA touch the same cache lines, so a CTA gets many passes before the next one does.
constexpr unsigned kPassesPerTurn = 64;
// A warp operation that ends a wait loop shows as progress only one pass later.
constexpr unsigned kIdlePasses = 2;
// CTAs of one grid that exist at a time. Kernels whose CTAs wait for each other must fit; NCCL has at most 64.
constexpr unsigned kMaxLiveCtas = 128;
constexpr std::size_t kMaxSharedBytes = 256 << 10;
constexpr std::size_t kArgsAlignment = 16;

std::size_t round_up(std::size_t value, std::size_t step) { return (value + step - 1) / step * step; }

}  // namespace

StackBounds stack_of(const Cta& cta, const DeviceThread* thread) {
  if (!thread) return cta.scheduler_stack;
  const StackSlab& slab = cta.stacks[thread->linear_index / kWarpSize];
  return {slab.lowest(thread->linear_index % kWarpSize), StackSlab::kStackBytes};
}

void suspend(DeviceThread* self) {
  Cta* cta = self->cta;
  DeviceThread* following = cta->current.pop();
  hostcuda_device_thread = following;
  void* kept = nullptr;
  leaving_stack(&kept, stack_of(*cta, following));
  hostcuda_switch(&self->stack_pointer, following ? following->stack_pointer : cta->scheduler_stack_pointer);
  entered_stack(kept);
}

void device_fail(const char* what) {
  DeviceThread* self = hostcuda_device_thread;
  self->cta->grid->fail(*self->cta, self, what);
  hostcuda_device_thread = nullptr;
  leaving_stack(nullptr, self->cta->scheduler_stack);
  hostcuda_switch(&self->stack_pointer, self->cta->scheduler_stack_pointer);
  __builtin_unreachable();
}

Grid::Grid(GridSpec&& spec) : spec_(std::move(spec)) {
  const Dim3& block = spec_.block;
  const Dim3& grid = spec_.grid;
  threads_per_cta_ = std::size_t(block.x) * block.y * block.z;
  std::size_t ctas = std::size_t(grid.x) * grid.y * grid.z;
  std::string name = spec_.name ? spec_.name : "kernel";
  if (!spec_.entry) throw std::invalid_argument(name + ": no entry point");
  if (threads_per_cta_ == 0 || threads_per_cta_ > kMaxThreads)
    throw std::invalid_argument(name + ": " + std::to_string(threads_per_cta_) + " threads a CTA; allowed are 1 to " +
                                std::to_string(kMaxThreads));
  if (ctas == 0 || ctas > ~0u) throw std::invalid_argument(name + ": " + std::to_string(ctas) + " CTAs");
  shared_bytes_ = round_up(spec_.static_shared_bytes, 128) + spec_.dynamic_shared_bytes;
  if (shared_bytes_ > kMaxSharedBytes)
    throw std::invalid_argument(name + ": " + std::to_string(shared_bytes_) + " bytes of shared memory a CTA; at most " +
                                std::to_string(kMaxSharedBytes));
  shared_bytes_ = round_up(std::max<std::size_t>(shared_bytes_, 1), StackSlab::kPage);
  cta_count_ = unsigned(ctas);
  args_storage_ = std::make_unique<std::byte[]>(spec_.args.size() + kArgsAlignment);
  auto raw = reinterpret_cast<std::uintptr_t>(args_storage_.get());
  auto* aligned = reinterpret_cast<std::byte*>(round_up(raw, kArgsAlignment));
  if (!spec_.args.empty()) std::memcpy(aligned, spec_.args.data(), spec_.args.size());
  args_ = aligned;
  result_.ctas.resize(cta_count_);
  result_.peers_arrival_ps = spec_.clock.arrival_ps;
  try {
    while (started_ < std::min(cta_count_, kMaxLiveCtas)) start_cta(started_);
  } catch (...) {
    for (auto& cta : live_) release_memory(*cta);
    throw;
  }
}

Grid::~Grid() {
  for (auto& cta : live_) release_memory(*cta);
}

void Grid::start_cta(unsigned index) {
  live_.push_back(std::make_unique<Cta>());
  Cta& cta = *live_.back();
  cta.grid = this;
  cta.index = index;
  const Dim3& grid = spec_.grid;
  const Dim3& block = spec_.block;
  cta.view.block_index = {index % grid.x, index / grid.x % grid.y, index / grid.x / grid.y};
  cta.view.block_dim = {block.x, block.y, block.z};
  cta.view.grid_dim = {grid.x, grid.y, grid.z};
  cta.view.clock = &spec_.clock;
  cta.view.link_class_of_owner = rt::link_classes(spec_.device);
  cta.view.sm_id = clock::sm_of_cta(spec_.clock, index);
  cta.live = unsigned(threads_per_cta_);
  cta.arrival_ps = spec_.clock.arrival_ps;
  cta.shared = take_shared(shared_bytes_);
  cta.threads = std::make_unique<DeviceThread[]>(threads_per_cta_);
  unsigned warps = unsigned((threads_per_cta_ + kWarpSize - 1) / kWarpSize);
  cta.warps.resize(warps);
  for (unsigned w = 0; w < warps; ++w) {
    cta.stacks.push_back(take_stacks());
    cta.warps[w].lanes = &cta.threads[w * kWarpSize];
    unsigned lanes = std::min<unsigned>(kWarpSize, unsigned(threads_per_cta_) - w * kWarpSize);
    cta.warps[w].live = lanes == kWarpSize ? ~0u : (1u << lanes) - 1;
  }
  for (unsigned i = 0; i < threads_per_cta_; ++i) {
    DeviceThread& thread = cta.threads[i];
    thread.vt_ps = spec_.clock.start_ps;
    thread.arrival_ps = spec_.clock.arrival_ps;
    thread.static_shared = cta.shared;
    thread.dynamic_shared = cta.shared + round_up(spec_.static_shared_bytes, 128);
    thread.view = &cta.view;
    thread.cta = &cta;
    thread.thread_index = {i % block.x, i / block.x % block.y, i / block.x / block.y};
    thread.linear_index = i;
    thread.polling = thread.done = false;
    // What hostcuda_switch pops, and the address that it returns to. The first call in the fiber must find the stack
    // aligned as the ABI says.
    auto* top = reinterpret_cast<void**>(cta.stacks[i / kWarpSize].top(i % kWarpSize)) - 2;
    *--top = reinterpret_cast<void*>(&hostcuda_fiber_start);
    for (int reg = 0; reg < 6; ++reg) *--top = nullptr;
    thread.stack_pointer = top;
    cta.next.push(&thread);
  }
  ++started_;
}

void Grid::release_memory(Cta& cta) {
  for (StackSlab slab : cta.stacks) give_stacks(slab);
  cta.stacks.clear();
  if (cta.shared) give_shared(cta.shared, shared_bytes_);
  cta.shared = nullptr;
}

void Grid::fail(Cta& cta, const DeviceThread* thread, const char* what) {
  if (result_.failed) return;
  result_.failed = true;
  result_.error = std::string(spec_.name ? spec_.name : "kernel") + ": " + what + " (CTA " + std::to_string(cta.index);
  if (thread) result_.error += ", thread " + std::to_string(thread->linear_index);
  result_.error += ", device " + std::to_string(spec_.device) + ")";
}

void Grid::report_deadlock(Cta& cta) {
  std::string what = "deadlock: ";
  what += std::to_string(cta.live) + " threads wait for others that never come";
  for (unsigned id = 0; id < kBarriers; ++id) {
    const Barrier& barrier = cta.barriers[id];
    if (barrier.arrived)
      what += "; barrier " + std::to_string(id) + " has " + std::to_string(barrier.arrived) + " of " +
              (barrier.threads ? std::to_string(barrier.threads) : std::string("all"));
  }
  for (std::size_t w = 0; w < cta.warps.size(); ++w)
    if (cta.warps[w].full.arrived)
      what += "; warp " + std::to_string(w) + " is incomplete";
  fail(cta, nullptr, what.c_str());
}

// True where the CTA made progress.
bool Grid::run_cta(Cta& cta) {
  std::uint64_t before = cta.progress;
  cta.scheduler_stack = thread_stack();
  unsigned idle = 0;
  for (unsigned pass = 0; pass < kPassesPerTurn && idle < kIdlePasses; ++pass) {
    std::uint64_t at_start = cta.progress;
    cta.current = cta.next;
    cta.next = Queue{};
    DeviceThread* first = cta.current.pop();
    if (!first) {
      report_deadlock(cta);
      break;
    }
    hostcuda_device_thread = first;
    void* kept = nullptr;
    leaving_stack(&kept, stack_of(cta, first));
    hostcuda_switch(&cta.scheduler_stack_pointer, first->stack_pointer);
    entered_stack(kept);
    if (result_.failed || cta.live == 0) break;
    idle = cta.progress == at_start ? idle + 1 : 0;
  }
  return cta.progress != before;
}

Progress Grid::run() {
  if (result_.failed || finished_ == cta_count_) return Progress::finished;
  catch_faults();
  bool some = false;
  for (std::size_t i = 0; i < live_.size();) {
    some |= run_cta(*live_[i]);
    if (result_.failed) return Progress::finished;
    if (live_[i]->live != 0) {
      ++i;
      continue;
    }
    finish_cta(*live_[i]);
    live_.erase(live_.begin() + std::ptrdiff_t(i));
    if (started_ < cta_count_) start_cta(started_);
  }
  if (finished_ == cta_count_) return Progress::finished;
  return some ? Progress::some : Progress::none;
}

void Grid::finish_cta(Cta& cta) {
  result_.ctas[cta.index] = {0, cta.stop_ps};
  result_.duration_ps = std::max(result_.duration_ps, cta.stop_ps);
  result_.peers_arrival_ps = std::max(result_.peers_arrival_ps, cta.arrival_ps);
  result_.bytes_loaded += cta.view.bytes_loaded;
  result_.bytes_stored += cta.view.bytes_stored;
  release_memory(cta);
  ++finished_;
}

GridResult Grid::result() const { return result_; }

Grid* grid_create(GridSpec&& spec) { return new Grid(std::move(spec)); }
Progress grid_run(Grid* grid) { return grid->run(); }
GridResult grid_result(Grid* grid) { return grid->result(); }
void grid_destroy(Grid* grid) { delete grid; }

}  // namespace hostcuda::simt

void hostcuda_fiber_main() {
  using namespace hostcuda::simt;
  entered_stack(nullptr);
  DeviceThread* self = hostcuda_device_thread;
  Cta& cta = *self->cta;
  cta.grid->spec().entry(cta.grid->args());
  self->done = true;
  cta.stop_ps = std::max(cta.stop_ps, self->vt_ps);
  cta.arrival_ps = std::max(cta.arrival_ps, self->arrival_ps);
  --cta.live;
  ++cta.progress;
  leave_groups(self);
  suspend(self);
  __builtin_unreachable();
}
