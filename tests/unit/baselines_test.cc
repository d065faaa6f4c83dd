// SPDX-License-Identifier: Apache-2.0

#include "tenure/sim/baselines.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tenure/sim/random.h"

namespace tenure::sim {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

TimePoint At(Duration d) { return TimePoint(d); }

Cluster MakeCluster(int nodes, int gpus) {
  Cluster cluster;
  const GpuTypeId type = cluster.InternGpuType("gpu");
  for (int i = 0; i < nodes; ++i) {
    EXPECT_TRUE(cluster.AddNode("n" + std::to_string(1000 + i), GpuCount(gpus), type).ok());
  }
  return cluster;
}

// Root -> p (weight 3) -> a (2), b (1); root -> q (1) -> c.
struct Tree {
  BudgetTree tree;
  AllocationId p, q, a, b, c;
  Tree() {
    p = tree.Add("p", kRootAllocation, Weight{3}).value();
    q = tree.Add("q", kRootAllocation, Weight{1}).value();
    a = tree.Add("a", p, Weight{2}).value();
    b = tree.Add("b", p, Weight{1}).value();
    c = tree.Add("c", q, Weight{1}).value();
  }
};

// Carries out what the engine decides: starts are confirmed at once, stops after ten seconds, runs
// end after their true time. Checks that no GPU is given away twice.
class Driver {
 public:
  Driver(int nodes, int gpus, const BudgetTree& tree, const BaselineOptions& options)
      : engine(MakeCluster(nodes, gpus), tree, options), gpus_(gpus) {
    used_.assign(engine.cluster().size(), 0);
  }

  struct Job {
    AllocationId leaf;
    int nodes = 1, gpus = 1;
    Duration runtime{hours(1)}, limit{hours(1)};
    bool funded = true;
    bool resumable = true;
    std::int32_t priority = 0;
  };

  WorkloadId Submit(const Job& job, Duration at) {
    WorkloadSpec spec;
    spec.id = WorkloadId(++last_id_);
    spec.allocation = job.leaf;
    spec.nodes = static_cast<std::uint32_t>(job.nodes);
    spec.gpus_per_node = GpuCount(job.gpus);
    spec.minimum = job.funded ? Duration(minutes(10)) : Duration(0);
    spec.resumable = job.resumable;
    spec.priority = job.priority;
    Run& run = runs[spec.id];
    run.job = job;
    run.spec = spec;
    events_.insert({At(at), 1, spec.id, RunNumber()});
    return spec.id;
  }

  // Runs until (exclusive) `end`.
  void RunUntil(Duration end) {
    while (!events_.empty() && std::get<0>(*events_.begin()) < At(end)) {
      const TimePoint now = std::get<0>(*events_.begin());
      while (!events_.empty() && std::get<0>(*events_.begin()) == now) {
        const auto [t, kind, id, number] = *events_.begin();
        events_.erase(events_.begin());
        Handle(t, kind, id, number);
      }
      if (engine.Dirty()) Decide(now);
    }
  }

  void Decide(TimePoint now) {
    const Decisions& d = *engine.Decide(now).value();
    EXPECT_EQ(d.next_wakeup, kNever);
    for (const tenure::Stop& s : d.stops) {
      Run& run = runs[s.workload];
      EXPECT_EQ(run.number, s.run);
      EXPECT_TRUE(run.running);
      ++run.stops;
      run.stopping = true;
      if (s.reason == StopReason::kPreempted) stops.emplace_back(s.workload, s.beneficiary);
      events_.insert({now + seconds(10), 2, s.workload, s.run});
    }
    for (const tenure::Start& s : d.starts) {
      Run& run = runs[s.workload];
      EXPECT_FALSE(run.running);
      run.running = true;
      run.number = s.run;
      run.started = now;
      if (run.first_start == kNever) run.first_start = now;
      run.nodes.assign(d.Nodes(s).begin(), d.Nodes(s).end());
      EXPECT_EQ(run.nodes.size(), run.spec.nodes);
      EXPECT_EQ(std::set<NodeId>(run.nodes.begin(), run.nodes.end()).size(), run.nodes.size());
      Use(run, +1);
      EXPECT_TRUE(engine.ReportStarted(s.workload, s.run, now).ok());
      events_.insert({now + run.job.runtime, 0, s.workload, s.run});
    }
    after_decide(now);
  }

