// SPDX-License-Identifier: Apache-2.0
#include "tenure/placement.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "random_shape.h"
#include "tenure/sim/random.h"

namespace tenure {
namespace {

using test::RandomShape;

// A random cluster of one or two types and up to three levels of domains, partly occupied.
Cluster RandomCluster(sim::Rng& rng, std::int64_t lane_permille) {
  Cluster c;
  c.SetLane(lane_permille);
  const std::int64_t types = 1 + rng.Below(2);
  for (std::int64_t t = 0; t < types; ++t) c.InternGpuType(absl::StrCat("t", t));
  std::vector<DomainId> domains = {kRootDomain};
  for (std::int64_t i = rng.Below(8); i > 0; --i) {
    const DomainId parent =
        domains[static_cast<std::size_t>(rng.Below(static_cast<std::int64_t>(domains.size())))];
    if (c.level(parent) < 3) {
      domains.push_back(c.AddDomain(absl::StrCat("d", domains.size()), parent).value());
    }
  }
  for (std::int64_t i = 1 + rng.Below(14); i > 0; --i) {
    const NodeId n = c.AddNode(absl::StrCat("n", i), GpuCount(1 + rng.Below(8)),
                               GpuTypeId(static_cast<std::uint16_t>(rng.Below(types))),
                               domains[static_cast<std::size_t>(
                                   rng.Below(static_cast<std::int64_t>(domains.size())))])
                         .value();
    const auto used = static_cast<std::int32_t>(rng.Below(c.node(n).gpus + 1));
    if (used > 0) c.Occupy(n, static_cast<RunSlot>(i), used, false);
    if (rng.Chance(1, 8)) c.SetHealth(n, NodeHealth::kDraining);
  }
  c.Reindex();
  return c;
}

int LevelOf(const Cluster& c, const Shape& s) { return std::min<int>(s.level, c.depth()); }

// The domain of `level` above the node, or an impossible one.
DomainId DomainAt(const Cluster& c, NodeId n, int level) {
  DomainId d = c.node(n).domain;
  while (c.level(d) > level) d = c.parent(d);
  return c.level(d) == level ? d : DomainId(999);
}

// Nodes that could take a member, by type.
template <class Usable>
std::map<GpuTypeId, std::vector<NodeId>> Candidates(const Cluster& c, const Shape& s,
                                                    Usable usable) {
  std::map<GpuTypeId, std::vector<NodeId>> result;
  for (std::uint32_t i = 0; i < c.size(); ++i) {
    const Node& n = c.node(NodeId(i));
    if ((s.type == kAnyGpuType || s.type == n.type) && (!n.lane || s.lane) && usable(n)) {
      result[n.type].emplace_back(i);
    }
  }
  return result;
}

template <class Usable>
bool Possible(const Cluster& c, const Shape& s, Usable usable) {
  for (const auto& [type, nodes] : Candidates(c, s, usable)) {
    std::map<DomainId, std::int32_t> count;
    for (NodeId n : nodes) {
      const bool required = s.nodes > 1 && s.rule == TopologyRule::kRequired;
      const DomainId d = required ? DomainAt(c, n, LevelOf(c, s)) : kRootDomain;
      if (d != DomainId(999) && ++count[d] >= s.nodes) return true;
    }
  }
  return false;
}

// Fewest domains of the wanted level over which the gang can be spread inside its pool and inside
// `within`, trying all subsets; -1: nodes above that level are needed.
int FewestDomains(const Cluster& c, const Shape& s, GpuTypeId type, int within_level,
                  DomainId within) {
  std::map<DomainId, std::int32_t> count;
  for (std::uint32_t i = 0; i < c.size(); ++i) {
    const Node& n = c.node(NodeId(i));
    if (n.type != type || n.lane || n.health != NodeHealth::kUp || n.free() < s.gpus) continue;
    if (DomainAt(c, NodeId(i), within_level) != within) continue;
    const DomainId d = DomainAt(c, NodeId(i), LevelOf(c, s));
    if (d != DomainId(999)) ++count[d];
  }
  std::vector<std::int32_t> sizes;
  for (const auto& [d, n] : count) sizes.push_back(n);
  int fewest = -1;
  for (std::uint32_t set = 1; set < (1u << sizes.size()); ++set) {
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) sum += (set >> i & 1) ? sizes[i] : 0;
    const int domains = __builtin_popcount(set);
    if (sum >= s.nodes && (fewest < 0 || domains < fewest)) fewest = domains;
  }
  return fewest;
}

TEST(Placement, UsesANodeThatClosesForWhatIsOverInTimeOnly) {
  sim::Rng rng(11);
  int gangs = 0, refused = 0;
  for (int i = 0; i < 4000; ++i) {
    const Cluster before = RandomCluster(rng, rng.Chance(1, 2) ? 0 : 250);
    Cluster c = before;
    for (std::uint32_t n = 0; n < c.size(); ++n) {
      if (rng.Chance(1, 2)) continue;
      c.SetMaintenance(NodeId(n), TimePoint(BandLimit(0) * rng.Below(5)), true, rng.Chance(1, 4));
    }
    Shape s = RandomShape(rng);
    s.band = static_cast<std::uint8_t>(rng.Below(3));
    const auto usable = [&](const Node& n) {
      return n.up() && n.free() >= s.gpus && s.EndsBy(TimePoint()) <= n.closes_at;
    };
    std::vector<NodeId> nodes;
    const bool found = PlaceFree(c, s, NoNodeScore{}, kNoNode, nodes);
    ASSERT_EQ(found, Possible(c, s, usable)) << i;
    for (NodeId n : nodes) {
      ASSERT_TRUE(usable(c.node(n))) << i;
      gangs += s.nodes > 1 && c.node(n).closing;
    }
    // Called off, everything is as before.
    for (std::uint32_t n = 0; n < c.size(); ++n) {
      c.SetMaintenance(NodeId(n), kNever, false, false);
    }
    std::vector<NodeId> after, expected;
    EXPECT_EQ(PlaceFree(c, s, NoNodeScore{}, kNoNode, after),
              PlaceFree(before, s, NoNodeScore{}, kNoNode, expected));
    EXPECT_EQ(after, expected);
    EXPECT_EQ(c.free(), before.free());
    EXPECT_EQ(c.healthy(), before.healthy());
    refused += !found && !after.empty();
  }
  EXPECT_GT(gangs, 50);
  EXPECT_GT(refused, 50);
}

TEST(Placement, FindsAPlaceExactlyWhenThereIsOne) {
  sim::Rng rng(5);
  int placed = 0, gangs = 0;
  for (int i = 0; i < 6000; ++i) {
    const Cluster c = RandomCluster(rng, rng.Chance(1, 2) ? 0 : 250);
    const Shape s = RandomShape(rng);
    const auto free = [&](const Node& n) {
      return n.health == NodeHealth::kUp && n.free() >= s.gpus;
    };
    std::vector<NodeId> nodes;
    const bool found = PlaceFree(c, s, NoNodeScore{}, kNoNode, nodes);
    ASSERT_EQ(found, Possible(c, s, free)) << i;
    ASSERT_EQ(EverFits(c, s), Possible(c, s, [&](const Node& n) { return n.gpus >= s.gpus; })) << i;
    if (!found) {
      EXPECT_TRUE(nodes.empty());
      continue;
    }
    ++placed;
    gangs += s.nodes > 1;
    ASSERT_EQ(nodes.size(), static_cast<std::size_t>(s.nodes));
    ASSERT_EQ(std::set<NodeId>(nodes.begin(), nodes.end()).size(), nodes.size());
    std::set<GpuTypeId> types;
    std::set<DomainId> domains;
    for (NodeId n : nodes) {
      ASSERT_TRUE(free(c.node(n)) && (!c.node(n).lane || s.lane)) << i;
      types.insert(c.node(n).type);
      domains.insert(DomainAt(c, n, LevelOf(c, s)));
    }
    ASSERT_EQ(types.size(), 1u);
    const auto candidates = Candidates(c, s, free);
    if (s.nodes == 1) {
      // Tightest fit; the lane is the last resort.
      const Node& chosen = c.node(nodes[0]);
      for (const auto& [type, list] : candidates) {
        for (NodeId n : list) {
          if (c.node(n).lane && !chosen.lane) continue;
          if (!c.node(n).lane && chosen.lane && c.node(n).type == chosen.type) {
            FAIL() << i << ": the lane is used although another node has room";
          }
          if (c.node(n).lane == chosen.lane) {
            EXPECT_GE(c.node(n).free(), chosen.free()) << i;
          }
        }
      }
      continue;
    }
    // Inside one domain of the level: the one with the fewest nodes that would do.
    std::map<DomainId, std::int32_t> able;
    for (NodeId n : candidates.at(*types.begin())) ++able[DomainAt(c, n, LevelOf(c, s))];
    able.erase(DomainId(999));
    std::int32_t smallest = 0;
    for (const auto& [d, n] : able) {
      if (n >= s.nodes && (smallest == 0 || n < smallest)) smallest = n;
    }
    if (smallest > 0) {
      ASSERT_EQ(domains.size(), 1u) << i;
      EXPECT_EQ(able[*domains.begin()], smallest) << i;
    } else {
      ASSERT_EQ(s.rule, TopologyRule::kPreferred);
      // Spread over as few domains as possible inside the deepest domain that holds it.
      for (int level = LevelOf(c, s) - 1; level >= 0; --level) {
        const DomainId within = DomainAt(c, nodes[0], level);
        if (within == DomainId(999) || !std::all_of(nodes.begin(), nodes.end(), [&](NodeId n) {
              return DomainAt(c, n, level) == within;
            })) {
          continue;
        }
        const int fewest = FewestDomains(c, s, *types.begin(), level, within);
        if (fewest > 0 && domains.count(DomainId(999)) == 0) {
          EXPECT_EQ(static_cast<int>(domains.size()), fewest) << i;
        }
        break;
      }
    }
  }
  EXPECT_GT(placed, 1000);
  EXPECT_GT(gangs, 200);
}

// Where a gang goes, domain by domain: the first domain with the fewest nodes that hold it; else
// the deepest domain that does, in parts, largest first.
std::vector<NodeId> GangByScan(const Cluster& c, const Shape& s, const Pool& pool) {
  const auto free_in = [&](DomainId d) {
    std::vector<NodeId> nodes;
    for (std::int32_t g = s.gpus; g <= 8; ++g) {
      for (NodeId id : pool.nodes) {
        const Node& n = c.node(id);
        if (!n.lane && n.up() && n.free() == g && DomainAt(c, id, c.level(d)) == d) {
          nodes.push_back(id);
        }
      }
    }
    return nodes;
  };
  const auto k = static_cast<std::size_t>(s.nodes);
  for (int level = LevelOf(c, s); level >= 0; --level) {
    std::vector<NodeId> best;
    DomainId chosen = kRootDomain;
    for (DomainId d : c.DomainsAt(static_cast<std::uint8_t>(level))) {
      const std::vector<NodeId> nodes = free_in(d);
      if (nodes.size() < k || (!best.empty() && nodes.size() >= best.size())) continue;
      best = nodes;
      chosen = d;
    }
    if (best.empty() && s.rule == TopologyRule::kRequired) return {};
    if (best.empty()) continue;
    std::vector<std::vector<NodeId>> parts;
    std::size_t covered = 0;
    for (DomainId d : c.DomainsAt(static_cast<std::uint8_t>(LevelOf(c, s)))) {
      std::vector<NodeId> nodes = free_in(d);
      if (nodes.empty() || DomainAt(c, nodes[0], level) != chosen) continue;
      covered += nodes.size();
      parts.push_back(std::move(nodes));
    }
    if (level == LevelOf(c, s) || covered < best.size()) {
      best.resize(k);
      return best;
    }
    std::stable_sort(parts.begin(), parts.end(),
                     [](const auto& a, const auto& b) { return a.size() > b.size(); });
    std::vector<NodeId> result;
    for (std::size_t i = 0; result.size() < k; ++i) {
      const std::size_t left = k - result.size();
      std::size_t pick = i;
      while (parts[i].size() >= left && pick + 1 < parts.size() && parts[pick + 1].size() >= left) {
        ++pick;
      }
      const std::size_t take = std::min(left, parts[pick].size());
      result.insert(result.end(), parts[pick].begin(),
                    parts[pick].begin() + static_cast<std::ptrdiff_t>(take));
    }
    return result;
  }
  return {};
}

TEST(Placement, GangsGoWhereAScanOfAllDomainsPutsThem) {
  sim::Rng rng(9);
  int gangs = 0, spread = 0;
  for (int i = 0; i < 6000; ++i) {
    const Cluster c = RandomCluster(rng, rng.Chance(1, 2) ? 0 : 250);
    Shape s = RandomShape(rng);
    if (s.nodes == 1) continue;
    s.lane = false;
    for (const Pool& pool : c.pools()) {
      s.type = pool.type;
      const std::vector<NodeId> expected = GangByScan(c, s, pool);
      std::vector<NodeId> nodes;
      ASSERT_EQ(PlaceFree(c, s, NoNodeScore{}, kNoNode, nodes), !expected.empty()) << i;
      ASSERT_EQ(nodes, expected) << i;
      gangs += !nodes.empty();
      std::set<DomainId> domains;
      for (NodeId n : nodes) domains.insert(DomainAt(c, n, LevelOf(c, s)));
      spread += domains.size() > 1;
    }
  }
  EXPECT_GT(gangs, 300);
  EXPECT_GT(spread, 60);
}

// What `Dominates` promises: where the smaller finds no place, the larger finds none.
// More domains than a block has, compared with the rule as it is written.
TEST(Placement, SpreadsOverTheFewestDomains) {
  sim::Rng rng(31);
  for (int world = 0; world < 2'000; ++world) {
    std::vector<std::int32_t> counts(static_cast<std::size_t>(1 + rng.Below(150)));
    std::int64_t all = 0;
    const std::int64_t most = 1 + rng.Below(20);
    for (std::int32_t& n : counts) all += n = static_cast<std::int32_t>(rng.Below(most + 1));
    if (all == 0) continue;
    const auto k = static_cast<std::int32_t>(1 + rng.Below(all));
    std::vector<std::pair<std::size_t, std::int32_t>> taken, expected;
    internal::Spread(counts, k, [&](std::size_t i, std::int64_t n) {
      taken.emplace_back(i, static_cast<std::int32_t>(n));
    });
    std::vector<std::size_t> order(counts.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return counts[a] > counts[b]; });
    std::int32_t left = k;
    std::size_t next = 0;
    while (counts[order[next]] < left) {
      expected.emplace_back(order[next], counts[order[next]]);
      left -= counts[order[next++]];
    }
    std::size_t last = order[next];
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] >= left && counts[i] <= counts[last]) last = i;
    }
    expected.emplace_back(last, left);
    ASSERT_EQ(taken, expected) << "world " << world;
    const auto at = internal::SmallestFrom(counts, k);
    const auto fits = [&](std::int32_t n) { return n >= k; };
    ASSERT_EQ(at >= 0, std::any_of(counts.begin(), counts.end(), fits));
    for (std::size_t i = 0; at >= 0 && i < counts.size(); ++i) {
      if (!fits(counts[i])) continue;
      const std::int32_t best = counts[static_cast<std::size_t>(at)];
      ASSERT_TRUE(best < counts[i] || (best == counts[i] && at <= static_cast<std::int64_t>(i)));
    }
  }
}

