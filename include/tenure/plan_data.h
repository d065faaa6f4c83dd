// SPDX-License-Identifier: Apache-2.0
//
// The arrays of a plan search's World, owned.
//
//   tenure::plan::WorldData data;
//   ... fill the vectors ...
//   if (absl::Status s = data.Check(); !s.ok()) return s;
//   tenure::plan::World world = data.View();   // valid until a vector changes
//
// See plan_world.h for what each array means.
#ifndef TENURE_PLAN_DATA_H_
#define TENURE_PLAN_DATA_H_

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tenure/plan_world.h"

namespace tenure::plan {

struct WorldData {
  std::vector<u8> gpus, idle, soon, most, sessions, node_flags;
  std::vector<u16> admit, release;
  std::vector<u32> node_group, occupant_begin{0};
  std::vector<Part> occupant;
  std::vector<u32> group_begin{0};
  std::vector<u16> group_pool;
  std::vector<u8> group_lane;
  std::vector<u32> level_begin{0};
  std::vector<Domain> domain;
  std::vector<u32> reserved_node, host_node;
  std::vector<Job> job;
  std::vector<Victim> victim;
  std::vector<Part> victim_node;
  std::vector<u8> rights;
  std::vector<int> spare;
  std::vector<u64> implies;
  std::vector<u8> width_gpus;
  u32 kinds = 0, rows = 0, bands = 0;
  u32 protect_wait = 0;
  u32 stops = ~u32{0};
  Prices prices;

  World View() const {
    const auto size = [](const auto& v) { return static_cast<u32>(v.size()); };
    World w{};
    w.nodes = size(gpus);
    w.groups = size(group_pool);
    w.domains = size(domain);
    w.levels = size(level_begin) - 1;
    w.jobs = size(job);
    w.kinds = kinds;
    w.rows = rows;
    w.victims = size(victim);
    w.victim_parts = size(victim_node);
    w.occupants = size(occupant);
    w.accounts = size(spare);
    w.bands = bands;
    w.widths = size(width_gpus);
    w.reserved = size(reserved_node);
    w.hosts = size(host_node);
    w.sizes = gpus.empty() ? 1 : 1u + *std::max_element(gpus.begin(), gpus.end());
    w.protect_wait = protect_wait;
    w.stops = stops;
    w.prices = prices;
    std::copy_n(width_gpus.begin(), std::min<std::size_t>(width_gpus.size(), kMaxWidths),
                w.width_gpus);
    w.gpus = gpus.data();
    w.idle = idle.data();
    w.soon = soon.data();
    w.most = most.data();
    w.sessions = sessions.data();
    w.node_flags = node_flags.data();
    w.admit = admit.data();
    w.release = release.data();
    w.node_group = node_group.data();
    w.occupant_begin = occupant_begin.data();
    w.occupant = occupant.data();
    w.group_begin = group_begin.data();
    w.group_pool = group_pool.data();
    w.group_lane = group_lane.data();
    w.level_begin = level_begin.data();
    w.domain = domain.data();
    w.reserved_node = reserved_node.data();
    w.host_node = host_node.data();
    w.job = job.data();
    w.victim = victim.data();
    w.victim_node = victim_node.data();
    w.rights = rights.data();
    w.spare = spare.data();
    w.implies = implies.data();
    return w;
  }

  // Fills what follows from the rest: occupant (victim_node by node, the cheapest first), most and
  // host_node.
  void ListOccupants() {
    host_node.clear();
    for (u32 n = 0; n < sessions.size(); ++n) {
      if (sessions[n] != 0) host_node.push_back(n);
    }
    std::vector<u32> order(victim.size());
    for (std::size_t v = 0; v < order.size(); ++v) order[v] = static_cast<u32>(v);
    std::stable_sort(order.begin(), order.end(),
                     [&](u32 a, u32 b) { return victim[a].choice < victim[b].choice; });
    occupant_begin.assign(gpus.size() + 1, 0);
    for (const Part& p : victim_node) ++occupant_begin[p.id + 1];
    for (std::size_t n = 0; n < gpus.size(); ++n) occupant_begin[n + 1] += occupant_begin[n];
    occupant.resize(victim_node.size());
    most = soon;
    std::vector<u32> at(occupant_begin.begin(), occupant_begin.end() - 1);
    for (u32 v : order) {
      for (u32 i = victim[v].first; i < victim[v].first + victim[v].count; ++i) {
        const u32 n = victim_node[i].id;
        occupant[at[n]++] = {v, victim_node[i].gpus};
        most[n] = static_cast<u8>(most[n] + victim_node[i].gpus);
      }
    }
  }