  struct Run {
    Job job;
    WorkloadSpec spec;
    bool submitted = false, running = false, stopping = false, ended = false, failed = false;
    RunNumber number;
    int stops = 0;
    TimePoint first_start = kNever, started = kNever, end = kNever;
    std::vector<NodeId> nodes;
  };

  BaselineEngine engine;
  std::map<WorkloadId, Run> runs;
  std::vector<std::pair<WorkloadId, WorkloadId>> stops;  // victim, beneficiary
  std::function<void(TimePoint)> after_decide = [](TimePoint) {};

 private:
  void Handle(TimePoint t, int kind, WorkloadId id, RunNumber number) {
    Run& run = runs[id];
    if (kind == 1) {
      run.submitted = true;
      EXPECT_TRUE(engine.Submit(run.spec, run.job.limit, t).ok());
      return;
    }
    if (!run.running || run.number != number) return;  // an old run
    run.running = run.stopping = false;
    Use(run, -1);
    if (kind == 0) {
      run.ended = true;
      run.end = t;
      EXPECT_TRUE(engine.ReportEnded(id, number, t).ok());
    } else {
      run.failed = !run.spec.resumable;
      EXPECT_TRUE(engine.ReportStopped(id, number, t).ok());
    }
  }

  void Use(const Run& run, int sign) {
    for (NodeId n : run.nodes) {
      used_[n.value()] += sign * run.job.gpus;
      EXPECT_GE(used_[n.value()], 0);
      EXPECT_LE(used_[n.value()], gpus_);
    }
  }