TEST(Placement, AShapeFailsWithWhatItDominates) {
  sim::Rng rng(6);
  int dominated = 0;
  for (int i = 0; i < 4000; ++i) {
    const Cluster c = RandomCluster(rng, rng.Chance(1, 2) ? 0 : 250);
    for (int pair = 0; pair < 10; ++pair) {
      const Shape a = RandomShape(rng), b = RandomShape(rng);
      if (!a.Dominates(b)) continue;
      ++dominated;
      std::vector<NodeId> nodes;
      if (PlaceFree(c, b, NoNodeScore{}, kNoNode, nodes)) continue;
      ASSERT_FALSE(PlaceFree(c, a, NoNodeScore{}, kNoNode, nodes)) << i;
    }
  }
  EXPECT_GT(dominated, 1000);
}

TEST(Placement, AvoidsTheNodeThatRefused) {
  Cluster c;
  const GpuTypeId type = c.InternGpuType("t");
  const NodeId tight = c.AddNode("a", GpuCount(1), type).value();
  const NodeId other = c.AddNode("b", GpuCount(8), type).value();
  c.Reindex();
  Shape s;
  std::vector<NodeId> nodes;
  ASSERT_TRUE(PlaceFree(c, s, NoNodeScore{}, kNoNode, nodes));
  EXPECT_EQ(nodes, std::vector<NodeId>{tight});
  nodes.clear();
  ASSERT_TRUE(PlaceFree(c, s, NoNodeScore{}, tight, nodes));
  EXPECT_EQ(nodes, std::vector<NodeId>{other});
}

