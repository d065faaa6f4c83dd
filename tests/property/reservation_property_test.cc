// SPDX-License-Identifier: Apache-2.0
//
// The search for a promised start against a scan of all nodes, in clusters that change.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "law_checker.h"
#include "naive_reservation.h"
#include "random_events.h"
#include "random_world.h"
#include "tenure/policy.h"
#include "tenure/presets.h"
#include "tenure/protection_order.h"
#include "tenure/reservation.h"
#include "tenure/scheduler.h"
#include "tenure/sim/random.h"
#include "tenure/stoppable_runs.h"

namespace tenure::test {
namespace {

using std::chrono::minutes;

// A cluster whose runs, promises, holds and windows change at random, without a Scheduler. Few
// different times and sizes, so that many nodes are equal in something.
class LiveCluster {
 public:
  explicit LiveCluster(sim::Rng& rng) : rng_(rng) {
    for (int i = 0; i < 2; ++i) {
      leaves_.push_back(tree_.Add(absl::StrCat("l", i), kRootAllocation, Weight{i + 1.0}).value());
    }
    ledger_.Open(tree_);
    ranking_.Refresh(tree_, ledger_, GpuCount(100), now_,
                     [](AllocationId id, GpuTime, MilliGpu) { return minutes(id.value()); });
    cluster_.InternGpuType("b");
    if (rng_.Chance(1, 3)) cluster_.InternGpuType("a");
    domains_.push_back(kRootDomain);
    for (std::int64_t d = rng_.Below(12); d > 0; --d) {
      const DomainId parent = domains_[Below(domains_.size())];
      if (cluster_.level(parent) < 3) {
        domains_.push_back(cluster_.AddDomain(absl::StrCat("d", d), parent).value());
      }
    }
    uniform_ = rng_.Chance(1, 2);
    cluster_.SetLane(rng_.Chance(1, 3) ? 150 : 0);
    for (std::int64_t n = 1 + rng_.Below(rng_.Chance(1, 4) ? 150 : 30); n > 0; --n) AddNode();
    cluster_.Reindex();
    for (int i = 0; i < 200; ++i) Change();
  }

  void Change() {
    const std::int64_t what = rng_.Below(100);
    const NodeId id(static_cast<std::uint32_t>(Below(cluster_.size())));
    const Node& node = cluster_.node(id);
    if (what < 50) {
      Start();
    } else if (what < 70) {
      End();
    } else if (what < 80) {
      Alter();
    } else if (what < 85) {
      if (node.reserved_for == kNoSlot && rng_.Chance(1, 2)) {
        cluster_.Reserve(id, 0, now_);
      } else {
        cluster_.Unreserve(id);
      }
    } else if (what < 88) {
      if (node.holds.empty()) {
        cluster_.Claim(id, 7, 1);
      } else {
        cluster_.Unclaim(id, 7, 1);
      }
    } else if (what < 91) {
      cluster_.SetHealth(id, rng_.Chance(2, 3) ? NodeHealth::kUp : NodeHealth::kDraining);
    } else if (what < 95) {
      const bool open = rng_.Chance(1, 3);
      const TimePoint at = open ? kNever : now_ + minutes(15 * rng_.Below(12));
      cluster_.SetMaintenance(id, at, !open, at <= now_);
    } else if (what < 96) {
      AddNode();
      cluster_.Reindex();
    } else {
      now_ += minutes(rng_.Below(20));
    }
  }

  Shape RandomShape() {
    Shape shape;
    shape.nodes = static_cast<std::int32_t>(1 + rng_.Below(rng_.Chance(1, 3) ? 20 : 4));
    shape.gpus = rng_.Chance(1, 4) ? 8 : static_cast<std::int32_t>(1 + rng_.Below(4));
    if (rng_.Chance(1, 2)) {
      shape.type = GpuTypeId(static_cast<std::uint16_t>(Below(cluster_.gpu_types().size())));
    }
    shape.rule = rng_.Chance(1, 2) ? TopologyRule::kRequired : TopologyRule::kPreferred;
    shape.level = rng_.Chance(1, 3) ? kDeepestLevel : static_cast<std::uint8_t>(rng_.Below(4));
    shape.band = static_cast<std::uint8_t>(rng_.Below(4));
    return shape;
  }