  int gpus_;
  std::vector<int> used_;
  std::uint64_t last_id_ = 0;
  std::set<std::tuple<TimePoint, int, WorkloadId, RunNumber>> events_;  // 0 end, 1 submit, 2 stop
};

TEST(Priority, ProtectsATeamUpToItsEntitlementAndNoFurther) {
  // 16 GPUs: a 8, b 4, c 4.
  Tree t;
  Driver d(2, 8, t.tree, {.mode = BaselineMode::kPriority});
  // c fills the machine: one protected run of 4, three that are not.
  std::vector<WorkloadId> c;
  for (int i = 0; i < 4; ++i) {
    c.push_back(d.Submit({.leaf = t.c, .gpus = 4, .runtime = hours(50)}, minutes(i)));
  }
  // a claims its 8 GPUs: two unprotected runs of c go, the youngest first.
  const WorkloadId a1 = d.Submit({.leaf = t.a, .gpus = 4, .runtime = hours(50)}, hours(1));
  const WorkloadId a2 = d.Submit({.leaf = t.a, .gpus = 4, .runtime = hours(50)}, hours(2));
  // A third one is above the entitlement: it waits.
  const WorkloadId a3 = d.Submit({.leaf = t.a, .gpus = 4, .runtime = hours(50)}, hours(3));
  // b takes the last unprotected run of c; then nothing can be stopped.
  const WorkloadId b1 = d.Submit({.leaf = t.b, .gpus = 4, .runtime = hours(50)}, hours(4));
  d.RunUntil(hours(5));
  EXPECT_EQ(d.stops,
            (std::vector<std::pair<WorkloadId, WorkloadId>>{{c[3], a1}, {c[2], a2}, {c[1], b1}}));
  EXPECT_TRUE(d.runs[c[0]].running);
  EXPECT_FALSE(d.runs[a3].running);
  // A stop takes its time; the place is held for who asked.
  EXPECT_EQ(d.runs[a1].first_start, At(hours(1) + seconds(10)));
  EXPECT_EQ(d.runs[b1].first_start, At(hours(4) + seconds(10)));
}

TEST(Priority, BorrowersStartOnlyOnFreeGpus) {
  Tree t;
  Driver d(1, 16, t.tree, {.mode = BaselineMode::kPriority});
  const WorkloadId c1 = d.Submit({.leaf = t.c, .gpus = 12, .runtime = hours(9)}, hours(0));
  const WorkloadId c2 = d.Submit({.leaf = t.c, .gpus = 8, .runtime = hours(9)}, hours(1));
  d.RunUntil(hours(24));
  EXPECT_EQ(d.runs[c1].first_start, At(hours(0)));
  EXPECT_EQ(d.runs[c2].first_start, At(hours(9)));
  EXPECT_TRUE(d.stops.empty());
}

TEST(Priority, SweepsAreLikeAnyOtherWorkUnlessLow) {
  for (bool high : {true, false}) {
    SCOPED_TRACE(high);
    Tree t;
    Driver d(1, 16, t.tree, {.mode = BaselineMode::kPriority, .sweeps_high = high});
    const WorkloadId sweep =
        d.Submit({.leaf = t.a, .gpus = 8, .runtime = hours(9), .funded = false}, hours(0));
    const WorkloadId other = d.Submit({.leaf = t.a, .gpus = 8, .runtime = hours(9)}, minutes(30));
    const WorkloadId team = d.Submit({.leaf = t.a, .gpus = 8, .runtime = hours(9)}, hours(1));
    const WorkloadId b = d.Submit({.leaf = t.b, .gpus = 4, .runtime = hours(1)}, hours(2));
    d.RunUntil(hours(3));
    // HIGH: the sweep holds all of a's protection; `other` borrows and goes for b.
    // LOW: `other` is protected; the sweep goes for b; a's third one is above its entitlement.
    EXPECT_EQ(d.runs[sweep].stops, high ? 0 : 1);
    EXPECT_EQ(d.runs[other].stops, high ? 1 : 0);
    EXPECT_EQ(d.runs[b].first_start, At(hours(2) + seconds(10)));
    EXPECT_EQ(d.runs[team].first_start, kNever);
  }
}

TEST(Priority, AGangTakesTheCheapestNodesAndNobodyElse) {
  Tree t;
  Driver d(4, 8, t.tree, {.mode = BaselineMode::kPriority});
  // Entitled: a 16, b 8, c 8. b borrows three nodes beyond its own; the oldest is protected.
  std::vector<WorkloadId> b;
  for (int i = 0; i < 4; ++i) {
    b.push_back(d.Submit({.leaf = t.b, .gpus = 8, .runtime = hours(99)}, minutes(i)));
  }
  const WorkloadId gang =
      d.Submit({.leaf = t.a, .nodes = 2, .gpus = 8, .runtime = hours(2)}, hours(1));
  d.RunUntil(hours(2));
  EXPECT_EQ(d.stops, (std::vector<std::pair<WorkloadId, WorkloadId>>{{b[3], gang}, {b[2], gang}}));
  EXPECT_EQ(d.runs[gang].first_start, At(hours(1) + seconds(10)));
  d.RunUntil(hours(5));
  EXPECT_TRUE(d.runs[b[2]].running);  // resumed when the gang was done
  EXPECT_EQ(d.runs[b[2]].number, RunNumber(2));
}

TEST(Priority, ALargeVictimIsStoppedAloneAndWhole) {
  Tree t;
  Driver d(4, 8, t.tree, {.mode = BaselineMode::kPriority});
  const WorkloadId wide =
      d.Submit({.leaf = t.c, .nodes = 3, .gpus = 8, .runtime = hours(99)}, hours(0));
  const WorkloadId one = d.Submit({.leaf = t.b, .gpus = 8, .runtime = hours(99)}, hours(0));
  const WorkloadId gang =
      d.Submit({.leaf = t.a, .nodes = 2, .gpus = 8, .runtime = hours(2)}, hours(1));
  d.RunUntil(hours(2));
  EXPECT_EQ(d.stops, (std::vector<std::pair<WorkloadId, WorkloadId>>{{wide, gang}}));
  EXPECT_TRUE(d.runs[one].running);
}

TEST(Priority, AWorkloadThatCannotResumeIsLost) {
  Tree t;
  Driver d(1, 8, t.tree, {.mode = BaselineMode::kPriority});
  const WorkloadId c =
      d.Submit({.leaf = t.c, .gpus = 8, .runtime = hours(9), .resumable = false}, hours(0));
  d.Submit({.leaf = t.a, .gpus = 4, .runtime = hours(1)}, hours(1));
  d.RunUntil(hours(9));
  EXPECT_TRUE(d.runs[c].failed);
  EXPECT_EQ(d.engine.queued(), 0u);
}

TEST(FifoEasy, BackfillsWhatEndsBeforeTheReservation) {
  Tree t;
  Driver d(4, 1, t.tree, {.mode = BaselineMode::kFifoEasy});
  const WorkloadId first =
      d.Submit({.leaf = t.a, .nodes = 3, .runtime = hours(8), .limit = hours(10)}, hours(0));
  const WorkloadId head =
      d.Submit({.leaf = t.b, .nodes = 4, .runtime = hours(1), .limit = hours(2)}, hours(1));
  const WorkloadId too_long =
      d.Submit({.leaf = t.c, .runtime = hours(1), .limit = hours(9)}, hours(1) + Duration(1));
  const WorkloadId fits = d.Submit({.leaf = t.c, .runtime = hours(2), .limit = hours(8)}, hours(2));
  d.RunUntil(hours(30));
  EXPECT_EQ(d.runs[first].first_start, At(hours(0)));
  EXPECT_EQ(d.runs[fits].first_start, At(hours(2)));  // ends by 10:00 at the latest
  EXPECT_EQ(d.runs[head].first_start, At(hours(8)));  // the first one ended early
  EXPECT_EQ(d.runs[too_long].first_start, At(hours(9)));
  EXPECT_TRUE(d.stops.empty());
}

TEST(FifoEasy, BackfillsBesideTheReservation) {
  Tree t;
  Driver d(2, 8, t.tree, {.mode = BaselineMode::kFifoEasy});
  d.Submit({.leaf = t.a, .gpus = 6, .runtime = hours(10), .limit = hours(10)}, hours(0));
  d.Submit({.leaf = t.a, .gpus = 6, .runtime = hours(20), .limit = hours(20)}, hours(0));
  // The head needs 6 of a node: reserved on the first at 10:00, which leaves 2 of its 8 GPUs, and
  // nothing of the second node's 2.
  const WorkloadId head =
      d.Submit({.leaf = t.b, .gpus = 6, .runtime = hours(1), .limit = hours(1)}, hours(1));
  const WorkloadId beside =
      d.Submit({.leaf = t.c, .gpus = 2, .runtime = hours(50), .limit = hours(50)}, hours(2));
  const WorkloadId beside2 =
      d.Submit({.leaf = t.c, .gpus = 2, .runtime = hours(50), .limit = hours(50)}, hours(2));
  d.RunUntil(hours(100));
  EXPECT_EQ(d.runs[head].first_start, At(hours(10)));
  EXPECT_EQ(d.runs[beside].first_start, At(hours(2)));
  EXPECT_EQ(d.runs[beside2].first_start, At(hours(2)));
}

TEST(FifoEasy, WhatTheReservationLeavesIsGivenOnce) {
  Tree t;
  Driver d(1, 8, t.tree, {.mode = BaselineMode::kFifoEasy});
  d.Submit({.leaf = t.a, .gpus = 4, .runtime = hours(10), .limit = hours(10)}, hours(0));
  const WorkloadId head = d.Submit({.leaf = t.b, .gpus = 6}, hours(1));
  // Four GPUs are free, the head leaves two.
  const WorkloadId one =
      d.Submit({.leaf = t.c, .gpus = 2, .runtime = hours(50), .limit = hours(50)}, hours(2));
  const WorkloadId two =
      d.Submit({.leaf = t.c, .gpus = 2, .runtime = hours(50), .limit = hours(50)}, hours(2));
  d.RunUntil(hours(100));
  EXPECT_EQ(d.runs[one].first_start, At(hours(2)));
  EXPECT_EQ(d.runs[head].first_start, At(hours(10)));
  EXPECT_EQ(d.runs[two].first_start, At(hours(11)));
}

TEST(FifoEasy, IgnoresWhoAsks) {
  Tree t;
  Driver d(1, 1, t.tree, {.mode = BaselineMode::kFifoEasy});
  std::vector<WorkloadId> ids;
  for (int i = 0; i < 6; ++i) {
    ids.push_back(d.Submit({.leaf = i % 2 == 0 ? t.c : t.a, .funded = i % 3 != 0, .priority = i},
                           minutes(i)));
  }
  d.RunUntil(hours(100));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(d.runs[ids[i]].first_start, At(hours(i)));
  }
}

