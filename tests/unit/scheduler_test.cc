// SPDX-License-Identifier: Apache-2.0
//
// The Scheduler in small worlds with one right answer.
#include "tenure/scheduler.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tenure/presets.h"

namespace tenure {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

// Two teams of equal weight and nodes of 8 GPUs; times in seconds.
template <class Policy>
class Site {
 public:
  explicit Site(int nodes, SchedulerOptions options = Plain()) : s(std::move(options)) {
    type = s.InternGpuType("h100");
    for (int i = 0; i < nodes; ++i) {
      n.push_back(
          s.AddNode("n" + std::to_string(i), GpuCount(8), type, kRootDomain, At(0)).value());
    }
    a = s.AddAllocation("a", kRootAllocation, Weight{1}, At(0)).value();
    b = s.AddAllocation("b", kRootAllocation, Weight{1}, At(0)).value();
  }

  static SchedulerOptions Plain() {
    SchedulerOptions options = MakePreset("ai2").scheduler;
    options.grace = seconds(10);
    options.tick = seconds(5);
    options.reservation.gang = GpuCount(0);
    return options;
  }
  static TimePoint At(std::int64_t s) { return TimePoint(seconds(s)); }

  static WorkloadSpec Job(std::uint64_t id, AllocationId leaf, int gpus, Duration minimum,
                          std::uint32_t nodes = 1) {
    WorkloadSpec spec;
    spec.id = WorkloadId(id);
    spec.allocation = leaf;
    spec.gpus_per_node = GpuCount(gpus);
    spec.minimum = minimum;
    spec.nodes = nodes;
    return spec;
  }
  void Submit(const WorkloadSpec& spec, std::int64_t at) {
    ASSERT_TRUE(s.Submit(spec, At(at)).ok());
  }
  const Decisions& Decide(std::int64_t at) { return *s.Decide(At(at)).value(); }
  // Decides and reports every start at once.
  Decisions DecideAndStart(std::int64_t at) {
    const Decisions d = Decide(at);
    for (const Start& x : d.starts) EXPECT_TRUE(s.ReportStarted(x.workload, x.run, At(at)).ok());
    return d;
  }
  WorkloadState State(std::uint64_t id) { return s.Explain(WorkloadId(id)).value().state; }
  WaitReason Reason(std::uint64_t id) { return s.Explain(WorkloadId(id)).value().reason; }

