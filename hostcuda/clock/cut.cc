// SPDX-License-Identifier: Apache-2.0
#include "clock/cut.h"

#include <algorithm>
#include <cstdint>

namespace hostcuda::clock {
namespace {

// Only such operations slow others down.
bool heavy(const Op& op) { return op.kind == OpKind::grid || op.kind == OpKind::kernel || op.kind == OpKind::copy; }

// Which heavy operations one waits for, itself included: all up to the join `joins`, and of those after the join
// `latest` the ones in `since`, one bit each.
struct Past {
  std::size_t joins = 0, latest = 0;
  std::uint64_t since = 0;
};

}  // namespace

Cut cut(const std::vector<Op*>& ops) {
  const std::uint64_t view = ops.back()->view;
  for (std::size_t i = 0; i < ops.size(); ++i) ops[i]->run_index = i;
  const auto index_of = [&](const OpRef& on) {
    const bool among = on && on->run_index < ops.size() && ops[on->run_index] == on.get();
    return among ? on->run_index : SIZE_MAX;
  };

  // A join is a heavy operation that waits for all heavy ones before it. Joins count from 1.
  std::vector<Past> pasts(ops.size());
  std::vector<std::size_t> join_at{0};
  std::uint64_t bits_used = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const std::size_t latest = join_at.size() - 1;
    Past& past = pasts[i];
    const auto inherit = [&](const OpRef& on) {
      const std::size_t from = index_of(on);
      if (from == SIZE_MAX) return;
      past.joins = std::max(past.joins, pasts[from].joins);
      if (pasts[from].latest == latest) past.since |= pasts[from].since;
    };
    past.latest = latest;
    for (const OpRef& on : ops[i]->after) inherit(on);
    inherit(ops[i]->host_since);
    if (!heavy(*ops[i])) continue;
    if (past.joins == latest && past.since == bits_used) {
      join_at.push_back(i);
      past = {latest + 1, latest + 1, 0};
      bits_used = 0;
    } else {
      if (bits_used == UINT64_MAX) break;  // too many side by side: no more joins
      past.since |= bits_used + 1;
      bits_used |= bits_used + 1;
    }
  }

  const auto unknown = std::find_if(ops.begin(), ops.end(), [&](const Op* op) { return op->found_view != view; });
  const auto known = static_cast<std::size_t>(unknown - ops.begin());
  // The latest join that all heavy operations after it wait for, and the latest such with everything up to it found.
  Cut cut;
  std::size_t least = SIZE_MAX;
  std::size_t end = ops.size();
  for (std::size_t join = join_at.size() - 1; join > 0; --join) {
    for (std::size_t i = join_at[join] + 1; i < end; ++i) {
      if (heavy(*ops[i])) least = std::min(least, pasts[i].joins);
    }
    end = join_at[join] + 1;
    if (least < join || join_at[join] + 1 == ops.size()) continue;
    if (cut.settled == 0) cut.settled = end;
    if (end > known) continue;
    cut.found = end;
    break;
  }
  return cut;
}

}  // namespace hostcuda::clock