TEST(FifoEasy, ThingsThatNeverEndAreKeptOutOfTheWay) {
  Tree t;
  Driver d(2, 1, t.tree, {.mode = BaselineMode::kFifoEasy});
  d.Submit({.leaf = t.a, .runtime = hours(4), .limit = hours(4)}, hours(0));
  const WorkloadId head = d.Submit({.leaf = t.a, .nodes = 2}, hours(1));
  const WorkloadId endless =
      d.Submit({.leaf = t.a, .runtime = hours(1), .limit = Duration(0)}, hours(1));
  d.RunUntil(hours(50));
  EXPECT_EQ(d.runs[head].first_start, At(hours(4)));
  EXPECT_EQ(d.runs[endless].first_start, At(hours(5)));
}

// Every pass, an independent estimate of when the first in the queue can start at the latest (all
// nodes have one GPU, so only the number of free nodes matters): backfill may never move it back.
TEST(FifoEasy, BackfillNeverDelaysTheFirstInTheQueue) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Tree t;
    Rng rng(seed);
    constexpr int kNodes = 16;
    Driver d(kNodes, 1, t.tree, {.mode = BaselineMode::kFifoEasy});
    Duration at(0);
    for (int i = 0; i < 300; ++i) {
      at += rng.Exponential(minutes(30));
      const Duration runtime = rng.LogNormal(hours(1), 1200, minutes(1), hours(40));
      d.Submit({.leaf = t.a,
                .nodes = static_cast<int>(1 + rng.Below(rng.Chance(1, 4) ? kNodes : 4)),
                .runtime = runtime,
                .limit = rng.Uniform(runtime, runtime * 4)},
               at);
    }
    std::map<WorkloadId, TimePoint> promised;
    int promises = 0;
    d.after_decide = [&](TimePoint now) {
      std::vector<std::pair<TimePoint, int>> ends;
      int free = kNodes;
      const Driver::Run* head = nullptr;
      for (const auto& [id, run] : d.runs) {  // ids are in order of submission
        if (run.running) {
          ends.emplace_back(run.started + run.job.limit, run.job.nodes);
          free -= run.job.nodes;
        } else if (run.submitted && !run.ended && head == nullptr) {
          head = &run;
        }
      }
      if (head == nullptr) return;
      ASSERT_LT(free, head->job.nodes) << "it would have fitted";
      std::sort(ends.begin(), ends.end());
      TimePoint latest = now;
      for (const auto& [end, nodes] : ends) {
        if (free >= head->job.nodes) break;
        free += nodes;
        latest = end;
      }
      const auto [it, inserted] = promised.emplace(head->spec.id, latest);
      ASSERT_LE(latest, it->second) << "workload " << head->spec.id.value();
      it->second = latest;
      promises += inserted ? 1 : 0;
    };
    d.RunUntil(hours(24 * 365));
    EXPECT_GT(promises, 20);
    for (const auto& [id, run] : d.runs) {
      EXPECT_TRUE(run.ended);
      if (promised.contains(id)) {
        EXPECT_LE(run.first_start, promised[id]);
      }
    }
  }
}