  // InvalidArgument if a number is beyond the limits of plan_world.h or the arrays contradict each
  // other: a World that passes makes no trial read or write beyond them. O(size).
  absl::Status Check() const;
};

inline absl::Status WorldData::Check() const {
  const auto bad = [](auto&&... what) {
    return absl::InvalidArgumentError(absl::StrCat("plan world: ", what...));
  };
  const std::size_t n = gpus.size(), g = group_pool.size(), v = victim.size();
  if (n >= (1u << 24) || victim_node.size() >= (1u << 30)) return bad(n, " nodes");
  if (idle.size() != n || soon.size() != n || most.size() != n || sessions.size() != n ||
      node_flags.size() != n || admit.size() != n || release.size() != n ||
      node_group.size() != n || occupant_begin.size() != n + 1 ||
      occupant_begin.back() != occupant.size()) {
    return bad("arrays by node differ in length from ", n);
  }
  if (group_begin.size() != g + 1 || group_lane.size() != g || group_begin.back() != n) {
    return bad("arrays by group differ in length from ", g);
  }
  for (std::size_t i = 0; i < g; ++i) {
    if (group_begin[i + 1] <= group_begin[i] || group_begin[i + 1] - group_begin[i] > kMaxGroup) {
      return bad("group ", i, " has ", int(group_begin[i + 1]) - int(group_begin[i]), " nodes");
    }
    for (u32 x = group_begin[i]; x < group_begin[i + 1]; ++x) {
      if (node_group[x] != i) return bad("node ", x, " is not in group ", i);
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (gpus[i] > kMaxGpus || idle[i] > gpus[i] || soon[i] > gpus[i]) {
      return bad("node ", i, " has ", int{gpus[i]}, " GPUs, ", int{idle[i]}, " idle, ",
                 int{soon[i]}, " soon");
    }
    if (occupant_begin[i + 1] < occupant_begin[i] ||
        occupant_begin[i + 1] - occupant_begin[i] > kMaxOccupants) {
      return bad("node ", i, " has too many runs");
    }
    u32 sum = soon[i];
    for (u32 o = occupant_begin[i]; o < occupant_begin[i + 1]; ++o) {
      if (occupant[o].id >= v) return bad("node ", i, " names run ", occupant[o].id);
      sum += occupant[o].gpus;
    }
    if (sum != most[i]) return bad("node ", i, " could have ", sum, " GPUs, not ", int{most[i]});
    if (sum > gpus[i]) return bad("node ", i, " would have ", sum, " of ", int{gpus[i]}, " GPUs");
  }
  if (level_begin.empty() || level_begin.front() != 0 || level_begin.back() != domain.size() ||
      !std::is_sorted(level_begin.begin(), level_begin.end()) || domain.size() >= (1u << 24)) {
    return bad("levels do not list the domains");
  }
  for (const Domain& d : domain) {
    if (d.first > d.last || d.last > g) return bad("a domain has groups up to ", d.last);
  }
  for (u32 x : reserved_node) {
    if (x >= n) return bad("reserved node ", x);
  }
  for (u32 x : host_node) {
    if (x >= n) return bad("node with sessions ", x);
  }
  if (width_gpus.size() > kMaxWidths || kinds > kMaxKinds) return bad("widths or kinds");
  if (rights.size() != std::size_t{rows} * v || implies.size() != std::size_t{kinds} * kKindWords) {
    return bad("rights or implications have a wrong length");
  }
  u16 band = 0;
  for (const Job& q : job) {
    const bool gang = q.nodes > 1;
    if (q.band < band || q.band >= bands || q.gpus == 0 || q.gpus > kMaxGpus || q.nodes == 0 ||
        q.kind >= kinds || q.row >= rows || (gang && q.level + 1u >= level_begin.size()) ||
        (gang && (q.width >= width_gpus.size() || width_gpus[q.width] != q.gpus)) ||
        (q.account != kNoAccount && q.account >= spare.size())) {
      return bad("job of kind ", q.kind, " in band ", q.band);
    }
    band = q.band;
  }
  for (const Victim& x : victim) {
    if (x.loss_class >= kLossClasses || std::size_t{x.first} + x.count > victim_node.size() ||
        x.count == 0 || (x.account != kNoAccount && x.account >= spare.size())) {
      return bad("a run that may be stopped");
    }
    for (u32 i = x.first; i < x.first + x.count; ++i) {
      if (victim_node[i].id >= n || (i > x.first && victim_node[i].id <= victim_node[i - 1].id)) {
        return bad("nodes of a run are not ascending");
      }
    }
  }
  for (std::size_t r = 0; r < rights.size(); ++r) {
    if (rights[r] == kWithinSpare && victim[r % v].account == kNoAccount) return bad("rights");
  }
  return absl::OkStatus();
}

}  // namespace tenure::plan

#endif  // TENURE_PLAN_DATA_H_
