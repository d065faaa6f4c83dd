// SPDX-License-Identifier: Apache-2.0
//
// The arrays of a plan search's World, owned.
//
//   tenure::plan::WorldData data;
//   ... fill the vectors ...
//   if (absl::Status s = tenure::plan::CheckWorld(data); !s.ok()) return s;  // plan_check.h
//   tenure::plan::World world = data.View();   // valid until a vector changes
//
// See plan_world.h for what each array means. Needs nothing but the standard library.
#ifndef TENURE_PLAN_DATA_H_
#define TENURE_PLAN_DATA_H_

#include <algorithm>
#include <vector>

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
};

}  // namespace tenure::plan

#endif  // TENURE_PLAN_DATA_H_