TEST(FairTree, OrdersByDecayedUsageLevelByLevel) {
  // p has three quarters, of which a two thirds. One GPU, jobs of an hour.
  Tree t;
  Driver d(1, 1, t.tree, {.mode = BaselineMode::kFairTree});
  for (int i = 0; i < 400; ++i) {
    for (AllocationId leaf : {t.a, t.b, t.c}) d.Submit({.leaf = leaf}, hours(0));
  }
  d.RunUntil(hours(400));
  std::map<AllocationId, int> done;
  for (const auto& [id, run] : d.runs) done[run.job.leaf] += run.ended ? 1 : 0;
  EXPECT_NEAR(done[t.a], 200, 3);
  EXPECT_NEAR(done[t.b], 100, 3);
  EXPECT_NEAR(done[t.c], 100, 3);
}

TEST(FairTree, ForgetsOldUsage) {
  Tree t;
  Driver d(1, 1, t.tree, {.mode = BaselineMode::kFairTree});
  // c used everything for four days, long ago; then b for one day.
  d.Submit({.leaf = t.c, .runtime = hours(96), .limit = hours(96)}, hours(0));
  d.Submit({.leaf = t.b, .runtime = hours(72), .limit = hours(72)}, hours(24 * 60));
  const WorkloadId b = d.Submit({.leaf = t.b}, hours(24 * 60 + 1));
  const WorkloadId c = d.Submit({.leaf = t.c}, hours(24 * 60 + 2));
  d.RunUntil(hours(24 * 100));
  // Usage per weight: p 72 / 3 = 24, q 96 / 2^(59/7) < 1.
  EXPECT_LT(d.runs[c].first_start, d.runs[b].first_start);
}

