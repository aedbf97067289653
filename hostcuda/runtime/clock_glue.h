// SPDX-License-Identifier: Apache-2.0
// Where the runtime meets the clock.
//
// Only what the program itself does may move modelled time, for only that is the same on every run. The rule: every
// call of a host thread counts, in the order in which the process makes them, unless the thread has declared itself a
// helper (hostcudaHelperThread: NCCL's proxies and the like, whose moments of action the CPU decides). What a helper
// enqueues runs like anything else but is not on the timeline, and a wait for it costs no time. Callbacks run on a
// thread of ours, which is a helper too. cudaEventQuery leaves no trace, whatever it answers: libraries query now and
// then, and what they find is the CPU's choice. A cudaStreamQuery that finds its stream done is a synchronization:
// programs spin on it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "clock/timeline.h"
#include "hostcuda.h"

namespace hostcuda::rt {

struct Device;

// The process's timeline, with all devices of the machine. Throws ini::Error or clock::Error where their descriptions
// are wrong.
clock::Timeline& timeline();

// The calling thread's own clock, or nullptr for a helper.
clock::HostThread* host_thread();

// The link between two places of the machine (kHostMemory for the host), one direction.
std::uint64_t link_bytes_per_s(int from_place, int to_place);

// What the calling thread announced for its next grid, used up by the call.
struct Announced {
  std::string name;
  bool collective = false;  // whether it announced anything
  std::uint64_t group_key = 0;
  std::uint64_t bytes_in_flight = 0;
};
void announce(const hostcudaLaunchInfo_t& info);
Announced take_announcement();

// The number of this launch among those of its group on the program's device `number`; 0 where it is no group's. A grid
// of a graph is a new one at every launch of the graph. With the runtime's lock held.
std::uint16_t count_launch(int number, const Announced& announced);
// The group launches no more on that device. Takes the runtime's lock.
void forget_group(int number, std::uint64_t group_key);

// Operations of one stream since the program first asked for a mark.
class OpRecords {
 public:
  void keep() { kept_ = true; }
  void add(std::uint64_t sequence, hostcudaOpKind_t kind, const std::string& name, clock::OpRef op);
  // All with sequence >= mark; they must have been waited for.
  std::vector<hostcudaOpTime_t> since(std::uint64_t mark, clock::HostThread& host);

 private:
  struct Record {
    std::uint64_t sequence;
    hostcudaOpKind_t kind;
    std::string name;
    clock::OpRef op;
  };
  static constexpr std::size_t kMost = 65536;
  bool kept_ = false;
  std::deque<Record> records_;
};

}  // namespace hostcuda::rt
