// SPDX-License-Identifier: Apache-2.0
#include "tenure/preemption.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tenure/sim/random.h"

namespace tenure {
namespace {

// Runs of workloads with an id divisible by 3 stay; the others cost their restart overhead.
struct ByNumber : PolicyDefaults {
  bool MayPreempt(const PolicyContext&, const Requester&, const Victim& v) const {
    return v.run.id.value() % 3 != 0;
  }
  std::int64_t VictimCost(const PolicyContext&, const Run& run) const {
    return run.restart_overhead.count();
  }
};

struct World {
  Cluster cluster;
  WorkloadTable table;
  BudgetTree tree;
  Ledger ledger;
  Ranking ranking;
  std::vector<RunSlot> runs;

  RunSlot Add(std::uint64_t id, std::int32_t gpus, const std::vector<NodeId>& nodes,
              std::int64_t cost) {
    WorkloadSpec spec;
    spec.id = WorkloadId(id);
    spec.nodes = static_cast<std::uint32_t>(nodes.size());
    spec.gpus_per_node = GpuCount(gpus);
    spec.minimum = std::chrono::hours(1);
    spec.restart_overhead = Duration(cost);
    spec.allocation = AllocationId(1);
    const RunSlot slot = table.Add(spec, TimePoint());
    table.run(slot).state = WorkloadState::kRunning;
    table.workload(slot).nodes.assign(nodes.begin(), nodes.end());
    for (NodeId n : nodes) cluster.Occupy(n, slot, gpus, false);
    runs.push_back(slot);
    return slot;
  }
};

World RandomWorld(sim::Rng& rng) {
  World w;
  EXPECT_TRUE(w.tree.Add("team", kRootAllocation, Weight{1}).ok());
  w.ledger.Open(w.tree);
  const GpuTypeId type = w.cluster.InternGpuType("t");
  std::vector<DomainId> racks;
  for (std::int64_t i = 1 + rng.Below(2); i > 0; --i) {
    racks.push_back(w.cluster.AddDomain(absl::StrCat("r", i), kRootDomain).value());
  }
  const std::int64_t nodes = 1 + rng.Below(4);
  for (std::int64_t i = 0; i < nodes; ++i) {
    (void)w.cluster
        .AddNode(
            absl::StrCat("n", i), GpuCount(8), type,
            racks[static_cast<std::size_t>(rng.Below(static_cast<std::int64_t>(racks.size())))])
        .value();
  }
  w.cluster.Reindex();
  for (std::uint64_t id = 1; id <= 10; ++id) {
    std::vector<NodeId> on;
    const auto gpus = static_cast<std::int32_t>(1 + rng.Below(4));
    const std::int64_t wanted = rng.Chance(2, 3) ? 1 : 1 + rng.Below(3);
    for (std::uint32_t n = 0; n < nodes; ++n) {
      const Node& node = w.cluster.node(NodeId(n));
      if (static_cast<std::int64_t>(on.size()) < wanted && node.gpus - node.occupied >= gpus &&
          rng.Chance(1, 2)) {
        on.emplace_back(n);
      }
    }
    if (!on.empty()) w.Add(id, gpus, on, 1 + rng.Below(20));
  }
  return w;
}

StoppableRuns Stoppable(const World& w, TimePoint now) {
  StoppableRuns stoppable;
  stoppable.Rebuild(ByNumber{}, w.cluster, w.table, now);
  return stoppable;
}

bool MayStop(const World& w, RunSlot s) { return w.table.run(s).id.value() % 3 != 0; }

// Whether the nodes named, or any, hold the request once the runs of `set` are gone.
bool Holds(const World& w, const Shape& shape, const std::set<RunSlot>& set,
           const std::vector<NodeId>* named) {
  std::vector<std::int32_t> by_rack(w.cluster.domains(), 0);
  std::int32_t all = 0;
  for (std::uint32_t n = 0; n < w.cluster.size(); ++n) {
    const Node& node = w.cluster.node(NodeId(n));
    std::int32_t left = node.soon();
    for (const Occupant& o : node.runs) left += set.count(o.run) > 0 ? o.gpus : 0;
    const bool in = named == nullptr || std::count(named->begin(), named->end(), NodeId(n)) > 0;
    if (!in || left < shape.gpus) continue;
    ++all;
    ++by_rack[node.domain.value()];
  }
  if (shape.nodes > 1 && shape.rule == TopologyRule::kRequired) {
    return *std::max_element(by_rack.begin() + 1, by_rack.end()) >= shape.nodes;
  }
  return all >= shape.nodes;
}

TEST(VictimSearch, AgreesWithBruteForceAndTakesNobodyNeedlessly) {
  sim::Rng rng(8);
  std::int64_t plans = 0, optimal = 0, cost_found = 0, cost_best = 0;
  VictimSearch search;
  for (int i = 0; i < 4000; ++i) {
    const World w = RandomWorld(rng);
    Shape shape;
    shape.nodes = rng.Chance(1, 2) ? 1 : static_cast<std::int32_t>(2 + rng.Below(3));
    shape.gpus = static_cast<std::int32_t>(1 + rng.Below(8));
    if (shape.nodes > 1 && rng.Chance(1, 2)) shape.rule = TopologyRule::kRequired;
    const PolicyContext context{w.tree, w.ranking, TimePoint(std::chrono::hours(10))};
    const StoppableRuns stoppable = Stoppable(w, context.now);
    const VictimEnv env{w.cluster, w.table, w.ledger, stoppable, context};
    Requester requester;
    requester.leaf = AllocationId(1);
    Plan plan;
    search.BeginRound();
    const bool found = search.Find(env, ByNumber{}, requester, shape, kNoNode, plan);

    std::int64_t best = -1;
    for (std::uint32_t bits = 0; bits < (1u << w.runs.size()); ++bits) {
      std::set<RunSlot> set;
      std::int64_t cost = 0;
      bool allowed = true;
      for (std::size_t r = 0; r < w.runs.size(); ++r) {
        if ((bits >> r & 1) == 0) continue;
        allowed = allowed && MayStop(w, w.runs[r]);
        set.insert(w.runs[r]);
        cost += w.table.run(w.runs[r]).restart_overhead.count();
      }
      if (!allowed || (best >= 0 && cost >= best)) continue;
      if (Holds(w, shape, set, nullptr)) best = cost;
    }
    ASSERT_EQ(found, best >= 0) << i;
    if (!found) {
      EXPECT_TRUE(plan.victims.empty() && plan.nodes.empty());
      continue;
    }
    ++plans;
    const std::set<RunSlot> victims(plan.victims.begin(), plan.victims.end());
    ASSERT_EQ(victims.size(), plan.victims.size()) << i;
    ASSERT_EQ(plan.nodes.size(), static_cast<std::size_t>(shape.nodes));
    ASSERT_TRUE(Holds(w, shape, victims, &plan.nodes)) << i;
    std::int64_t cost = 0;
    for (RunSlot v : plan.victims) {
      ASSERT_TRUE(MayStop(w, v)) << i;
      std::set<RunSlot> fewer = victims;
      fewer.erase(v);
      ASSERT_FALSE(Holds(w, shape, fewer, &plan.nodes)) << i << ": needless victim";
      cost += w.table.run(v).restart_overhead.count();
    }
    ASSERT_GE(cost, best);
    cost_found += cost;
    cost_best += best;
    optimal += cost == best;
  }
  // A heuristic, but a good one.
  RecordProperty("plans", static_cast<int>(plans));
  RecordProperty("optimal", static_cast<int>(optimal));
  EXPECT_GT(plans, 1500);
  EXPECT_GT(optimal * 100, plans * 80) << optimal << " of " << plans;
  EXPECT_LT(cost_found * 100, cost_best * 115) << cost_found << " against " << cost_best;
}

TEST(VictimSearch, ARunOverSeveralNodesIsPaidOnce) {
  World w;
  EXPECT_TRUE(w.tree.Add("team", kRootAllocation, Weight{1}).ok());
  w.ledger.Open(w.tree);
  const GpuTypeId type = w.cluster.InternGpuType("t");
  std::vector<NodeId> n;
  for (int i = 0; i < 4; ++i) {
    n.push_back(w.cluster.AddNode(absl::StrCat("n", i), GpuCount(8), type).value());
  }
  w.cluster.Reindex();
  w.Add(1, 8, {n[0]}, 10);
  w.Add(2, 8, {n[1]}, 10);
  const RunSlot gang = w.Add(4, 8, {n[2], n[3]}, 15);
  const PolicyContext context{w.tree, w.ranking, TimePoint(std::chrono::hours(10))};
  Shape shape;
  shape.nodes = 2;
  shape.gpus = 8;
  Plan plan;
  VictimSearch search;
  const StoppableRuns stoppable = Stoppable(w, context.now);
  ASSERT_TRUE(search.Find({w.cluster, w.table, w.ledger, stoppable, context}, ByNumber{},
                          Requester{}, shape, kNoNode, plan));
  EXPECT_EQ(plan.victims, std::vector<RunSlot>{gang});
}

// No leaf is left with less than 20 GPUs; the others cost their restart overhead.
struct KeepsTwenty : ByNumber {
  bool MayPreempt(const PolicyContext& context, const Requester& requester, const Victim& v) const {
    return ByNumber::MayPreempt(context, requester, v) &&
           v.leaf_charge - v.run.charge() >= ToMilli(GpuCount(20));
  }
};

// The cheapest victim on a node, a run over many, exhausts what its leaf may lose, so that the node
// cannot be had on its own; with less left to lose that run is spared and another one suffices.
TEST(VictimSearch, ANodeThatCannotBeHadAloneMayCompleteAGang) {
  World w;
  EXPECT_TRUE(w.tree.Add("team", kRootAllocation, Weight{1}).ok());
  w.ledger.Open(w.tree);
  const GpuTypeId type = w.cluster.InternGpuType("t");
  std::vector<NodeId> n;
  for (int i = 0; i < 5; ++i) {
    n.push_back(w.cluster.AddNode(absl::StrCat("n", i), GpuCount(8), type).value());
  }
  w.cluster.Reindex();
  const RunSlot first = w.Add(1, 4, {n[0]}, 5);
  const RunSlot second = w.Add(2, 4, {n[1]}, 10);
  w.Add(4, 2, {n[1], n[2], n[3], n[4]}, 4);
  for (std::size_t i = 0; i < n.size(); ++i) {
    const Node& node = w.cluster.node(n[i]);
    w.Add(3 * (i + 1), node.gpus - node.occupied, {n[i]}, 1);  // stays
  }
  w.ledger.AddPlaced(w.tree, AllocationId(1), GpuCount(31));
  const PolicyContext context{w.tree, w.ranking, TimePoint(std::chrono::hours(10))};
  Shape shape;
  shape.nodes = 2;
  shape.gpus = 4;
  Plan plan;
  VictimSearch search;
  const StoppableRuns stoppable = Stoppable(w, context.now);
  ASSERT_TRUE(search.Find({w.cluster, w.table, w.ledger, stoppable, context}, KeepsTwenty{},
                          Requester{}, shape, kNoNode, plan));
  EXPECT_EQ(plan.nodes, (std::vector<NodeId>{n[0], n[1]}));
  EXPECT_EQ(plan.victims, (std::vector<RunSlot>{first, second}));
}

TEST(VictimSearch, ProtectedAndUnconfirmedRunsAreNeverTaken) {
  World w;
  EXPECT_TRUE(w.tree.Add("team", kRootAllocation, Weight{1}).ok());
  w.ledger.Open(w.tree);
  const NodeId n = w.cluster.AddNode("n", GpuCount(8), w.cluster.InternGpuType("t")).value();
  w.cluster.Reindex();
  const RunSlot run = w.Add(1, 8, {n}, 1);
  const TimePoint now(std::chrono::hours(10));
  const PolicyContext context{w.tree, w.ranking, now};
  const auto found = [&] {
    Plan plan;
    VictimSearch search;
    const StoppableRuns stoppable = Stoppable(w, now);
    return search.Find({w.cluster, w.table, w.ledger, stoppable, context}, ByNumber{}, Requester{},
                       Shape{}, kNoNode, plan);
  };
  EXPECT_TRUE(found());
  w.table.run(run).protected_until = now + Duration(1);
  EXPECT_FALSE(found());
  w.table.run(run).protected_until = now;
  EXPECT_TRUE(found());
  w.table.run(run).state = WorkloadState::kStarting;
  EXPECT_FALSE(found());
}

}  // namespace
}  // namespace tenure