TEST(FairTree, PriorityCountsInsideALeafOnly) {
  Tree t;
  Driver d(1, 1, t.tree, {.mode = BaselineMode::kFairTree});
  d.Submit({.leaf = t.a}, hours(0));
  const WorkloadId low = d.Submit({.leaf = t.a, .priority = 1}, minutes(1));
  const WorkloadId high = d.Submit({.leaf = t.a, .priority = 2}, minutes(2));
  const WorkloadId other = d.Submit({.leaf = t.c, .priority = -5}, minutes(3));
  d.RunUntil(hours(10));
  EXPECT_LT(d.runs[other].first_start, d.runs[high].first_start);  // q has used nothing
  EXPECT_LT(d.runs[high].first_start, d.runs[low].first_start);
}

TEST(FairTree, SweepsFillWithoutDelayingTheReservation) {
  Tree t;
  Driver d(2, 1, t.tree, {.mode = BaselineMode::kFairTree});
  d.Submit({.leaf = t.a, .runtime = hours(4), .limit = hours(4)}, hours(0));
  const WorkloadId head = d.Submit({.leaf = t.a, .nodes = 2}, hours(1));
  const WorkloadId long_sweep =
      d.Submit({.leaf = t.a, .runtime = hours(5), .limit = hours(5), .funded = false}, hours(1));
  const WorkloadId short_sweep =
      d.Submit({.leaf = t.a, .runtime = hours(2), .limit = hours(2), .funded = false}, hours(2));
  d.RunUntil(hours(20));
  EXPECT_EQ(d.runs[short_sweep].first_start, At(hours(2)));
  EXPECT_EQ(d.runs[head].first_start, At(hours(4)));
  EXPECT_EQ(d.runs[long_sweep].first_start, At(hours(5)));
  EXPECT_TRUE(d.stops.empty());
}

TEST(FairTreePreempt, StopsSweepsForFundedWorkOnly) {
  Tree t;
  Driver d(2, 8, t.tree, {.mode = BaselineMode::kFairTreePreempt});
  std::vector<WorkloadId> sweeps;
  for (int i = 0; i < 4; ++i) {
    sweeps.push_back(d.Submit(
        {.leaf = t.c, .gpus = 4, .runtime = hours(30), .limit = hours(40), .funded = false},
        minutes(i)));
  }
  const WorkloadId a = d.Submit({.leaf = t.a, .gpus = 4, .runtime = hours(9)}, hours(1));
  const WorkloadId gang = d.Submit(
      {.leaf = t.b, .nodes = 2, .gpus = 4, .runtime = hours(9), .limit = hours(9)}, hours(2));
  const WorkloadId more = d.Submit({.leaf = t.a, .gpus = 8, .runtime = hours(1)}, hours(3));
  d.RunUntil(hours(4));
  EXPECT_EQ(d.runs[a].first_start, At(hours(1) + seconds(10)));
  EXPECT_EQ(d.runs[gang].first_start, At(hours(2) + seconds(10)));
  EXPECT_EQ(d.stops.size(), 3u);
  EXPECT_EQ(d.runs[more].first_start, kNever);  // only funded runs could make room
  EXPECT_EQ(
      std::count_if(sweeps.begin(), sweeps.end(), [&](WorkloadId s) { return d.runs[s].running; }),
      1);
  d.RunUntil(hours(200));
  for (const auto& [id, run] : d.runs) EXPECT_TRUE(run.ended);
  for (WorkloadId s : {a, gang, more}) EXPECT_EQ(d.runs[s].stops, 0);
}

