// SPDX-License-Identifier: Apache-2.0
//
// Random worlds for plan searches. Needs nothing but the standard library.
#ifndef TENURE_TESTS_SUPPORT_PLAN_WORLDS_H_
#define TENURE_TESTS_SUPPORT_PLAN_WORLDS_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "tenure/plan_data.h"

namespace tenure::plan {

struct WorldShape {
  u32 nodes = 128;
  u32 jobs = 60;
  u32 domain_nodes = 32;  // of a leaf domain; irregular: 1 to twice as many
  u32 spine_domains = 4;  // leaf domains a spine
  u32 pools = 1;          // GPU types
  u32 bands = 6;
  u32 gpus = 8;            // of a node
  bool irregular = false;  // domains and nodes of different sizes
  bool reservations = false;
  bool lanes = false;
  u32 percent_protected = 30, percent_stoppable = 60;
};

// A busy cluster: protected work, stoppable work of 1 to 32 nodes with some members elsewhere, the
// rest free or part free; pending requests inside a node and gangs.
class WorldMaker {
 public:
  explicit WorldMaker(std::uint32_t seed) : random_(seed) {}

  WorldData Make(const WorldShape& s) {
    WorldData d;
    std::vector<std::pair<u32, u32>> leaves, spines;  // of groups
    u32 spine_begin = 0;
    std::vector<u16> pool_of_leaf;
    for (u32 n = 0; n < s.nodes;) {
      u32 size = s.irregular ? 1 + Below(2 * s.domain_nodes) : s.domain_nodes;
      size = std::min(size, s.nodes - n);
      const u16 pool = static_cast<u16>(std::min(s.pools - 1, n * s.pools / s.nodes));
      const bool lane = s.lanes && n + size == s.nodes;
      const u32 first = static_cast<u32>(d.group_pool.size());
      for (u32 left = size; left > 0;) {
        const u32 part = std::min(left, kMaxGroup);
        d.group_begin.push_back(d.group_begin.back() + part);
        d.group_pool.push_back(pool);
        d.group_lane.push_back(lane);
        left -= part;
      }
      leaves.emplace_back(first, static_cast<u32>(d.group_pool.size()));
      pool_of_leaf.push_back(pool);
      for (u32 i = 0; i < size; ++i, ++n) {
        const u32 gpus = s.irregular && Below(8) == 0 ? std::max(1u, s.gpus / 2) : s.gpus;
        d.gpus.push_back(static_cast<u8>(gpus));
        d.node_flags.push_back(lane ? u8{kLaneNode} : u8{0});
      }
    }
    for (u32 g = 0; g < d.group_pool.size(); ++g) {
      for (u32 n = d.group_begin[g]; n < d.group_begin[g + 1]; ++n) d.node_group.push_back(g);
    }
    d.idle = d.soon = d.gpus;
    d.sessions.assign(s.nodes, 0);
    d.admit.assign(s.nodes, 0xffff);
    d.release.assign(s.nodes, 0);
    // Level 0: pools; 1: spines inside a pool; 2: leaves.
    std::vector<Domain> pools, mid, low;
    for (u32 l = 0; l < leaves.size(); ++l) {
      const Domain leaf{leaves[l].first, leaves[l].second, pool_of_leaf[l]};
      low.push_back(leaf);
      if (l == 0 || pool_of_leaf[l] != pool_of_leaf[l - 1]) {
        pools.push_back(leaf);
        mid.push_back(leaf);
        spine_begin = l;
      }
      pools.back().last = leaf.last;
      if (l - spine_begin >= s.spine_domains) {
        mid.push_back(leaf);
        spine_begin = l;
      }
      mid.back().last = leaf.last;
    }
    for (const auto* level : {&pools, &mid, &low}) {
      d.domain.insert(d.domain.end(), level->begin(), level->end());
      d.level_begin.push_back(static_cast<u32>(d.domain.size()));
    }
    Occupy(s, d);
    Ask(s, d);
    d.prices = Prices{};
    return d;
  }

 private:
  u32 Below(u32 n) { return static_cast<u32>(random_() % n); }

