// SPDX-License-Identifier: Apache-2.0
//
// An independent check of what a plan search answers.
#ifndef TENURE_TESTS_SUPPORT_PLAN_RULES_H_
#define TENURE_TESTS_SUPPORT_PLAN_RULES_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tenure/plan_data.h"
#include "tenure/plan_search.h"

namespace tenure::plan {

// Replays a plan by the rules of plan_world.h alone; empty if it keeps them.
inline std::string BreaksARule(const WorldData& d, const Result& r) {
  std::vector<int> idle(d.idle.begin(), d.idle.end()), soon(d.soon.begin(), d.soon.end());
  std::vector<int> spare = d.spare;
  std::vector<bool> gone(d.victim.size()), done(d.job.size());
  u32 stops = d.stops;
  for (const Placement& p : r.plan) {
    const Job& q = d.job[p.job];
    const std::string who = absl::StrCat("job ", p.job, ": ");
    if (done[p.job]) return who + "placed twice";
    done[p.job] = true;
    if (p.nodes.size() != q.nodes) return who + "wrong number of nodes";
    if (p.start && !p.victims.empty()) return who + "starts at once but stops runs";
    std::vector<u32> order = p.victims;  // those that depend on the floor come first
    std::stable_partition(order.begin(), order.end(), [&](u32 v) {
      return d.rights[q.row * d.victim.size() + v] == kWithinSpare;
    });
    for (u32 v : order) {
      const Victim& x = d.victim[v];
      if (gone[v]) return who + "stops a run twice";
      gone[v] = true;
      const u8 right = d.rights[q.row * d.victim.size() + v];
      if (right == kNever) return who + "stops what it may not";
      if (x.account != kNoAccount) {
        spare[x.account] -= static_cast<int>(x.charge);
        if (right == kWithinSpare && spare[x.account] < 0) return who + "takes beyond a floor";
      }
      if (x.funded && stops-- == 0) return who + "more stops than allowed";
      for (u32 i = x.first; i < x.first + x.count; ++i) {
        soon[d.victim_node[i].id] += static_cast<int>(d.victim_node[i].gpus);
      }
    }
    // Every stopped run is needed by some node of the plan.
    for (u32 v : p.victims) {
      const Victim& x = d.victim[v];
      bool needed = false;
      for (u32 i = x.first; i < x.first + x.count; ++i) {
        const u32 n = d.victim_node[i].id;
        const bool mine = std::find(p.nodes.begin(), p.nodes.end(), n) != p.nodes.end();
        needed = needed || (mine && soon[n] - static_cast<int>(d.victim_node[i].gpus) < q.gpus);
      }
      if (!needed) return who + absl::StrCat("run ", v, " is stopped for nothing");
    }
    for (std::size_t i = 0; i < p.nodes.size(); ++i) {
      const u32 n = p.nodes[i], g = d.node_group[n];
      for (std::size_t k = 0; k < i; ++k) {
        if (p.nodes[k] == n) return who + "the same node twice";
      }
      const bool lane = (d.node_flags[n] & kLaneNode) != 0;
      if (lane && !(q.flags & kMayUseLane)) return who + "on the lane";
      if (q.pool != kAnyPool && d.group_pool[g] != q.pool) return who + "wrong GPU type";
      if (d.group_pool[g] != d.group_pool[d.node_group[p.nodes[0]]]) return who + "over two types";
      if (q.ends + (p.start ? 0 : d.protect_wait) > d.admit[n]) return who + "breaks a promise";
      if ((p.start ? std::min(idle[n], soon[n]) : soon[n]) < q.gpus) return who + "no room";
      if (p.start) idle[n] -= q.gpus;
      soon[n] -= q.gpus;
    }
    if (q.flags & kInsideOne) {
      bool inside = false;
      for (u32 i = d.level_begin[q.level]; i < d.level_begin[q.level + 1u]; ++i) {
        inside =
            inside || std::all_of(p.nodes.begin(), p.nodes.end(), [&](u32 n) {
              return d.node_group[n] >= d.domain[i].first && d.node_group[n] < d.domain[i].last;
            });
      }
      if (!inside) return who + "leaves its domain";
    }
    if (q.account != kNoAccount) spare[q.account] += static_cast<int>(q.charge);
  }
  return "";
}

}  // namespace tenure::plan

#endif  // TENURE_TESTS_SUPPORT_PLAN_RULES_H_