TEST(BaselineEngine, AWorkloadLargerThanTheClusterBlocksNobody) {
  Tree t;
  for (BaselineMode mode : {BaselineMode::kPriority, BaselineMode::kFifoEasy,
                            BaselineMode::kFairTree, BaselineMode::kFairTreePreempt}) {
    SCOPED_TRACE(ToString(mode));
    Driver d(2, 8, t.tree, {.mode = mode});
    const WorkloadId never = d.Submit({.leaf = t.a, .nodes = 3, .gpus = 8}, hours(0));
    const WorkloadId never2 = d.Submit({.leaf = t.a, .gpus = 9}, hours(0));
    const WorkloadId fine = d.Submit({.leaf = t.a, .nodes = 2, .gpus = 8}, hours(0));
    d.RunUntil(hours(5));
    EXPECT_TRUE(d.runs[fine].ended);
    EXPECT_FALSE(d.runs[never].running);
    EXPECT_TRUE(d.engine.Cancel(never, At(hours(5))).ok());
    EXPECT_TRUE(d.engine.Cancel(never2, At(hours(5))).ok());
    EXPECT_EQ(d.engine.Cancel(never, At(hours(5))).code(), absl::StatusCode::kNotFound);
  }
}

TEST(BaselineEngine, CancelsInEveryState) {
  Tree t;
  Driver d(1, 8, t.tree, {.mode = BaselineMode::kPriority});
  const WorkloadId runs = d.Submit({.leaf = t.c, .gpus = 8, .runtime = hours(50)}, hours(0));
  const WorkloadId held = d.Submit({.leaf = t.a, .gpus = 4, .runtime = hours(50)}, hours(1));
  const WorkloadId queued = d.Submit({.leaf = t.c, .gpus = 8, .runtime = hours(1)}, hours(1));
  d.RunUntil(hours(1) + seconds(1));
  EXPECT_EQ(d.engine.queued(), 1u);
  EXPECT_TRUE(d.engine.Cancel(held, At(hours(1) + seconds(2))).ok());
  EXPECT_TRUE(d.engine.Cancel(queued, At(hours(1) + seconds(2))).ok());
  EXPECT_TRUE(d.engine.Cancel(runs, At(hours(1) + seconds(2))).ok());  // while it is being stopped
  EXPECT_EQ(d.engine.queued(), 0u);
  d.RunUntil(hours(2));
  EXPECT_EQ(d.engine.queued(), 0u);
  EXPECT_EQ(d.engine.cluster().free(), GpuCount(8));
  // A run.
  const WorkloadId next = d.Submit({.leaf = t.a, .gpus = 8, .runtime = hours(50)}, hours(3));
  d.RunUntil(hours(3) + seconds(1));
  ASSERT_TRUE(d.engine.Cancel(next, At(hours(3) + seconds(1))).ok());
  EXPECT_TRUE(d.engine.Dirty());
  const Decisions& decisions = *d.engine.Decide(At(hours(3) + seconds(1))).value();
  ASSERT_EQ(decisions.stops.size(), 1u);
  EXPECT_EQ(decisions.stops[0].reason, StopReason::kCancelled);
  EXPECT_TRUE(d.engine.ReportStopped(next, RunNumber(1), At(hours(4))).ok());
  EXPECT_EQ(d.engine.queued(), 0u);
  EXPECT_EQ(d.engine.cluster().free(), GpuCount(8));
}

