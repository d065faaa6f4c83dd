// SPDX-License-Identifier: Apache-2.0
//
// Whether the arrays of a plan search's World may be searched.
//
//   if (absl::Status s = tenure::plan::CheckWorld(data); !s.ok()) return s;
#ifndef TENURE_PLAN_CHECK_H_
#define TENURE_PLAN_CHECK_H_

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tenure/plan_data.h"

namespace tenure::plan {

// InvalidArgument if a number is beyond the limits of plan_world.h or the arrays contradict each
// other: a World that passes makes no trial read or write beyond them. O(size).
inline absl::Status CheckWorld(const WorldData& data) {
  const auto bad = [](auto&&... what) {
    return absl::InvalidArgumentError(absl::StrCat("plan world: ", what...));
  };
  const std::size_t n = data.gpus.size(), g = data.group_pool.size(), v = data.victim.size();
  if (n >= (1u << 24) || data.victim_node.size() >= (1u << 30)) return bad(n, " nodes");
  if (data.idle.size() != n || data.soon.size() != n || data.most.size() != n ||
      data.sessions.size() != n || data.node_flags.size() != n || data.admit.size() != n ||
      data.release.size() != n || data.node_group.size() != n ||
      data.occupant_begin.size() != n + 1 || data.occupant_begin.back() != data.occupant.size()) {
    return bad("arrays by node differ in length from ", n);
  }
  if (data.group_begin.size() != g + 1 || data.group_lane.size() != g ||
      data.group_begin.back() != n) {
    return bad("arrays by group differ in length from ", g);
  }
  for (std::size_t i = 0; i < g; ++i) {
    if (data.group_begin[i + 1] <= data.group_begin[i] ||
        data.group_begin[i + 1] - data.group_begin[i] > kMaxGroup) {
      return bad("group ", i, " has ", int(data.group_begin[i + 1]) - int(data.group_begin[i]),
                 " nodes");
    }
    for (u32 x = data.group_begin[i]; x < data.group_begin[i + 1]; ++x) {
      if (data.node_group[x] != i) return bad("node ", x, " is not in group ", i);
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (data.gpus[i] > kMaxGpus || data.idle[i] > data.gpus[i] || data.soon[i] > data.gpus[i]) {
      return bad("node ", i, " has ", int{data.gpus[i]}, " GPUs, ", int{data.idle[i]}, " idle, ",
                 int{data.soon[i]}, " soon");
    }
    if (data.occupant_begin[i + 1] < data.occupant_begin[i] ||
        data.occupant_begin[i + 1] - data.occupant_begin[i] > kMaxOccupants) {
      return bad("node ", i, " has too many runs");
    }
    u32 sum = data.soon[i];
    for (u32 o = data.occupant_begin[i]; o < data.occupant_begin[i + 1]; ++o) {
      if (data.occupant[o].id >= v) return bad("node ", i, " names run ", data.occupant[o].id);
      sum += data.occupant[o].gpus;
    }
    if (sum != data.most[i])
      return bad("node ", i, " could have ", sum, " GPUs, not ", int{data.most[i]});
    if (sum > data.gpus[i])
      return bad("node ", i, " would have ", sum, " of ", int{data.gpus[i]}, " GPUs");
  }
  if (data.level_begin.empty() || data.level_begin.front() != 0 ||
      data.level_begin.back() != data.domain.size() ||
      !std::is_sorted(data.level_begin.begin(), data.level_begin.end()) ||
      data.domain.size() >= (1u << 24)) {
    return bad("levels do not list the domains");
  }
  for (const Domain& d : data.domain) {
    if (d.first > d.last || d.last > g) return bad("a domain has groups up to ", d.last);
  }
  for (u32 x : data.reserved_node) {
    if (x >= n) return bad("reserved node ", x);
  }
  for (u32 x : data.host_node) {
    if (x >= n) return bad("node with sessions ", x);
  }
  if (data.width_gpus.size() > kMaxWidths || data.kinds > kMaxKinds) return bad("widths or kinds");
  if (data.rights.size() != std::size_t{data.rows} * v ||
      data.implies.size() != std::size_t{data.kinds} * kKindWords) {
    return bad("rights or implications have a wrong length");
  }
  u16 band = 0;
  for (const Job& q : data.job) {
    const bool gang = q.nodes > 1;
    if (q.band < band || q.band >= data.bands || q.gpus == 0 || q.gpus > kMaxGpus || q.nodes == 0 ||
        q.kind >= data.kinds || q.row >= data.rows ||
        (gang && q.level + 1u >= data.level_begin.size()) ||
        (gang && (q.width >= data.width_gpus.size() || data.width_gpus[q.width] != q.gpus)) ||
        (q.account != kNoAccount && q.account >= data.spare.size())) {
      return bad("job of kind ", q.kind, " in band ", q.band);
    }
    band = q.band;
  }
  for (const Victim& x : data.victim) {
    if (x.loss_class >= kLossClasses || std::size_t{x.first} + x.count > data.victim_node.size() ||
        x.count == 0 || (x.account != kNoAccount && x.account >= data.spare.size())) {
      return bad("a run that may be stopped");
    }
    for (u32 i = x.first; i < x.first + x.count; ++i) {
      if (data.victim_node[i].id >= n ||
          (i > x.first && data.victim_node[i].id <= data.victim_node[i - 1].id)) {
        return bad("nodes of a run are not ascending");
      }
    }
  }
  for (std::size_t r = 0; r < data.rights.size(); ++r) {
    if (data.rights[r] == kWithinSpare && data.victim[r % v].account == kNoAccount)
      return bad("rights");
  }
  return absl::OkStatus();
}

}  // namespace tenure::plan

#endif  // TENURE_PLAN_CHECK_H_
