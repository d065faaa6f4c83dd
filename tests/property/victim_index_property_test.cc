// SPDX-License-Identifier: Apache-2.0
//
// The indices of the victim search against scans of everything: which runs may be stopped at all,
// what every node could yield to a request, and whom it chooses.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "law_checker.h"
#include "random_events.h"
#include "random_world.h"
#include "tenure/policy.h"
#include "tenure/preemption.h"
#include "tenure/presets.h"
#include "tenure/scheduler.h"
#include "tenure/stoppable_runs.h"
#include "tenure/yield_survey.h"

namespace tenure::test {
namespace {

bool Stoppable(const Run& run, TimePoint now) {
  return run.state == WorkloadState::kRunning && (!run.funded || run.protected_until <= now);
}

// What the groups hold, by slot: each run once, in the group that describes it as of `at`.
template <class Policy>
std::vector<bool> Grouped(const Scheduler<Policy>& s, TimePoint at) {
  std::vector<bool> grouped(s.table().slots(), false);
  const auto stirred = s.stoppable().stirred();
  for (std::uint32_t g : s.stoppable().occupied()) {
    const StoppableRuns::Group& group = s.stoppable().group(g);
    EXPECT_FALSE(group.members.empty());
    EXPECT_EQ(std::count(stirred.begin(), stirred.end(), g), !group.quiet || group.idle);
    for (const StoppableRuns::Member& m : group.members) {
      const Run& run = s.table().run(m.slot);
      const auto& nodes = s.table().workload(m.slot).nodes;
      EXPECT_FALSE(grouped[m.slot]);
      grouped[m.slot] = true;
      EXPECT_EQ(group.leaf, run.leaf);
      EXPECT_EQ(group.funded, run.funded);
      const bool session = run.funded && run.workload_class == WorkloadClass::kInteractive;
      EXPECT_EQ(group.session, session);
      EXPECT_EQ(group.idle, session && run.idle);
      EXPECT_EQ(group.lane, std::any_of(nodes.begin(), nodes.end(),
                                        [&](NodeId n) { return s.cluster().node(n).lane; }));
      // Between passes time may have ended quiet times that nobody has looked at yet.
      const TimePoint end = s.policy().QuietUntil(run);
      EXPECT_TRUE(!group.quiet || at < end);
      EXPECT_TRUE(group.quiet || !run.funded || end <= s.now());
      EXPECT_EQ(m.node, nodes.size() == 1 ? nodes[0] : kNoNode);
      EXPECT_EQ(m.gpus, run.gpus_per_node);
    }
  }
  return grouped;
}

template <class Policy>
void CheckStoppable(const std::string& preset, std::uint64_t first, std::uint64_t worlds) {
  std::int64_t seen = 0;
  for (std::uint64_t seed = first; seed < first + worlds; ++seed) {
    sim::Rng rng(seed, 1);
    LawChecker<Policy> checker(RandomWorld(rng, MakePreset(preset).scheduler));
    RandomEvents events(sim::Rng(seed, 2));
    TimePoint last_pass{Duration::min()};
    for (int i = 0; i < 120; ++i) {
      const Event e = events.Next(checker.model());
      ASSERT_EQ(checker.Step(e), "") << preset << " seed " << seed << " event " << i;
      const Scheduler<Policy>& s = checker.instance().scheduler();
      if (e.kind == Event::Kind::kDecide && checker.last().code == absl::StatusCode::kOk) {
        last_pass = s.now();
      }
      const std::vector<bool> grouped = Grouped(s, last_pass);
      for (RunSlot slot = 0; slot < s.table().slots(); ++slot) {
        const Run& run = s.table().run(slot);
        // Between passes time may have ended protections that nobody has looked at yet.
        ASSERT_TRUE(!grouped[slot] || Stoppable(run, s.now())) << seed << " event " << i;
        ASSERT_TRUE(grouped[slot] || !Stoppable(run, last_pass)) << seed << " event " << i;
        seen += grouped[slot];
      }
    }
  }
  EXPECT_GT(seen, 1000);
}

TEST(StoppableRuns, FollowEveryEventUnderBudget) {
  CheckStoppable<BudgetPolicy>("budget", 700'001, Worlds(150));
}
TEST(StoppableRuns, FollowEveryEventUnderAi2) {
  CheckStoppable<Ai2Policy>("ai2", 800'001, Worlds(50));
}

// A cluster in an arbitrary state, built without the Scheduler.
struct Scene {
  BudgetTree tree;
  std::vector<AllocationId> leaves;
  Cluster cluster;
  WorkloadTable table;
  Ledger ledger;
  Ranking ranking;
  TimePoint now{std::chrono::hours(100)};

  explicit Scene(sim::Rng& rng) {
    for (std::int64_t p = 1 + rng.Below(3); p > 0; --p) {
      const AllocationId program = tree.Add(absl::StrCat("p", p), kRootAllocation,
                                            Weight{static_cast<double>(1 + rng.Below(3))})
                                       .value();
      for (std::int64_t l = 1 + rng.Below(3); l > 0; --l) {
        leaves.push_back(
            tree.Add(absl::StrCat("l", l), program, Weight{static_cast<double>(1 + rng.Below(3))})
                .value());
      }
    }
    ledger.Open(tree);
    const GpuTypeId types[] = {cluster.InternGpuType("a"), cluster.InternGpuType("b")};
    std::vector<DomainId> racks;
    for (int r = 0; r < 3; ++r) {
      racks.push_back(cluster.AddDomain(absl::StrCat("r", r), kRootDomain).value());
    }
    for (std::int64_t n = 3 + rng.Below(20); n > 0; --n) {
      EXPECT_TRUE(cluster
                      .AddNode(absl::StrCat("n", n), GpuCount(4 << rng.Below(2)),
                               types[rng.Below(2)], racks[static_cast<std::size_t>(rng.Below(3))])
                      .ok());
    }
    cluster.SetLane(rng.Chance(1, 2) ? 200 : 0);
    cluster.Reindex();
    for (std::uint64_t id = 1; id <= 60; ++id) AddRun(rng, id);
    for (std::uint32_t n = 0; n < cluster.size(); ++n) {
      if (rng.Chance(1, 8)) cluster.SetHealth(NodeId(n), NodeHealth::kDraining);
      if (rng.Chance(1, 6)) cluster.Reserve(NodeId(n), 0, now + std::chrono::hours(rng.Below(9)));
      const std::int32_t soon = cluster.node(NodeId(n)).soon();
      if (soon > 0 && rng.Chance(1, 4)) {
        cluster.Claim(NodeId(n), 1, static_cast<std::int32_t>(1 + rng.Below(soon)));
      }
    }
    for (AllocationId leaf : leaves) ledger.AddQueued(tree, leaf, GpuCount(rng.Below(60)));
    ranking.Refresh(tree, ledger, cluster.healthy(), now,
                    [](AllocationId, GpuTime used, MilliGpu entitlement) {
                      return internal::HoursOfShare(used, entitlement);
                    });
  }

  void AddRun(sim::Rng& rng, std::uint64_t id) {
    WorkloadSpec w;
    w.id = WorkloadId(id);
    w.allocation = leaves[static_cast<std::size_t>(rng.Below(std::ssize(leaves)))];
    w.gpus_per_node = GpuCount(1 + rng.Below(4));
    w.workload_class = rng.Chance(1, 4) ? WorkloadClass::kInteractive : WorkloadClass::kTraining;
    w.minimum = std::chrono::hours(rng.Below(4));
    w.checkpoint_interval = std::chrono::minutes(rng.Below(90));
    const auto gpus = static_cast<std::int32_t>(w.gpus_per_node.value());
    std::vector<NodeId> nodes;
    const std::size_t wanted = rng.Chance(1, 4) ? 2 : 1;
    for (std::uint32_t n = 0; n < cluster.size() && nodes.size() < wanted; ++n) {
      if (cluster.node(NodeId(n)).free() >= gpus && rng.Chance(1, 4)) nodes.push_back(NodeId(n));
    }
    if (nodes.empty()) return;
    w.nodes = static_cast<std::uint32_t>(nodes.size());
    const TimePoint start = now - std::chrono::minutes(rng.Below(600));
    const RunSlot slot = table.Add(w, start);
    Run& run = table.run(slot);
    table.workload(slot).nodes.assign(nodes.begin(), nodes.end());
    const std::int64_t state = rng.Below(8);
    run.state = state == 0   ? WorkloadState::kStarting
                : state == 1 ? WorkloadState::kStopping
                             : WorkloadState::kRunning;
    run.start = run.progress_since = start;
    run.protected_until = start + w.minimum;
    run.stops = static_cast<std::uint32_t>(rng.Below(4));
    run.idle = run.workload_class == WorkloadClass::kInteractive && rng.Chance(1, 3);
    const bool session = run.funded && run.workload_class == WorkloadClass::kInteractive;
    for (NodeId n : nodes) {
      cluster.Occupy(n, slot, gpus, session);
      if (run.state == WorkloadState::kStopping) cluster.MarkStopping(n, gpus);
    }
    if (!run.funded) return;
    ledger.Charge(tree, run.leaf, start, run.gpus());
    ledger.AddPlaced(tree, run.leaf, run.gpus());
    if (session) ledger.AddSessions(tree, run.leaf, run.charge());
  }
};

template <class Policy>
void CheckSurvey(const Policy& policy, const VictimEnv& env, const Requester& requester,
                 YieldSurvey& survey, std::int64_t& found) {
  survey.Measure(env, policy, requester);
  std::vector<std::uint32_t> slots, expected;
  for (std::size_t p = 0; p < env.cluster.pools().size(); ++p) {
    const Pool& pool = env.cluster.pools()[p];
    for (std::int32_t gpus = 1; gpus <= 9; ++gpus) {
      for (const bool with_lane : {false, true}) {
        expected.clear();
        for (NodeId id : pool.nodes) {
          const Node& node = env.cluster.node(id);
          std::int32_t yield = node.soon();
          for (const Occupant& o : node.runs) {
            const Run& run = env.table.run(o.run);
            if (env.MayStop(policy, requester, run, node.lane, MilliGpu(0))) yield += o.gpus;
          }
          if (!node.up() || (node.lane && !with_lane) || yield < gpus) continue;
          expected.push_back(node.slot);
        }
        survey.Candidates(env.cluster, p, gpus, with_lane, slots);
        ASSERT_EQ(slots, expected);
        ASSERT_EQ(survey.NodesWith(env.cluster, p, gpus, with_lane), std::ssize(expected));
        found += std::ssize(expected);
      }
    }
  }
}

// The scan asks MayPreempt for every run, so that JudgeGroup and QuietUntil are checked, too.
TEST(YieldSurvey, FindsWhatAScanOfAllNodesFinds) {
  sim::Rng rng(21);
  YieldSurvey survey;  // one for all: nothing may be left over from an earlier scene
  std::int64_t found = 0;
  for (int i = 0; i < 400; ++i) {
    const Scene scene(rng);
    const PolicyContext context{scene.tree, scene.ranking, scene.now};
    BudgetOptions options;
    options.big_gap = std::chrono::minutes(rng.Below(3) * 60);
    options.quantum = std::chrono::minutes(rng.Below(60));
    options.session_permille = rng.Below(300);
    const BudgetPolicy budget(options);
    const Ai2Policy ai2;
    StoppableRuns for_budget, for_ai2;
    for_budget.Rebuild(budget, scene.cluster, scene.table, scene.now);
    for_ai2.Rebuild(ai2, scene.cluster, scene.table, scene.now);
    for (int asks = 0; asks < 6; ++asks) {
      Requester requester;
      requester.leaf = scene.leaves[static_cast<std::size_t>(rng.Below(std::ssize(scene.leaves)))];
      requester.tier = static_cast<int>(1 + rng.Below(2));
      if (rng.Chance(1, 2)) requester.leaf_charge = scene.ledger.placed_charge(requester.leaf);
      if (rng.Chance(1, 3)) requester.workload_class = WorkloadClass::kDebug;
      const bool funded_stops = rng.Chance(3, 4);
      const auto check = [&](const auto& policy, const StoppableRuns& stoppable) {
        const VictimEnv env{scene.cluster, scene.table,  scene.ledger, stoppable,
                            context,       Duration(10), funded_stops};
        CheckSurvey(policy, env, requester, survey, found);
      };
      check(budget, for_budget);
      check(ai2, for_ai2);
      if (HasFatalFailure()) FAIL() << "scene " << i;
    }
  }
  EXPECT_GT(found, 100'000);
}

// The search for victims with nothing remembered and every node evaluated anew for every choice.
template <class Policy>
class SearchByScan {
 public:
  SearchByScan(const VictimEnv& env, const Policy& policy, const Requester& requester,
               const Shape& shape)
      : env_(env), policy_(policy), requester_(requester), shape_(shape) {}

  bool Find(Plan& plan) {
    plan.Clear();
    std::int64_t best = -1;
    for (const Pool& pool : env_.cluster.pools()) {
      if (shape_.type != kAnyGpuType && shape_.type != pool.type) continue;
      if (shape_.nodes > 1 && best >= 0) continue;
      const bool required = shape_.nodes > 1 && shape_.rule == TopologyRule::kRequired;
      const std::uint8_t level = required ? internal::EffectiveLevel(env_.cluster, shape_) : 0;
      for (DomainId d : env_.cluster.DomainsAt(level)) Choose(pool, d, best, plan);
    }
    return best >= 0;
  }

 private:
  void Choose(const Pool& pool, DomainId domain, std::int64_t& best, Plan& plan) {
    chosen_.clear();
    taken_.clear();
    std::vector<std::pair<std::int64_t, NodeId>> able;
    for (std::uint32_t s = pool.range[domain.value()].first; s < pool.range[domain.value()].second;
         ++s) {
      const Node& n = env_.cluster.node(pool.nodes[s]);
      if (!n.up() || (n.lane && !shape_.lane) ||
          !n.Admits(shape_.EndsBy(env_.policy.now + env_.wait), shape_.stays())) {
        continue;
      }
      // Where stopping the cheapest one first fails, it may succeed once others have been chosen.
      const std::int64_t cost = Evaluate(n, shape_.nodes);
      if (Yield(n) < shape_.gpus) continue;
      able.emplace_back(cost < 0 ? std::numeric_limits<std::int64_t>::max() : cost, pool.nodes[s]);
    }
    std::stable_sort(able.begin(), able.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<NodeId> nodes;
    std::vector<RunSlot> victims;
    std::int64_t total = 0;
    for (std::int32_t remaining = shape_.nodes; remaining > 0; --remaining) {
      std::int64_t least = -1;
      NodeId pick = kNoNode;
      for (const auto& [alone, id] : able) {
        if (std::count(nodes.begin(), nodes.end(), id) > 0) continue;
        const std::int64_t cost = Evaluate(env_.cluster.node(id), remaining);
        if (cost < 0 || (least >= 0 && cost >= least)) continue;
        least = cost;
        pick = id;
      }
      if (least < 0) return;
      Evaluate(env_.cluster.node(pick), remaining);
      for (const auto& [cost, slot, gpus] : picked_) {
        const Run& run = env_.table.run(slot);
        chosen_.insert(slot);
        victims.push_back(slot);
        if (run.funded) taken_[run.leaf] += run.charge();
      }
      nodes.push_back(pick);
      total += least;
    }
    if (best >= 0 && total >= best) return;
    best = total;
    plan.nodes = nodes;
    plan.victims = Needed(nodes, victims);
  }

  // Without those that later choices made unnecessary, dearest first.
  std::vector<RunSlot> Needed(const std::vector<NodeId>& nodes, std::vector<RunSlot> victims) {
    std::vector<RunSlot> order = victims;
    std::sort(order.begin(), order.end(), [&](RunSlot a, RunSlot b) {
      const std::int64_t x = policy_.VictimCost(env_.policy, env_.table.run(a));
      const std::int64_t y = policy_.VictimCost(env_.policy, env_.table.run(b));
      return x != y ? x > y : env_.table.run(a).id > env_.table.run(b).id;
    });
    for (RunSlot v : order) {
      chosen_.erase(v);
      const bool fits = std::all_of(nodes.begin(), nodes.end(), [&](NodeId id) {
        std::int32_t available = env_.cluster.node(id).soon();
        for (const Occupant& o : env_.cluster.node(id).runs) {
          if (chosen_.count(o.run) > 0) available += o.gpus;
        }
        return available >= shape_.gpus;
      });
      if (fits) {
        victims.erase(std::find(victims.begin(), victims.end(), v));
      } else {
        chosen_.insert(v);
      }
    }
    return victims;
  }

  std::int32_t Yield(const Node& node) const {
    std::int32_t yield = node.soon();
    for (const Occupant& o : node.runs) {
      const Run& run = env_.table.run(o.run);
      if (env_.MayStop(policy_, requester_, run, node.lane, MilliGpu(0))) yield += o.gpus;
    }
    return yield;
  }

  std::int64_t Evaluate(const Node& node, std::int32_t remaining) {
    picked_.clear();
    std::map<AllocationId, MilliGpu> taken = taken_;
    const auto may_stop = [&](const Run& run) {
      return env_.MayStop(policy_, requester_, run, node.lane, taken[run.leaf]);
    };
    std::int32_t available = node.soon();
    std::vector<std::tuple<std::int64_t, WorkloadId, RunSlot, std::int32_t>> candidates;
    for (const Occupant& o : node.runs) {
      const Run& run = env_.table.run(o.run);
      if (chosen_.count(o.run) > 0) {
        available += o.gpus;
      } else if (may_stop(run)) {
        candidates.emplace_back(
            policy_.VictimCost(env_.policy, run) / std::max(1, std::min(run.node_count, remaining)),
            run.id, o.run, o.gpus);
      }
    }
    std::sort(candidates.begin(), candidates.end());
    std::int64_t total = 0;
    for (const auto& [cost, id, slot, gpus] : candidates) {
      const Run& run = env_.table.run(slot);
      if (available >= shape_.gpus) break;
      if (!may_stop(run)) continue;
      if (run.funded) taken[run.leaf] += run.charge();
      picked_.emplace_back(cost, slot, gpus);
      available += gpus;
      total += cost;
    }
    if (available < shape_.gpus) return -1;
    for (std::size_t i = picked_.size(); i-- > 0;) {
      const auto [cost, slot, gpus] = picked_[i];
      if (available - gpus < shape_.gpus) continue;
      available -= gpus;
      total -= cost;
      picked_.erase(picked_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return total;
  }

  const VictimEnv& env_;
  const Policy& policy_;
  const Requester& requester_;
  const Shape& shape_;
  std::set<RunSlot> chosen_;
  std::map<AllocationId, MilliGpu> taken_;
  std::vector<std::tuple<std::int64_t, RunSlot, std::int32_t>> picked_;
};

TEST(VictimSearch, ChoosesWhatAScanChooses) {
  sim::Rng rng(22);
  VictimSearch search;
  int plans = 0, gangs = 0, victims = 0;
  for (int i = 0; i < 1500; ++i) {
    Scene scene(rng);
    const PolicyContext context{scene.tree, scene.ranking, scene.now};
    BudgetOptions options;
    options.big_gap = std::chrono::minutes(rng.Below(3) * 30);
    options.quantum = std::chrono::minutes(rng.Below(60));
    options.session_permille = rng.Below(100);
    const BudgetPolicy policy(options);
    StoppableRuns stoppable;
    stoppable.Rebuild(policy, scene.cluster, scene.table, scene.now);
    const VictimEnv env{scene.cluster, scene.table,  scene.ledger, stoppable,
                        context,       Duration(10), true};
    search.BeginPass();
    for (int asks = 0; asks < 12; ++asks) {
      Shape shape;
      shape.gpus = static_cast<std::int32_t>(1 + rng.Below(4));
      shape.nodes = rng.Chance(1, 2) ? 1 : static_cast<std::int32_t>(2 + rng.Below(4));
      if (shape.nodes > 1 && rng.Chance(1, 2)) shape.rule = TopologyRule::kRequired;
      shape.lane = shape.nodes == 1 && rng.Chance(1, 2);
      shape.band = static_cast<std::uint8_t>(rng.Below(4));
      Requester requester;
      requester.leaf = scene.leaves[static_cast<std::size_t>(rng.Below(std::ssize(scene.leaves)))];
      requester.tier = static_cast<int>(1 + rng.Below(2));
      if (rng.Chance(1, 2)) requester.leaf_charge = scene.ledger.placed_charge(requester.leaf);
      if (rng.Chance(1, 4)) requester.workload_class = WorkloadClass::kDebug;
      shape.workload_class = requester.workload_class;
      Plan plan, expected;
      search.BeginRound();
      const bool found = search.Find(env, policy, requester, shape, kNoNode, plan);
      ASSERT_EQ(found, SearchByScan(env, policy, requester, shape).Find(expected)) << i;
      ASSERT_EQ(plan.nodes, expected.nodes) << i;
      ASSERT_EQ(plan.victims, expected.victims) << i;
      plans += found;
      gangs += found && shape.nodes > 1;
      victims += static_cast<int>(plan.victims.size());
      // Carried out, as in a pass.
      if (!found || rng.Chance(1, 4)) continue;
      for (RunSlot v : plan.victims) {
        tenure::Run& run = scene.table.run(v);
        run.state = WorkloadState::kStopping;
        stoppable.Update(policy, scene.cluster, scene.table, v, scene.now);
        for (NodeId n : scene.table.workload(v).nodes) {
          scene.cluster.MarkStopping(n, run.gpus_per_node);
        }
        if (run.funded) {
          scene.ledger.AddPlaced(scene.tree, run.leaf, GpuCount(-run.gpus().value()));
        }
      }
      for (NodeId n : plan.nodes) scene.cluster.Claim(n, 0, shape.gpus);
    }
  }
  EXPECT_GT(plans, 1000);
  EXPECT_GT(gangs, 200);
  EXPECT_GT(victims, 1000);
}

}  // namespace
}  // namespace tenure::test