TEST(BaselineEngine, RefusesWhatMakesNoSense) {
  Tree t;
  BaselineEngine e(MakeCluster(1, 8), t.tree, {});
  WorkloadSpec spec;
  spec.id = WorkloadId(1);
  spec.allocation = t.a;
  spec.minimum = hours(1);
  EXPECT_TRUE(e.Submit(spec, hours(1), At(hours(1))).ok());
  EXPECT_EQ(e.Submit(spec, hours(1), At(hours(1))).code(), absl::StatusCode::kAlreadyExists);
  spec.id = WorkloadId(2);
  EXPECT_EQ(e.Submit(spec, hours(1), At(hours(0))).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(e.Submit(spec, Duration(-1), At(hours(1))).code(), absl::StatusCode::kInvalidArgument);
  for (AllocationId id : {t.p, kRootAllocation, AllocationId(99)}) {
    spec.allocation = id;
    EXPECT_EQ(e.Submit(spec, hours(1), At(hours(1))).code(), absl::StatusCode::kInvalidArgument);
  }
  spec.allocation = t.a;
  spec.nodes = 0;
  EXPECT_EQ(e.Submit(spec, hours(1), At(hours(1))).code(), absl::StatusCode::kInvalidArgument);
  const RunNumber one(1);
  EXPECT_EQ(e.ReportStarted(WorkloadId(7), one, At(hours(1))).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(e.ReportEnded(WorkloadId(1), one, At(hours(1))).code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_EQ(e.Decide(At(hours(1))).value()->starts.size(), 1u);
  EXPECT_EQ(e.ReportStopped(WorkloadId(1), one, At(hours(1))).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(e.ReportEnded(WorkloadId(1), RunNumber(2), At(hours(1))).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(e.Decide(At(hours(0))).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(e.ReportIdle(WorkloadId(1), true, At(hours(1))).ok());
  EXPECT_TRUE(e.ReportEnded(WorkloadId(1), one, At(hours(2))).ok());
}

// Random work in every mode: no GPU twice (the driver checks), all of it ends, nothing is stopped
// that may not be, and the same run gives the same decisions.
TEST(BaselineEngine, SurvivesRandomWorkInEveryMode) {
  for (BaselineMode mode : {BaselineMode::kPriority, BaselineMode::kFifoEasy,
                            BaselineMode::kFairTree, BaselineMode::kFairTreePreempt}) {
    for (bool high : {true, false}) {
      for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        SCOPED_TRACE(::testing::Message() << ToString(mode) << " " << high << " " << seed);
        std::vector<TimePoint> starts[2];
        for (std::vector<TimePoint>& s : starts) {
          Tree t;
          Rng rng(seed);
          Driver d(6, 8, t.tree, {.mode = mode, .sweeps_high = high, .depth = 50});
          Duration at(0);
          for (int i = 0; i < 250; ++i) {
            at += rng.Exponential(minutes(40));
            const Duration runtime = rng.LogNormal(hours(1), 900, minutes(1), hours(8));
            const bool gang = rng.Chance(1, 5);
            const AllocationId leaves[] = {t.a, t.b, t.c};
            d.Submit({.leaf = leaves[rng.Below(3)],
                      .nodes = gang ? static_cast<int>(2 + rng.Below(5)) : 1,
                      .gpus = gang ? 8 : static_cast<int>(1 + rng.Below(8)),
                      .runtime = runtime,
                      .limit = rng.Chance(1, 10) ? Duration(0) : rng.Uniform(runtime, runtime * 3),
                      .funded = rng.Chance(2, 3),
                      .resumable = rng.Chance(3, 4)},
                     at);
          }
          d.RunUntil(hours(24 * 3000));
          for (const auto& [id, run] : d.runs) {
            ASSERT_TRUE(run.ended || run.failed) << id.value();
            s.push_back(run.first_start);
            if (mode == BaselineMode::kFifoEasy || mode == BaselineMode::kFairTree ||
                (mode == BaselineMode::kFairTreePreempt && run.job.funded)) {
              ASSERT_EQ(run.stops, 0);
            }
          }
          ASSERT_EQ(d.engine.cluster().free(), GpuCount(48));
          ASSERT_EQ(d.engine.queued(), 0u);
        }
        ASSERT_EQ(starts[0], starts[1]);
      }
    }
  }
}

}  // namespace
}  // namespace tenure::sim