TEST(Placement, SessionsArePackedTogether) {
  Cluster c;
  const GpuTypeId type = c.InternGpuType("t");
  (void)c.AddNode("a", GpuCount(2), type).value();
  const NodeId sessions = c.AddNode("b", GpuCount(8), type).value();
  c.Occupy(sessions, 1, 1, true);
  c.Reindex();
  Shape s;
  s.workload_class = WorkloadClass::kInteractive;
  std::vector<NodeId> nodes;
  ASSERT_TRUE(PlaceFree(c, s, NoNodeScore{}, kNoNode, nodes));
  EXPECT_EQ(nodes, std::vector<NodeId>{sessions});
}

struct HighestId {
  static constexpr bool kNone = false;
  std::int64_t operator()(const Node& n) const { return static_cast<std::int64_t>(n.slot); }
};

TEST(Placement, AScoreDecidesBetweenNodesThatFit) {
  Cluster c;
  const GpuTypeId type = c.InternGpuType("t");
  for (const char* name : {"a", "b", "c"}) (void)c.AddNode(name, GpuCount(8), type).value();
  c.Occupy(NodeId(2), 1, 8, false);
  c.Reindex();
  Shape s;
  std::vector<NodeId> nodes;
  ASSERT_TRUE(PlaceFree(c, s, HighestId{}, kNoNode, nodes));
  EXPECT_EQ(nodes, std::vector<NodeId>{NodeId(1)});
}

}  // namespace
}  // namespace tenure