  template <class Policy>
  void Check(const Policy& policy, ReservationSearch& search, std::int64_t& found) {
    const PolicyContext context{tree_, ranking_, now_};
    const VictimEnv env{cluster_, table_, ledger_, stoppable_, context, minutes(rng_.Below(3))};
    const Shape shape = RandomShape();
    ReservationPlan plan, naive;
    const bool expected = NaiveReservation(env, policy, shape).Find(naive);
    search.Update(cluster_, table_);
    CheckOrder(search.order());
    ASSERT_EQ(search.Find(env, policy, shape, plan), expected);
    if (!expected) return;
    ASSERT_EQ(plan.at, naive.at);
    ASSERT_EQ(plan.nodes, naive.nodes);
    ++found;
  }

 private:
  // What it knows of nodes and blocks is so.
  void CheckOrder(const ProtectionOrder& order) {
    for (std::size_t p = 0; p < cluster_.pools().size(); ++p) {
      const std::vector<NodeId>& nodes = cluster_.pools()[p].nodes;
      std::vector<std::uint32_t> soon, expected;
      for (std::uint32_t slot = 0; slot < nodes.size(); ++slot) {
        const auto entry = ProtectionOrder::EntryOf(cluster_.node(nodes[slot]), table_);
        ASSERT_EQ(order.entry(p, slot), entry);
        if (entry.end <= now_ + minutes(30)) expected.push_back(slot);
      }
      order.VisitEnding(p, 0, static_cast<std::uint32_t>(nodes.size()), now_ + minutes(30),
                        [&](std::uint32_t slot) {
                          soon.push_back(slot);
                          return true;
                        });
      ASSERT_EQ(soon, expected);
    }
  }

  std::size_t Below(std::size_t n) {
    return static_cast<std::size_t>(rng_.Below(static_cast<std::int64_t>(n)));
  }

  void AddNode() {
    const std::string name = absl::StrCat("n", rng_.Below(1000), ".", cluster_.size());
    const std::int64_t gpus = uniform_ ? 8 : 2 << rng_.Below(3);
    const auto type = static_cast<std::uint16_t>(Below(cluster_.gpu_types().size()));
    ASSERT_TRUE(
        cluster_.AddNode(name, GpuCount(gpus), GpuTypeId(type), domains_[Below(domains_.size())])
            .ok());
  }

  void Start() {
    WorkloadSpec w;
    w.id = WorkloadId(++last_id_);
    w.allocation = leaves_[Below(leaves_.size())];
    const std::int32_t gpus = rng_.Chance(1, 3) ? 1 : rng_.Chance(1, 2) ? 4 : 2;
    w.gpus_per_node = GpuCount(gpus);
    const std::int64_t kind = rng_.Below(20);
    w.workload_class = kind == 0  ? WorkloadClass::kServing
                       : kind < 6 ? WorkloadClass::kInteractive
                                  : WorkloadClass::kTraining;
    if (rng_.Chance(3, 4)) w.minimum = minutes(30 * (1 + rng_.Below(4)));
    w.checkpoint_interval = minutes(30 * rng_.Below(3));
    const std::size_t wanted =
        rng_.Chance(1, 3) ? 2 + Below(std::min<std::size_t>(30, cluster_.size())) : 1;
    std::vector<NodeId> nodes;
    const std::size_t first = Below(cluster_.size());
    for (std::size_t i = 0; i < cluster_.size() && nodes.size() < wanted; ++i) {
      const NodeId id(static_cast<std::uint32_t>((first + i) % cluster_.size()));
      if (cluster_.node(id).free() >= gpus) nodes.push_back(id);
    }
    if (nodes.empty()) return;
    w.nodes = static_cast<std::uint32_t>(nodes.size());
    const RunSlot slot = table_.Add(w, now_);
    Run& run = table_.run(slot);
    table_.workload(slot).nodes.assign(nodes.begin(), nodes.end());
    run.state = WorkloadState::kRunning;
    run.start = run.progress_since = now_ - minutes(rng_.Below(2) * 60);
    run.protected_until = run.start + w.minimum;
    for (NodeId n : nodes) cluster_.Occupy(n, slot, gpus, Session(run));
    running_.push_back(slot);
  }