  Scheduler<Policy> s;
  GpuTypeId type;
  std::vector<NodeId> n;
  AllocationId a, b;
};

using Ai2Site = Site<Ai2Policy>;

TEST(Scheduler, GivesAProtectedRunItsMinimumAndNoMore) {
  Ai2Site x(1);
  x.Submit(x.Job(1, x.a, 8, hours(1)), 0);
  EXPECT_EQ(x.DecideAndStart(0).starts.size(), 1u);
  x.Submit(x.Job(2, x.b, 8, hours(1)), 10);
  EXPECT_TRUE(x.Decide(3599).stops.empty());
  const Decisions d = x.Decide(3600);
  ASSERT_EQ(d.stops.size(), 1u);
  EXPECT_EQ(d.stops[0].workload, WorkloadId(1));
  EXPECT_EQ(d.stops[0].beneficiary, WorkloadId(2));
  EXPECT_EQ(d.stops[0].grace, seconds(10));
  ASSERT_EQ(d.holds.size(), 1u);
  EXPECT_EQ(d.holds[0].expires, x.At(3615));
  EXPECT_EQ(x.s.ReportStopped(WorkloadId(1), RunNumber(1), x.At(3605)).value(),
            LossOutcome::kRequeued);
  const Decisions& after = x.Decide(3605);
  ASSERT_EQ(after.starts.size(), 1u);
  EXPECT_EQ(after.starts[0].workload, WorkloadId(2));
}

TEST(Scheduler, AHoldIsAnnouncedWhenItsOnlyVictimWasUnfunded) {
  Ai2Site x(1);
  x.Submit(x.Job(1, x.a, 8, Duration(0)), 0);
  x.DecideAndStart(0);
  x.Submit(x.Job(2, x.b, 8, hours(1)), 10);
  ASSERT_EQ(x.Decide(10).stops.size(), 1u);
  EXPECT_FALSE(x.s.dirty());
  ASSERT_TRUE(x.s.ReportStopped(WorkloadId(1), RunNumber(1), x.At(11)).ok());
  EXPECT_TRUE(x.s.dirty());
  EXPECT_EQ(x.Decide(11).starts.size(), 1u);
}

TEST(Scheduler, ACancelledStartIsStoppedOnceItIsConfirmed) {
  Ai2Site x(1);
  x.Submit(x.Job(1, x.a, 8, hours(1)), 0);
  x.Decide(0);
  ASSERT_TRUE(x.s.Cancel(WorkloadId(1), x.At(1)).ok());
  EXPECT_TRUE(x.Decide(1).stops.empty());
  ASSERT_TRUE(x.s.ReportStarted(WorkloadId(1), RunNumber(1), x.At(2)).ok());
  EXPECT_TRUE(x.s.dirty());
  const Decisions& d = x.Decide(2);
  ASSERT_EQ(d.stops.size(), 1u);
  EXPECT_EQ(d.stops[0].reason, StopReason::kCancelled);
}

TEST(Scheduler, UnfundedWorkThatStartsLateOnADrainingNodeIsStopped) {
  Ai2Site x(1);
  x.Submit(x.Job(1, x.a, 8, Duration(0)), 0);
  x.Decide(0);
  ASSERT_TRUE(x.s.SetNode(x.n[0], NodeHealth::kDraining, x.At(1)).ok());
  x.Decide(1);
  ASSERT_TRUE(x.s.ReportStarted(WorkloadId(1), RunNumber(1), x.At(2)).ok());
  EXPECT_TRUE(x.s.dirty());
  ASSERT_EQ(x.Decide(2).stops.size(), 1u);
  EXPECT_FALSE(x.s.Drained(x.n[0]));
  ASSERT_TRUE(x.s.ReportStopped(WorkloadId(1), RunNumber(1), x.At(3)).ok());
  EXPECT_TRUE(x.s.Drained(x.n[0]));
}

TEST(Scheduler, ANodeThatFailsNamesEveryRunItTakesAlong) {
  Ai2Site x(2);
  WorkloadSpec lost = x.Job(4, x.a, 2, hours(1));
  lost.resumable = false;
  x.Submit(x.Job(9, x.a, 4, hours(1), 2), 0);  // on both nodes
  x.Submit(lost, 0);
  x.Submit(x.Job(5, x.b, 2, hours(1)), 0);
  const Decisions d = x.DecideAndStart(0);
  ASSERT_EQ(d.starts.size(), 3u);
  NodeId node;
  for (const Start& start : d.starts) {
    if (start.workload == WorkloadId(4)) node = d.Nodes(start)[0];
  }
  // Tightest fit puts the other one beside it.
  ASSERT_TRUE(x.s.Cancel(WorkloadId(5), x.At(60)).ok());
  EXPECT_TRUE(x.s.SetNode(node, NodeHealth::kDraining, x.At(60))->lost.empty());
  const NodeReport report = x.s.SetNode(node, NodeHealth::kDown, x.At(60), x.At(90)).value();
  EXPECT_EQ(report.lost, (std::vector<LostRun>{
                             {WorkloadId(4), RunNumber(1), LossOutcome::kFailedWithNode},
                             {WorkloadId(5), RunNumber(1), LossOutcome::kCancelled},
                             {WorkloadId(9), RunNumber(1), LossOutcome::kRequeued},
                         }));
  EXPECT_STREQ(ToString(report.lost[0].outcome), "failed-with-node");
  EXPECT_EQ(x.s.Explain(WorkloadId(4)).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(x.s.Standing(x.a, x.At(90))->used_in_window, GpuCount(10) * seconds(60));
  EXPECT_TRUE(x.s.SetNode(node, NodeHealth::kDown, x.At(91))->lost.empty());  // it is already
}

TEST(Scheduler, AClosedAllocationLosesItsHolds) {
  Ai2Site x(1);
  x.Submit(x.Job(1, x.a, 8, hours(1)), 0);
  x.DecideAndStart(0);
  x.Submit(x.Job(2, x.b, 8, hours(1)), 10);
  ASSERT_EQ(x.Decide(3600).holds.size(), 1u);
  ASSERT_TRUE(x.s.CloseAllocation(x.b, x.At(3601)).ok());
  EXPECT_EQ(x.Reason(2), WaitReason::kClosed);
  ASSERT_TRUE(x.s.ReportStopped(WorkloadId(1), RunNumber(1), x.At(3605)).ok());
  const Decisions& d = x.Decide(3605);
  ASSERT_EQ(d.starts.size(), 1u);
  EXPECT_EQ(d.starts[0].workload, WorkloadId(1));
}

TEST(Scheduler, WeightZeroTurnsAHoldIntoUnfundedWaiting) {
  Ai2Site x(1);
  x.Submit(x.Job(1, x.a, 8, hours(1)), 0);
  x.DecideAndStart(0);
  x.Submit(x.Job(2, x.b, 8, hours(1)), 10);
  ASSERT_EQ(x.Decide(3600).holds.size(), 1u);
  ASSERT_TRUE(x.s.SetWeight(x.b, Weight{0}, x.At(3601), "me", "budget cut", x.At(3601)).ok());
  x.Decide(3601);
  EXPECT_EQ(x.Reason(2), WaitReason::kUnfundedWaits);
}

TEST(Scheduler, ARefusedLaunchDoesNotBlockItsTeam) {
  Ai2Site x(1);
  x.Submit(x.Job(1, x.a, 4, hours(1)), 0);
  x.Decide(0);
  ASSERT_TRUE(x.s.ReportStartFailed(WorkloadId(1), RunNumber(1), x.At(1)).ok());
  x.Submit(x.Job(2, x.a, 4, hours(1)), 1);
  const Decisions d = x.Decide(1);
  ASSERT_EQ(d.starts.size(), 1u);
  EXPECT_EQ(d.starts[0].workload, WorkloadId(2));
  EXPECT_LE(d.next_wakeup, x.At(6));
  const Decisions& later = x.Decide(6);  // one tick later the node is as good as any
  ASSERT_EQ(later.starts.size(), 1u);
  EXPECT_EQ(later.starts[0].workload, WorkloadId(1));
  EXPECT_EQ(later.starts[0].run, RunNumber(2));
}

TEST(Scheduler, RefusedUnfundedWorkIsTriedAgainWithoutAnEvent) {
  Ai2Site x(1);
  x.Submit(x.Job(1, x.a, 4, Duration(0)), 0);
  x.Decide(0);
  ASSERT_TRUE(x.s.ReportStartFailed(WorkloadId(1), RunNumber(1), x.At(1)).ok());
  const Decisions d = x.Decide(1);
  EXPECT_TRUE(d.starts.empty());
  EXPECT_EQ(d.next_wakeup, x.At(6));
  EXPECT_EQ(x.Decide(6).starts.size(), 1u);
}

TEST(Scheduler, WhatOnlyTheLaneCouldHoldNeverFits) {
  SchedulerOptions options = Ai2Site::Plain();
  options.lane_permille = 500;  // one of the two nodes
  Ai2Site x(2, options);
  x.Submit(x.Job(1, x.a, 8, hours(1), 2), 0);
  x.Submit(x.Job(2, x.a, 8, hours(1), 1), 0);
  x.Decide(0);
  EXPECT_EQ(x.Reason(1), WaitReason::kNeverFits);
  EXPECT_EQ(x.State(2), WorkloadState::kStarting);
  (void)x.s.AddNode("n9", GpuCount(8), x.type, kRootDomain, x.At(1)).value();
  (void)x.s.AddNode("m9", GpuCount(8), x.type, kRootDomain, x.At(1)).value();
  x.Decide(1);
  EXPECT_NE(x.Reason(1), WaitReason::kNeverFits);
}

TEST(Scheduler, StandingCountsOnlyProtectionsThatLastWithoutAPass) {
  Ai2Site x(2);
  x.Submit(x.Job(1, x.a, 8, hours(1)), 0);
  x.Submit(x.Job(2, x.a, 8, hours(8)), 0);
  x.DecideAndStart(0);
  const AllocationStanding now = x.s.Standing(x.a, x.At(0)).value();
  EXPECT_EQ(now.committed_ahead, GpuCount(8) * hours(9));
  const AllocationStanding later = x.s.Standing(x.a, x.At(7 * 3600)).value();
  EXPECT_EQ(later.committed_ahead, GpuCount(8) * hours(1));
  EXPECT_EQ(later.used_in_window, GpuCount(16) * hours(7));
}

TEST(Scheduler, ReportsBeforeTheStartAreRefused) {
  Ai2Site x(1);
  x.Submit(x.Job(1, x.a, 8, hours(1)), 100);
  x.DecideAndStart(100);
  ASSERT_TRUE(x.s.Cancel(WorkloadId(1), x.At(110)).ok());
  x.Decide(110);
  const std::uint64_t digest = x.s.Digest();
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(x.s.ReportStopped(WorkloadId(1), RunNumber(1), x.At(99), x.At(120)).status().code(),
            invalid);
  EXPECT_EQ(x.s.ReportCheckpoint(WorkloadId(1), RunNumber(1), x.At(99), x.At(120)).code(), invalid);
  EXPECT_EQ(x.s.ReportEnded(WorkloadId(1), RunNumber(1), x.At(99), x.At(120)).code(), invalid);
  EXPECT_EQ(x.s.Digest(), digest);
}

TEST(Scheduler, ALostEndIsInferredAtTheLastSignOfLife) {
  Ai2Site x(1);
  x.Submit(x.Job(1, x.a, 8, hours(1)), 0);
  x.DecideAndStart(0);
  ASSERT_TRUE(x.s.ReportCheckpoint(WorkloadId(1), RunNumber(1), x.At(3000), x.At(3000)).ok());
  const ReconcileReport report = x.s.Reconcile({}, x.At(7200)).value();
  ASSERT_EQ(report.ended.size(), 1u);
  EXPECT_EQ(x.s.Standing(x.a, x.At(7200)).value().used_in_window, GpuCount(8) * seconds(3000));
  EXPECT_TRUE(x.s.Reconcile({}, x.At(7300)).value().ended.empty());
  ASSERT_TRUE(x.s.ReportEnded(WorkloadId(1), RunNumber(1), x.At(3600), x.At(9000)).ok());
  EXPECT_EQ(x.s.Standing(x.a, x.At(9000)).value().used_in_window, GpuCount(8) * seconds(3600));
}

// Three leaves that are due 14, 1 and 1 of 16 GPUs. The first holds 14 for days; when it is far
// ahead the other two ask for 4 GPUs each, which is more than they are due.
TEST(BudgetPolicy, OnlyALeafThatHasNothingPlacedStopsOneFarAhead) {
  SchedulerOptions options = MakePreset("budget").scheduler;
  options.lane_permille = 0;
  options.reservation.gang = GpuCount(0);
  options.ranking.gain = Duration(0);
  Site<BudgetPolicy> w(2, options);
  const AllocationId ahead =
      w.s.AddAllocation("ahead", kRootAllocation, Weight{14}, w.At(0)).value();
  constexpr std::int64_t kHour = 3600;
  for (std::uint64_t id = 1; id <= 14; ++id) w.Submit(w.Job(id, ahead, 1, hours(1)), 0);
  w.Submit(w.Job(20, w.b, 1, hours(1)), 0);
  ASSERT_EQ(w.DecideAndStart(0).starts.size(), 15u);
  ASSERT_TRUE(w.s.ReportEnded(WorkloadId(20), RunNumber(1), w.At(9 * kHour), w.At(9 * kHour)).ok());
  w.Submit(w.Job(30, w.a, 1, hours(1)), 60 * kHour);
  ASSERT_EQ(w.DecideAndStart(60 * kHour).starts.size(), 1u);

  // a has used an hour of its share, b nine: a is asked first, but has something.
  w.Submit(w.Job(31, w.a, 4, hours(1)), 61 * kHour);
  EXPECT_TRUE(w.Decide(61 * kHour).stops.empty());
  w.Submit(w.Job(21, w.b, 4, hours(1)), 61 * kHour);
  const Decisions d = w.Decide(61 * kHour);
  ASSERT_EQ(d.stops.size(), 3u) << "one is free";
  for (const Stop& stop : d.stops) EXPECT_EQ(stop.beneficiary, WorkloadId(21));
  EXPECT_EQ(w.State(31), WorkloadState::kPending);
}

// Nodes are not promised that hold a service, which has no end, and a promised node takes none.
TEST(BudgetPolicy, PromisesAndServicesKeepOutOfEachOthersWay) {
  SchedulerOptions options = MakePreset("budget").scheduler;
  options.lane_permille = 0;
  options.reservation.gang = GpuCount(16);
  options.reservation.first_credit = Duration(0);
  options.ranking.gain = Duration(0);
  Site<BudgetPolicy> w(3, options);
  WorkloadSpec service = w.Job(1, w.a, 4, minutes(1));
  service.workload_class = WorkloadClass::kServing;
  w.Submit(service, 0);
  w.Submit(w.Job(2, w.a, 8, hours(4)), 0);
  w.Submit(w.Job(3, w.a, 4, hours(2)), 0);
  ASSERT_EQ(w.DecideAndStart(0).starts.size(), 3u);
  // The one node that is empty, and the one whose protections end last: the third has the service.
  w.Submit(w.Job(4, w.b, 8, hours(1), 2), 60);
  Promise promise;
  for (std::int64_t t = 60; t <= 3600 && promise.nodes.size == 0; t += 60) {
    const Decisions& d = w.Decide(t);
    if (!d.promises.empty()) promise = d.promises[0];
  }
  EXPECT_EQ(promise.workload, WorkloadId(4));
  EXPECT_EQ(promise.start_by, w.At(4 * 3600 + 10));
  // Short enough to be over by then, if it had an end.
  service.id = WorkloadId(5);
  w.Submit(service, 3700);
  WorkloadSpec training = w.Job(6, w.a, 1, minutes(1));
  w.Submit(training, 3700);
  const Decisions d = w.Decide(3700);
  ASSERT_EQ(d.starts.size(), 1u);
  EXPECT_EQ(d.starts[0].workload, WorkloadId(6));
}

// A run that is about to save its work is left alone, but for half of the time at most.
TEST(BudgetPolicy, SavingOftenProtectsNobody) {
  SchedulerOptions options = MakePreset("budget").scheduler;
  options.lane_permille = 0;
  options.reservation.gang = GpuCount(0);
  Site<BudgetPolicy> w(1, options);
  for (std::uint64_t id : {1u, 2u}) {
    WorkloadSpec saves = w.Job(id, w.a, 4, hours(1));
    saves.checkpoint_interval = minutes(10);
    w.Submit(saves, 0);
  }
  ASSERT_EQ(w.DecideAndStart(0).starts.size(), 2u);
  w.Submit(w.Job(3, w.b, 4, hours(1)), 3 * 3600);
  const auto stops = [&](int minute) { return w.Decide(3 * 3600 + 60 * minute).stops.size(); };
  EXPECT_EQ(stops(6), 0u) << "saves in four minutes";
  EXPECT_EQ(stops(14), 1u) << "saved four minutes ago";
}

TEST(Scheduler, OptionsThatWouldOverflowAreRefused) {
  const auto refused = [](auto change) {
    SchedulerOptions o;
    change(o);
    return Scheduler<Ai2Policy>::CheckOptions(o).code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_FALSE(refused([](SchedulerOptions&) {}));
  EXPECT_TRUE(refused([](SchedulerOptions& o) { o.grace = Duration::max(); }));
  EXPECT_TRUE(refused([](SchedulerOptions& o) { o.tick = Duration::max(); }));
  EXPECT_TRUE(refused([](SchedulerOptions& o) { o.retry = Duration::max(); }));
  EXPECT_TRUE(refused([](SchedulerOptions& o) { o.idle_after = Duration::max(); }));
  EXPECT_TRUE(refused([](SchedulerOptions& o) { o.lane_minimum = Duration(-1); }));
}

TEST(Scheduler, ARunOfTenThousandYearsIsStoppedWithoutOverflow) {
  Ai2Site x(1);
  x.Submit(x.Job(1, x.a, 8, hours(1)), 0);
  x.DecideAndStart(0);
  const std::int64_t late = std::int64_t{10'000} * 365 * 86'400;
  x.Submit(x.Job(2, x.b, 8, hours(1)), late);
  const Decisions& d = x.Decide(late);
  ASSERT_EQ(d.stops.size(), 1u);
  EXPECT_EQ(d.stops[0].lost_work, GpuCount(8) * Run::kMostLost);
  EXPECT_EQ(x.s.Standing(x.a, x.At(late)).value().used_in_window, GpuCount(8) * kDefaultLookback);
}

// A gang with a promise.
TEST(Scheduler, APromisedGangStartsAsSoonAsItFits) {
  SchedulerOptions options = Ai2Site::Plain();
  options.reservation.gang = GpuCount(16);
  options.reservation.first_credit = Duration(0);
  options.ranking.fluid = true;
  Site<BudgetPolicy> x(2, options);
  x.Submit(x.Job(1, x.a, 8, hours(2)), 0);
  x.Submit(x.Job(2, x.a, 8, hours(8)), 0);
  x.DecideAndStart(0);
  x.Submit(x.Job(3, x.b, 8, hours(1), 2), 10);
  std::vector<Promise> promises;
  for (std::int64_t t = 10; t <= 3600 && promises.empty(); t += 60) {
    promises = x.Decide(t).promises;
  }
  ASSERT_EQ(promises.size(), 1u);
  EXPECT_EQ(promises[0].start_by, x.At(8 * 3600 + 10));
  EXPECT_EQ(x.Reason(3), WaitReason::kReserved);
  ASSERT_TRUE(x.s.ReportEnded(WorkloadId(1), RunNumber(1), x.At(4000)).ok());
  EXPECT_TRUE(x.Decide(4000).starts.empty());
  ASSERT_TRUE(x.s.ReportEnded(WorkloadId(2), RunNumber(1), x.At(5000)).ok());
  EXPECT_TRUE(x.s.dirty());
  const Decisions& d = x.Decide(5000);
  ASSERT_EQ(d.starts.size(), 1u);
  EXPECT_EQ(d.starts[0].workload, WorkloadId(3));
}

// A stopped gang saves up for its next run; one of the same shape that never ran need not wait.
TEST(Scheduler, AStoppedGangDoesNotKeepTheNextOneFromAPromise) {
  SchedulerOptions options = Ai2Site::Plain();
  options.reservation.gang = GpuCount(16);
  options.reservation.first_credit = Duration(0);
  options.reservation.restart_credit = hours(1000);
  options.ranking.fluid = true;
  Site<BudgetPolicy> x(2, options);
  x.Submit(x.Job(1, x.b, 8, hours(1), 2), 0);
  ASSERT_EQ(x.DecideAndStart(0).starts.size(), 1u);
  x.Submit(x.Job(2, x.b, 8, hours(1), 2), 10);
  x.Submit(x.Job(3, x.a, 8, hours(1), 2), 20);
  for (std::int64_t t = 20; t < 3600; t += 60) x.Decide(t);
  const Decisions due = x.Decide(3600);
  ASSERT_EQ(due.stops.size(), 1u);
  EXPECT_EQ(due.stops[0].workload, WorkloadId(1));
  ASSERT_TRUE(x.s.ReportStopped(WorkloadId(1), RunNumber(1), x.At(3605)).ok());
  ASSERT_EQ(x.DecideAndStart(3605).starts.size(), 1u);  // a's gang
  std::vector<Promise> promises;
  for (std::int64_t t = 3660; t <= 4 * 3600 && promises.empty(); t += 60) {
    promises = x.Decide(t).promises;
  }
  ASSERT_EQ(promises.size(), 1u);
  EXPECT_EQ(promises[0].workload, WorkloadId(2));
}

}  // namespace
}  // namespace tenure