  void Occupy(const WorldShape& s, WorldData& d) {
    const u32 accounts = 8;
    for (u32 a = 0; a < accounts; ++a) d.spare.push_back(static_cast<int>(Below(80)) * 8000);
    std::vector<u8> used(s.nodes, 0);
    for (u32 n = 0; n < s.nodes;) {
      const u32 size = std::min(s.nodes - n, u32{1} << Below(6));
      const u32 kind = Below(100);
      if (kind < s.percent_protected) {
        const u16 until = static_cast<u16>(1 + Below(480));
        for (u32 i = n; i < n + size; ++i) {
          if (used[i]) continue;
          used[i] = 1;
          const u32 g = Below(3) == 0 ? 1 + Below(d.gpus[i]) : d.gpus[i];
          d.idle[i] = static_cast<u8>(d.idle[i] - g);
          d.soon[i] = d.idle[i];
          d.release[i] = until;
          if (d.idle[i] > 0 && Below(4) == 0) {  // some of it is claimed by a hold
            d.soon[i] = static_cast<u8>(d.soon[i] - 1);
          }
        }
      } else if (kind < s.percent_protected + s.percent_stoppable) {
        std::vector<u32> nodes;
        for (u32 i = n; i < n + size; ++i) {
          u32 m = i;
          if (Below(8) == 0) m = std::min(s.nodes - 1, i + Below(s.domain_nodes * 4));
          if (used[m]) m = i;
          if (!used[m]) nodes.push_back(m);
          used[m] = 1;
        }
        std::sort(nodes.begin(), nodes.end());
        if (!nodes.empty()) {
          const bool part = nodes.size() == 1 && Below(2) == 0;
          for (u32 copy = 0; copy < (part ? 2u : 1u); ++copy) Stoppable(s, d, nodes, part);
        }
      } else {
        for (u32 i = n; i < n + size; ++i) used[i] = 1;
      }
      n += size;
    }
    if (s.reservations) {
      for (u32 n = 0; n < s.nodes; ++n) {
        if (Below(6) != 0) continue;
        d.node_flags[n] |= kReservedNode;
        d.admit[n] = static_cast<u16>(Below(300));
        d.reserved_node.push_back(n);
      }
    }
    if (s.lanes) {  // and sessions here and there
      for (u8& sessions : d.sessions) sessions = static_cast<u8>(Below(4) == 0 ? 1 + Below(9) : 0);
    }
    d.ListOccupants();
  }
  void Stoppable(const WorldShape&, WorldData& d, const std::vector<u32>& nodes, bool part) {
    Victim v{};
    v.first = static_cast<u32>(d.victim_node.size());
    v.funded = Below(4) != 0;
    v.account = v.funded ? static_cast<u16>(Below(8)) : kNoAccount;
    v.loss_class = static_cast<u8>(v.funded ? v.account * 7 : kUnfundedLoss);
    u32 total = 0;
    for (u32 m : nodes) {
      const u32 g = part ? 1 + Below(std::max(1u, d.gpus[m] / 2u)) : d.gpus[m];
      if (g > d.idle[m]) continue;
      d.idle[m] = static_cast<u8>(d.idle[m] - g);
      d.soon[m] = d.idle[m];
      d.victim_node.push_back({m, g});
      total += g;
    }
    v.count = static_cast<u32>(d.victim_node.size()) - v.first;
    if (v.count == 0) return;
    v.charge = total * 1000;
    v.lost = total * (1 + Below(480));
    v.choice = v.lost * 15ull + (v.funded ? u64{total} << 26 : 0);
    d.victim.push_back(v);
  }
  void Ask(const WorldShape& s, WorldData& d) {
    const u32 victims = static_cast<u32>(d.victim.size());
    d.bands = s.bands;
    d.rows = s.bands;
    for (u32 r = 0; r < d.rows; ++r) {
      for (u32 v = 0; v < victims; ++v) {
        u8 right = kNever;
        if (!d.victim[v].funded) {
          right = kAlways;
        } else if (d.victim[v].account >= r) {
          right = Below(3) == 0 ? u8{kWithinSpare} : u8{kAlways};
        }
        d.rights.push_back(right);
      }
    }
    d.width_gpus = {static_cast<u8>(s.gpus)};
    if (s.gpus > 2) d.width_gpus.push_back(static_cast<u8>(s.gpus / 2));
    for (u32 j = 0; j < s.jobs; ++j) {
      Job q{};
      const u32 x = Below(100);
      q.band = static_cast<u16>(j * s.bands / s.jobs);
      q.row = q.band;
      q.protect = static_cast<u16>(Below(480));
      q.nodes = 1;
      q.pool = s.pools > 1 && Below(2) == 0 ? static_cast<u16>(Below(s.pools)) : kAnyPool;
      if (x < 50) {
        q.gpus = static_cast<u8>(1 + Below(s.gpus));
        q.protect = static_cast<u16>(Below(30));
        if (s.lanes && Below(3) == 0) q.flags = kMayUseLane | (Below(2) ? kLaneFirst : 0);
        if (Below(6) == 0) q.flags |= kSession;
      } else {
        q.width = static_cast<u8>(Below(5) == 0 ? d.width_gpus.size() - 1 : 0);
        q.gpus = d.width_gpus[q.width];
        q.nodes = std::min(std::max(2u, s.nodes / 2), x < 80   ? 2u << Below(3)
                                                      : x < 95 ? 8u << Below(2)
                                                               : 48u);
        q.level = static_cast<u8>(Below(3));
        if (Below(3) == 0) q.flags |= kInsideOne;
      }
      q.ends = q.protect;
      q.weight = q.nodes * q.gpus;
      q.charge = q.weight * 1000;
      q.account = static_cast<u16>(Below(8));
      q.kind = static_cast<u16>(std::min(j, kMaxKinds - 1));
      d.job.push_back(q);
    }
    d.kinds = std::min(s.jobs, kMaxKinds);
    d.implies.assign(std::size_t{d.kinds} * kKindWords, 0);
    for (u32 k = 0; k < d.kinds; ++k) {
      for (u32 o = k; o < d.kinds; ++o) {  // equal requests of no more rights fail too
        const Job &a = d.job[k], &b = d.job[o];
        if (s.jobs <= kMaxKinds && a.nodes == b.nodes && a.gpus == b.gpus && a.pool == b.pool &&
            a.flags == b.flags && a.level == b.level && a.protect <= b.protect && a.row == b.row) {
          d.implies[k * kKindWords + o / 64] |= u64{1} << (o % 64);
        }
      }
    }
  }

  std::mt19937 random_;
};

}  // namespace tenure::plan

#endif  // TENURE_TESTS_SUPPORT_PLAN_WORLDS_H_