  void End() {
    if (running_.empty()) return;
    const std::size_t i = Below(running_.size());
    const RunSlot slot = running_[i];
    const Run& run = table_.run(slot);
    for (NodeId n : table_.workload(slot).nodes) {
      cluster_.Vacate(n, slot, run.gpus_per_node, Session(run),
                      run.state == WorkloadState::kStopping);
    }
    table_.Remove(slot);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  // It is being stopped, or its protection ends at another time.
  void Alter() {
    if (running_.empty()) return;
    const RunSlot slot = running_[Below(running_.size())];
    Run& run = table_.run(slot);
    if (run.state == WorkloadState::kStopping) return;
    if (rng_.Chance(1, 3)) {
      run.state = WorkloadState::kStopping;
      for (NodeId n : table_.workload(slot).nodes) cluster_.MarkStopping(n, run.gpus_per_node);
    } else {
      run.protected_until = now_ + minutes(15 * rng_.Below(6));
      for (NodeId n : table_.workload(slot).nodes) cluster_.Touch(n);
    }
  }

  static bool Session(const Run& run) {
    return run.funded && run.workload_class == WorkloadClass::kInteractive;
  }

  sim::Rng& rng_;
  BudgetTree tree_;
  std::vector<AllocationId> leaves_;
  Ledger ledger_;
  Ranking ranking_;
  Cluster cluster_;
  WorkloadTable table_;
  StoppableRuns stoppable_;
  std::vector<DomainId> domains_;
  std::vector<RunSlot> running_;
  std::uint64_t last_id_ = 0;
  bool uniform_ = false;
  TimePoint now_{std::chrono::hours(100)};
};

// Every cost equal, or as policies have it.
struct Indifferent : PolicyDefaults {
  std::int64_t VictimCost(const PolicyContext&, const Run& run) const {
    return run.funded ? 12 : 0;
  }
};

TEST(ReservationSearch, FindsWhatAScanOfAllNodesFinds) {
  std::int64_t found = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    sim::Rng rng(seed, 3);
    LiveCluster live(rng);
    ReservationSearch search;  // nothing may be left over from an earlier search
    for (int i = 0; i < 60; ++i) {
      for (std::int64_t changes = rng.Below(6); changes > 0; --changes) live.Change();
      if (rng.Chance(1, 2)) {
        live.Check(BudgetPolicy(), search, found);
      } else if (rng.Chance(1, 2)) {
        live.Check(Ai2Policy(), search, found);
      } else {
        live.Check(Indifferent(), search, found);
      }
      if (HasFatalFailure()) FAIL() << "seed " << seed << " search " << i;
    }
  }
  EXPECT_GT(found, 5'000);
}

// Every node that was not touched is known as it is, whatever a Scheduler was told and did.
TEST(ProtectionOrder, FollowsEveryEvent) {
  std::int64_t known = 0, promised = 0;
  for (std::uint64_t seed = 710'001; seed < 710'151; ++seed) {
    sim::Rng rng(seed, 1);
    WorldSpec world = RandomWorld(rng, MakePreset("budget").scheduler);
    world.options.reservation.gang = GpuCount(2);  // many promises
    LawChecker<BudgetPolicy> checker(world);
    RandomEvents events(sim::Rng(seed, 2));
    for (int i = 0; i < 120; ++i) {
      const Event e = events.Next(checker.model());
      ASSERT_EQ(checker.Step(e), "") << "seed " << seed << " event " << i;
      const Scheduler<BudgetPolicy>& s = checker.instance().scheduler();
      for (std::size_t p = 0; p < s.cluster().pools().size(); ++p) {
        const Pool& pool = s.cluster().pools()[p];
        for (std::size_t slot = 0; slot < pool.nodes.size(); ++slot) {
          if (pool.touched.Contains(slot)) continue;
          ASSERT_EQ(s.protection_order().entry(p, slot),
                    ProtectionOrder::EntryOf(s.cluster().node(pool.nodes[slot]), s.table()))
              << "seed " << seed << " event " << i;
          ++known;
        }
      }
    }
    promised += checker.counts().promises;
  }
  EXPECT_GT(known, 10'000);
  EXPECT_GT(promised, 150);
}

}  // namespace
}  // namespace tenure::test
