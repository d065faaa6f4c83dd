// SPDX-License-Identifier: Apache-2.0

#include "tenure/sim/metrics.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
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

// A world of hand-made jobs on one tree. Leaves 0 and 1 are in program p, leaf 2 alone in program
// q, all with the weights given; leaf 3 (weight 0 unless asked) lies directly below the root.
class MetricsTest : public ::testing::Test {
 protected:
  void MakeWorld(std::int32_t gpus, double a, double b, double c, double flat = 0) {
    world_.cluster = {.nodes = gpus, .gpus_per_node = 1, .nodes_per_rack = 0};
    const AllocationId p = tree_.Add("p", kRootAllocation, Weight{a + b}).value();
    const AllocationId q = tree_.Add("q", kRootAllocation, Weight{c}).value();
    leaf_ids_ = {tree_.Add("a", p, Weight{a}).value(), tree_.Add("b", p, Weight{b}).value(),
                 tree_.Add("c", q, Weight{c}).value(),
                 tree_.Add("d", kRootAllocation, Weight{flat}).value()};
    world_.leaves = {{"p/a", {a + b, a}}, {"p/b", {a + b, b}}, {"q/c", {c, c}}, {"d", {flat}}};
  }

  // Returns the index of a new job; funded unless of class sweep.
  std::size_t AddJob(std::int32_t leaf, std::int32_t gpus,
                     WorkloadClass klass = WorkloadClass::kTraining, Duration patience = {}) {
    JobRow row;
    row.runtime_us = 1;
    row.leaf = leaf;
    row.nodes = gpus;
    row.minimum_us = klass == WorkloadClass::kSweep ? 0 : 1;
    row.workload_class = static_cast<std::uint32_t>(klass);
    row.patience_us = patience.count();
    world_.jobs.push_back(row);
    return world_.jobs.size() - 1;
  }

  MetricsRecorder Record(Duration end, Duration warmup = {}, Duration tail = {}) {
    return MetricsRecorder(world_, tree_, leaf_ids_, {.warmup = warmup, .end = end, .tail = tail});
  }

  World world_;
  BudgetTree tree_;
  std::vector<AllocationId> leaf_ids_;
};

TEST_F(MetricsTest, AnEmptyRunMeasuresNothing) {
  MakeWorld(12, 3, 3, 6);
  const Metrics m = Record(hours(2)).Finish(At(hours(2)));
  EXPECT_EQ(m.owed_cum, std::nullopt);
  EXPECT_EQ(m.owed_cum_worst, std::nullopt);
  EXPECT_EQ(m.owed_cum_worst_program, std::nullopt);
  EXPECT_EQ(m.owed_strict, std::nullopt);
  EXPECT_EQ(m.waste, std::nullopt);
  EXPECT_EQ(m.unfunded_share, std::nullopt);
  EXPECT_EQ(m.preemptions_per_job, std::nullopt);
  EXPECT_EQ(m.repreempted_1h_share, std::nullopt);
  EXPECT_EQ(m.gangs_done_share, std::nullopt);
  EXPECT_EQ(m.wait_s[0].p50, std::nullopt);
  EXPECT_EQ(m.goodput, 0.0);
  EXPECT_EQ(m.occupancy, 0.0);
  EXPECT_EQ(m.availability, 1.0);
  EXPECT_EQ(m.leaves, 0);
  ASSERT_EQ(m.leaf.size(), 4u);
  EXPECT_DOUBLE_EQ(m.leaf[0].share, 0.25);
  EXPECT_DOUBLE_EQ(m.leaf[2].share, 0.5);
  EXPECT_DOUBLE_EQ(m.leaf[3].share, 0);
}

// Field case L41: capacity 12, entitlements 3, 3, 6.
TEST_F(MetricsTest, OwedIsCappedHourByHour) {
  MakeWorld(12, 3, 3, 6);
  const std::size_t a = AddJob(0, 2), b1 = AddJob(1, 1), b8 = AddJob(1, 8), b_wait = AddJob(1, 1),
                    b9 = AddJob(1, 9), c = AddJob(2, 1);
  MetricsRecorder r = Record(hours(2));
  // Hour 1: demand 2, 10, 1; delivered 2, 9, 1.
  for (std::size_t j : {a, b1, b8, b_wait, c}) r.Submitted(j, At(Duration(0)));
  for (std::size_t j : {a, b1, b8, c}) r.Started(j, At(Duration(0)), Duration(0));
  // Hour 2: B alone wants 10 and gets 1.
  for (std::size_t j : {a, b8, c}) r.Finished(j, At(hours(1)));
  r.Withdrawn(b_wait, At(hours(1)));
  r.Submitted(b9, At(hours(1)));
  const Metrics m = r.Finish(At(hours(2)));
  EXPECT_DOUBLE_EQ(m.leaf[0].owed_gpu_h, 2);
  EXPECT_DOUBLE_EQ(m.leaf[1].owed_gpu_h, 6);
  EXPECT_DOUBLE_EQ(m.leaf[2].owed_gpu_h, 1);
  EXPECT_DOUBLE_EQ(m.leaf[0].delivered_gpu_h, 2);
  EXPECT_DOUBLE_EQ(m.leaf[1].delivered_gpu_h, 10);
  EXPECT_DOUBLE_EQ(m.leaf[2].delivered_gpu_h, 1);
  EXPECT_DOUBLE_EQ(m.leaf[1].owed_strict.value(), 4.0 / 6);  // not 10/6
  EXPECT_DOUBLE_EQ(m.leaf[1].owed_cum.value(), 1);
  EXPECT_DOUBLE_EQ(m.leaf[1].owed_win7.value(), 4.0 / 6);  // an earlier surplus repays nothing
  EXPECT_DOUBLE_EQ(m.owed_strict.value(), 7.0 / 9);
  EXPECT_DOUBLE_EQ(m.owed_cum.value(), 1);
  EXPECT_DOUBLE_EQ(m.owed_win7_worst.value(), 4.0 / 6);
  EXPECT_EQ(m.leaf[3].owed_cum, std::nullopt);
  EXPECT_EQ(m.leaves, 3);
  EXPECT_EQ(m.leaves_ge_95, 3);
  double share = 0;
  for (const LeafResult& leaf : m.leaf) share += leaf.share;
  EXPECT_DOUBLE_EQ(share, 1);
}

TEST_F(MetricsTest, CumIsClippedPerLeafAndWorstIsTheWorst) {
  MakeWorld(8, 4, 2, 2);
  const std::size_t a = AddJob(0, 4), b = AddJob(1, 4), c = AddJob(2, 2);
  MetricsRecorder r = Record(hours(1));
  for (std::size_t j : {a, b, c}) r.Submitted(j, At(Duration(0)));
  r.Started(b, At(Duration(0)), Duration(0));
  r.Started(a, At(minutes(15)), Duration(0));
  r.Started(c, At(minutes(30)), Duration(0));
  const Metrics m = r.Finish(At(hours(1)));
  // Owed 4, 2, 2; delivered 3, 4, 1; clipped 3, 2, 1.
  EXPECT_DOUBLE_EQ(m.owed_cum.value(), 6.0 / 8);
  EXPECT_DOUBLE_EQ(m.owed_cum_worst.value(), 0.5);
  EXPECT_DOUBLE_EQ(m.leaf[0].owed_cum.value(), 0.75);
  EXPECT_EQ(m.leaves, 3);
  EXPECT_EQ(m.leaves_ge_95, 1);
  // Program p: entitled 6, demand 8, delivered 7: owed 6 in full. Program q: 1 of 2.
  EXPECT_DOUBLE_EQ(m.owed_cum_worst_program.value(), 0.5);
}

TEST_F(MetricsTest, AProgramIsOwedWhatItsLeavesWantTogether) {
  MakeWorld(8, 4, 4, 0);
  const std::size_t a = AddJob(0, 8);
  MetricsRecorder r = Record(hours(2));
  r.Submitted(a, At(Duration(0)));
  r.Started(a, At(hours(1)), Duration(0));
  const Metrics m = r.Finish(At(hours(2)));
  // Leaf: owed 4 + 4, delivered 8. Program: owed 8 + 8 (the idle share of b), delivered 8.
  EXPECT_DOUBLE_EQ(m.owed_cum.value(), 1);
  EXPECT_DOUBLE_EQ(m.owed_cum_worst_program.value(), 0.5);
}

TEST_F(MetricsTest, ALeafBelowTheRootIsInNoProgram) {
  MakeWorld(8, 0, 0, 0, 1);
  const std::size_t d = AddJob(3, 8);
  MetricsRecorder r = Record(hours(1));
  r.Submitted(d, At(Duration(0)));
  const Metrics m = r.Finish(At(hours(1)));
  EXPECT_DOUBLE_EQ(m.owed_cum.value(), 0);
  EXPECT_EQ(m.owed_cum_worst_program, std::nullopt);
}

TEST_F(MetricsTest, AChangeWithinAnHourSplitsIt) {
  MakeWorld(4, 2, 0, 2);
  const std::size_t a = AddJob(0, 3);
  MetricsRecorder r = Record(hours(3));
  r.Submitted(a, At(minutes(40)));
  r.Started(a, At(minutes(50)), Duration(0));
  r.Finished(a, At(minutes(130)));
  const Metrics m = r.Finish(At(hours(3)));
  // Demand 3 x 20 min, 3 x 60, 3 x 10; entitled 2 x 60 in each hour.
  EXPECT_DOUBLE_EQ(m.leaf[0].owed_gpu_h, 1 + 2 + 0.5);
  EXPECT_DOUBLE_EQ(m.leaf[0].delivered_gpu_h, 4);
  // Strict: min(30, 60) + min(180, 120) + min(30, 30) GPU-min of 210.
  EXPECT_DOUBLE_EQ(m.owed_strict.value(), 180.0 / 210);
  // The surplus of hour 2 repays the 30 GPU-min of hour 1.
  EXPECT_DOUBLE_EQ(m.owed_win7.value(), 1);
}

TEST_F(MetricsTest, SurplusRepaysForAWeekAndNotLonger) {
  for (const auto& [repay_hour, want] : {std::pair(168, 1.0), std::pair(169, 0.5)}) {
    SCOPED_TRACE(repay_hour);
    world_ = World();
    tree_ = BudgetTree();
    MakeWorld(4, 2, 0, 2);
    const std::size_t late = AddJob(0, 2), big = AddJob(0, 4);
    MetricsRecorder r = Record(hours(200));
    r.Submitted(late, At(Duration(0)));  // waits one hour: 2 GPU-h short
    r.Withdrawn(late, At(hours(1)));
    r.Submitted(big, At(hours(repay_hour)));  // owed 2, delivered 4
    r.Started(big, At(hours(repay_hour)), Duration(0));
    r.Finished(big, At(hours(repay_hour + 1)));
    const Metrics m = r.Finish(At(hours(200)));
    EXPECT_DOUBLE_EQ(m.owed_win7.value(), want);
    EXPECT_DOUBLE_EQ(m.owed_strict.value(), 0.5);
  }
}

TEST_F(MetricsTest, OwedFollowsHealthyCapacity) {
  MakeWorld(8, 4, 0, 4);
  const std::size_t a = AddJob(0, 8);
  MetricsRecorder r = Record(hours(2));
  r.Submitted(a, At(Duration(0)));
  r.Capacity(At(minutes(30)), GpuCount(4), GpuCount(8));
  r.Capacity(At(minutes(90)), GpuCount(8), GpuCount(8));
  const Metrics m = r.Finish(At(hours(2)));
  EXPECT_DOUBLE_EQ(m.leaf[0].owed_gpu_h, 2 + 1 + 1 + 2);
  EXPECT_DOUBLE_EQ(m.leaf[0].share, 0.5);
  EXPECT_DOUBLE_EQ(m.availability.value(), 0.75);
}

TEST_F(MetricsTest, OwedFollowsABudgetEdit) {
  MakeWorld(8, 4, 0, 4);
  const std::size_t a = AddJob(0, 8);
  MetricsRecorder r = Record(hours(2));
  r.Submitted(a, At(Duration(0)));
  const AllocationId q = tree_.Find("q").value();
  ASSERT_TRUE(tree_.ScheduleWeight(q, Weight{12}, At(hours(1)), "lead", "review").ok());
  tree_.ApplyEdits(At(hours(1)));
  r.Capacity(At(hours(1)), GpuCount(8), GpuCount(8));
  const Metrics m = r.Finish(At(hours(2)));
  EXPECT_DOUBLE_EQ(m.leaf[0].owed_gpu_h, 4 + 2);
}

TEST_F(MetricsTest, OnlyTheMeasuredTimeCounts) {
  MakeWorld(4, 2, 0, 2);
  const std::size_t a = AddJob(0, 4), late = AddJob(2, 4);
  MetricsRecorder r = Record(minutes(150), minutes(30));
  r.Submitted(a, At(Duration(0)));
  r.Started(a, At(Duration(0)), Duration(0));
  r.Finished(a, At(hours(2)));
  r.Submitted(late, At(hours(3)));  // after the end
  r.Started(late, At(hours(3)), Duration(0));
  const Metrics m = r.Finish(At(hours(4)));
  EXPECT_DOUBLE_EQ(m.leaf[0].owed_gpu_h, 3);
  EXPECT_DOUBLE_EQ(m.leaf[0].delivered_gpu_h, 6);
  EXPECT_DOUBLE_EQ(m.occupancy.value(), 0.75);
  EXPECT_EQ(m.leaf[2].owed_cum, std::nullopt);
  EXPECT_EQ(m.jobs, 2);
}

TEST_F(MetricsTest, AnEarlyEndEndsTheMeasurement) {
  MakeWorld(4, 2, 0, 2);
  const std::size_t a = AddJob(0, 4);
  MetricsRecorder r = Record(hours(10));
  r.Submitted(a, At(Duration(0)));
  r.Started(a, At(Duration(0)), Duration(0));
  r.Finished(a, At(minutes(90)));
  const Metrics m = r.Finish(At(minutes(90)));
  EXPECT_DOUBLE_EQ(m.occupancy.value(), 1);
  EXPECT_DOUBLE_EQ(m.leaf[0].owed_gpu_h, 3);
}

TEST_F(MetricsTest, GoodputAndWasteCountLostWorkAndOverheads) {
  MakeWorld(10, 5, 0, 5);
  const std::size_t stopped = AddJob(0, 4), runs = AddJob(0, 2),
                    sweep = AddJob(2, 4, WorkloadClass::kSweep);
  MetricsRecorder r = Record(hours(4));
  for (std::size_t j : {stopped, runs, sweep}) {
    r.Submitted(j, At(Duration(0)));
    r.Started(j, At(Duration(0)), Duration(0));
  }
  r.Stopped(stopped, At(hours(1)), minutes(30), StopOutcome::kRequeued);  // 2 GPU-h lost
  r.Stopped(sweep, At(hours(1)), minutes(15), StopOutcome::kRequeued);    // 1 GPU-h lost
  r.Stopped(runs, At(hours(1)), Duration(0), StopOutcome::kRequeued);
  r.Started(stopped, At(hours(2)), minutes(15));  // 1 GPU-h of overhead, then finishes
  r.Finished(stopped, At(hours(3)));
  r.Started(runs, At(minutes(225)), minutes(30));  // 15 of its 30 minutes until the end: 0.5 GPU-h
  const Metrics m = r.Finish(At(hours(4)));
  const double funded = 4 + 2 + 4 + 0.5, all = funded + 4;
  EXPECT_DOUBLE_EQ(m.goodput.value(), (funded - 2 - 1 - 0.5) / 40);
  EXPECT_DOUBLE_EQ(m.waste.value(), (2 + 1 + 1 + 0.5) / all);
  EXPECT_DOUBLE_EQ(m.occupancy.value(), all / 40);
  EXPECT_DOUBLE_EQ(m.unfunded_share.value(), 4 / all);
  EXPECT_EQ(m.starts, 5);
  EXPECT_EQ(m.preemptions, 3);
}

TEST_F(MetricsTest, CountsPreemptionsOfFundedRuns) {
  MakeWorld(10, 5, 0, 5);
  const std::size_t a = AddJob(0, 1), b = AddJob(0, 1, WorkloadClass::kInteractive),
                    sweep = AddJob(2, 1, WorkloadClass::kSweep),
                    debug = AddJob(0, 1, WorkloadClass::kDebug), before = AddJob(0, 1);
  MetricsRecorder r = Record(hours(10), hours(1));
  r.Submitted(before, At(Duration(0)));  // submitted and stopped in the warm-up
  r.Started(before, At(Duration(0)), Duration(0));
  r.Stopped(before, At(minutes(59)), Duration(0), StopOutcome::kRequeued);
  for (std::size_t j : {a, b, sweep, debug}) {
    r.Submitted(j, At(hours(1)));
    r.Started(j, At(hours(1)), Duration(0));
  }
  r.Stopped(a, At(minutes(90)), Duration(0), StopOutcome::kRequeued);      // first time
  r.Stopped(b, At(minutes(90)), Duration(0), StopOutcome::kRequeued);      // a session
  r.Stopped(sweep, At(minutes(90)), Duration(0), StopOutcome::kRequeued);  // not funded
  r.Stopped(debug, At(minutes(90)), Duration(0), StopOutcome::kFailed);
  r.Started(a, At(hours(2)), Duration(0));
  r.Stopped(a, At(minutes(179)), Duration(0), StopOutcome::kRequeued);  // again, after 59 min
  r.Started(a, At(hours(3)), Duration(0));
  r.Stopped(a, At(hours(4)), Duration(0), StopOutcome::kRequeued);  // again, but after an hour
  const Metrics m = r.Finish(At(hours(10)));
  EXPECT_DOUBLE_EQ(m.preemptions_per_job.value(), 5.0 / 3);
  EXPECT_DOUBLE_EQ(m.repreempted_1h_share.value(), 1.0 / 5);
  EXPECT_EQ(m.sessions_killed, 1);
  EXPECT_EQ(m.preemptions, 7);
}

TEST_F(MetricsTest, WaitsAreGroupedAndCensored) {
  MakeWorld(100, 50, 0, 50);
  const std::size_t debug = AddJob(0, 8, WorkloadClass::kDebug), training = AddJob(0, 63),
                    gang = AddJob(0, 64, WorkloadClass::kTraining, hours(3)),
                    session = AddJob(0, 1, WorkloadClass::kInteractive, hours(100)),
                    serving = AddJob(0, 64, WorkloadClass::kServing),
                    sweep = AddJob(0, 64, WorkloadClass::kSweep), early = AddJob(0, 1),
                    late = AddJob(0, 1), never = AddJob(0, 200);
  MetricsRecorder r = Record(hours(10), hours(1), hours(2));
  r.Submitted(early, At(minutes(59)));
  for (std::size_t j : {debug, training, gang, session, serving, sweep}) {
    r.Submitted(j, At(hours(1)));
  }
  r.NeverFits(never, At(hours(1)));
  r.Started(debug, At(hours(1) + seconds(15)), Duration(0));
  r.Started(serving, At(hours(1) + seconds(20)), Duration(0));
  r.Stopped(serving, At(hours(2)), Duration(0), StopOutcome::kRequeued);
  r.Started(sweep, At(hours(2)), Duration(0));
  r.Started(serving, At(hours(3)), Duration(0));  // only the first start counts
  r.Withdrawn(gang, At(hours(4)));
  r.Submitted(late, At(hours(8)));  // exactly `tail` before the end: left out
  const Metrics m = r.Finish(At(hours(10)));
  const auto p50 = [&](WaitGroup g) { return m.wait_s[static_cast<std::size_t>(g)].p50.value(); };
  EXPECT_DOUBLE_EQ(p50(WaitGroup::kDebug), 15);
  EXPECT_DOUBLE_EQ(p50(WaitGroup::kTraining), 9 * 3600);     // no patience: to the end
  EXPECT_DOUBLE_EQ(p50(WaitGroup::kGang), 3 * 3600);         // withdrawn: its patience
  EXPECT_DOUBLE_EQ(p50(WaitGroup::kInteractive), 9 * 3600);  // patience beyond the end
  EXPECT_DOUBLE_EQ(p50(WaitGroup::kSweep), 3600);
  // All funded: 15 s, 20 s, 3 h, 9 h, 9 h.
  const Quantiles& all = m.wait_s[static_cast<std::size_t>(WaitGroup::kAll)];
  EXPECT_DOUBLE_EQ(all.p50.value(), 3 * 3600);
  EXPECT_DOUBLE_EQ(all.p90.value(), 9 * 3600);
  EXPECT_EQ(m.jobs, 9);
  EXPECT_EQ(m.jobs_never_fit, 1);
  EXPECT_EQ(m.jobs_withdrawn, 1);
  EXPECT_EQ(m.jobs_queued, 4);
  EXPECT_EQ(m.jobs_running, 3);
}

TEST_F(MetricsTest, WaitsAreThoseOfWorkSubmittedBeforeTheTail) {
  for (const auto& [submit, counted] :
       {std::pair(minutes(59), false), std::pair(minutes(60), true), std::pair(minutes(479), true),
        std::pair(minutes(480), false)}) {
    SCOPED_TRACE(submit.count());
    world_ = World();
    tree_ = BudgetTree();
    MakeWorld(100, 50, 0, 50);
    const std::size_t job = AddJob(0, 64);
    MetricsRecorder r = Record(hours(10), hours(1), hours(2));
    r.Submitted(job, At(submit));
    const Metrics m = r.Finish(At(hours(10)));
    EXPECT_EQ(m.wait_s[0].p50.has_value(), counted);
    EXPECT_EQ(m.gangs_done_share.has_value(), counted);
    EXPECT_EQ(m.preemptions_per_job.has_value(), counted);
  }
}

TEST_F(MetricsTest, QuantileIsTheValueNumberFloorPn) {
  MakeWorld(100, 50, 0, 50);
  for (int i = 0; i < 10; ++i) AddJob(0, 1);
  MetricsRecorder r = Record(hours(1));
  for (std::size_t j = 0; j < 10; ++j) r.Submitted(j, At(Duration(0)));
  for (std::size_t j = 0; j < 10; ++j) {  // waits 10, 20, ... 100 s
    r.Started(j, At(seconds(10 * (j + 1))), Duration(0));
  }
  const Metrics m = r.Finish(At(hours(1)));
  const Quantiles& all = m.wait_s[static_cast<std::size_t>(WaitGroup::kAll)];
  EXPECT_DOUBLE_EQ(all.p50.value(), 60);
  EXPECT_DOUBLE_EQ(all.p90.value(), 100);
  EXPECT_DOUBLE_EQ(all.p99.value(), 100);
}

TEST_F(MetricsTest, CountsGangsToTheirCompletion) {
  MakeWorld(100, 50, 0, 50);
  const std::size_t done = AddJob(0, 64), running = AddJob(0, 64), queued = AddJob(0, 64),
                    gone = AddJob(0, 64, WorkloadClass::kTraining, hours(5)), small = AddJob(0, 63),
                    never = AddJob(0, 128);
  MetricsRecorder r = Record(hours(100), Duration(0), hours(2));
  for (std::size_t j : {done, running, queued, gone, small}) r.Submitted(j, At(hours(1)));
  r.NeverFits(never, At(hours(1)));
  r.Started(done, At(hours(2)), Duration(0));
  r.Stopped(done, At(hours(4)), Duration(0), StopOutcome::kRequeued);
  r.Withdrawn(gone, At(hours(6)));
  r.Started(done, At(hours(8)), Duration(0));
  r.Finished(done, At(hours(11)));
  r.Started(running, At(hours(12)), Duration(0));
  const Metrics m = r.Finish(At(hours(100)));
  EXPECT_DOUBLE_EQ(m.gangs_done_share.value(), 0.25);
  // 5 h (withdrawn), 10 h (done), 99 h twice.
  EXPECT_DOUBLE_EQ(m.gang_turnaround_s.p50.value(), 99 * 3600);
  EXPECT_EQ(m.jobs, 6);
  EXPECT_EQ(m.jobs_done + m.jobs_running + m.jobs_queued + m.jobs_withdrawn + m.jobs_failed +
                m.jobs_never_fit,
            m.jobs);
}

TEST_F(MetricsTest, AnUnfitWorkloadLeavesTheDemand) {
  MakeWorld(10, 5, 0, 5);
  const std::size_t huge = AddJob(0, 1000);
  MetricsRecorder r = Record(hours(2));
  r.Submitted(huge, At(Duration(0)));
  r.NeverFits(huge, At(hours(1)));
  const Metrics m = r.Finish(At(hours(2)));
  EXPECT_DOUBLE_EQ(m.leaf[0].owed_gpu_h, 5);
  EXPECT_EQ(m.jobs, 1);
  EXPECT_EQ(m.jobs_never_fit, 1);
  EXPECT_EQ(m.wait_s[0].p50, std::nullopt);
}

TEST_F(MetricsTest, HugeDemandSaturatesInsteadOfOverflowing) {
  MakeWorld(static_cast<std::int32_t>(kMaxClusterGpus), 1, 0, 1);
  for (int i = 0; i < 5000; ++i) AddJob(0, static_cast<std::int32_t>(kMaxClusterGpus));
  MetricsRecorder r = Record(hours(2));
  for (std::size_t j = 0; j < world_.jobs.size(); ++j) r.Submitted(j, At(Duration(0)));
  const Metrics m = r.Finish(At(hours(2)));
  EXPECT_DOUBLE_EQ(m.leaf[0].owed_gpu_h, static_cast<double>(kMaxClusterGpus));
  EXPECT_DOUBLE_EQ(m.owed_cum.value(), 0);
}

// The definitions of the header, minute by minute: every event lies on a whole minute.
TEST_F(MetricsTest, AgreesWithAMinuteByMinuteModel) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    world_ = World();
    tree_ = BudgetTree();
    MakeWorld(24, 6, 3, 15);
    Rng rng(seed);
    constexpr std::int64_t kMinutes = 15 * 24 * 60, kWarmup = 24 * 60;
    struct Event {
      std::int64_t minute;
      std::size_t job;
      int kind;  // 0 submitted, 1 started, 2 stopped, 3 finished
    };
    std::vector<Event> events;
    for (int i = 0; i < 120; ++i) {
      const std::size_t job = AddJob(
          static_cast<std::int32_t>(rng.Below(3)), static_cast<std::int32_t>(1 + rng.Below(12)),
          rng.Chance(1, 5) ? WorkloadClass::kSweep : WorkloadClass::kTraining);
      std::int64_t t = rng.Below(kMinutes - 1);
      events.push_back({t, job, 0});
      while (true) {
        t += rng.Below(2000);
        if (t >= kMinutes) break;
        events.push_back({t, job, 1});
        t += rng.Below(2000);
        if (t >= kMinutes) break;
        const bool stop = rng.Chance(1, 2);
        events.push_back({t, job, stop ? 2 : 3});
        if (!stop) break;
      }
    }
    std::stable_sort(events.begin(), events.end(),
                     [](const Event& a, const Event& b) { return a.minute < b.minute; });
    MetricsRecorder r = Record(minutes(kMinutes), minutes(kWarmup));
    for (const Event& e : events) {
      const TimePoint t = At(minutes(e.minute));
      if (e.kind == 0) r.Submitted(e.job, t);
      if (e.kind == 1) r.Started(e.job, t, Duration(0));
      if (e.kind == 2) r.Stopped(e.job, t, Duration(0), StopOutcome::kRequeued);
      if (e.kind == 3) r.Finished(e.job, t);
    }
    const Metrics m = r.Finish(At(minutes(kMinutes)));

    // GPU-minutes per hour of each leaf.
    constexpr std::array<std::int64_t, 3> kEntitled = {6, 3, 15};
    std::array<std::int64_t, 3> running{}, queued{};
    std::int64_t unfunded = 0, busy = 0, unfunded_sum = 0;
    std::size_t next = 0;
    std::array<std::int64_t, 3> owed{}, got{}, strict{}, repaid{};
    std::array<std::deque<std::pair<std::int64_t, std::int64_t>>, 3> due;
    std::array<std::int64_t, 2> p_owed{}, p_got{};
    for (std::int64_t hour = 0; hour < kMinutes / 60; ++hour) {
      std::array<std::int64_t, 3> demand{}, delivered{};
      for (std::int64_t minute = hour * 60; minute < hour * 60 + 60; ++minute) {
        for (; next < events.size() && events[next].minute <= minute; ++next) {
          const JobRow& job = world_.jobs[events[next].job];
          const auto l = static_cast<std::size_t>(job.leaf);
          const int kind = events[next].kind;
          const std::int64_t run = (kind == 1 ? 1 : kind >= 2 ? -1 : 0) * job.gpus();
          const std::int64_t queue = (kind == 0 || kind == 2 ? 1 : kind == 1 ? -1 : 0) * job.gpus();
          if (job.funded()) {
            running[l] += run;
            queued[l] += queue;
          } else {
            unfunded += run;
          }
        }
        for (std::size_t l = 0; l < 3; ++l) {
          demand[l] += running[l] + queued[l];
          delivered[l] += running[l];
        }
        if (minute >= kWarmup) {
          busy += running[0] + running[1] + running[2] + unfunded;
          unfunded_sum += unfunded;
        }
      }
      if (hour * 60 < kWarmup) continue;
      for (std::size_t l = 0; l < 3; ++l) {
        const std::int64_t o = std::min(kEntitled[l] * 60, demand[l]);
        owed[l] += o;
        got[l] += delivered[l];
        strict[l] += std::min(o, delivered[l]);
        repaid[l] += std::min(o, delivered[l]);
        while (!due[l].empty() && hour - due[l].front().first > 168) due[l].pop_front();
        if (delivered[l] < o) due[l].emplace_back(hour, o - delivered[l]);
        for (std::int64_t over = delivered[l] - o; over > 0 && !due[l].empty(); --over) {
          ++repaid[l];
          if (--due[l].front().second == 0) due[l].pop_front();
        }
      }
      const std::array<std::int64_t, 2> p_demand = {demand[0] + demand[1], demand[2]};
      const std::array<std::int64_t, 2> p_entitled = {9 * 60, 15 * 60};
      const std::array<std::int64_t, 2> p_delivered = {delivered[0] + delivered[1], delivered[2]};
      for (std::size_t p = 0; p < 2; ++p) {
        p_owed[p] += std::min(p_entitled[p], p_demand[p]);
        p_got[p] += p_delivered[p];
      }
    }
    double worst = 2, worst_program = 2, cum = 0, all_owed = 0;
    for (std::size_t l = 0; l < 3; ++l) {
      const auto o = static_cast<double>(owed[l]);
      const auto clipped = static_cast<double>(std::min(got[l], owed[l]));
      EXPECT_DOUBLE_EQ(m.leaf[l].owed_gpu_h, o / 60);
      EXPECT_DOUBLE_EQ(m.leaf[l].delivered_gpu_h, static_cast<double>(got[l]) / 60);
      EXPECT_DOUBLE_EQ(m.leaf[l].owed_strict.value(), static_cast<double>(strict[l]) / o);
      EXPECT_DOUBLE_EQ(m.leaf[l].owed_win7.value(), static_cast<double>(repaid[l]) / o);
      worst = std::min(worst, clipped / o);
      cum += clipped;
      all_owed += o;
    }
    for (std::size_t p = 0; p < 2; ++p) {
      worst_program = std::min(worst_program, static_cast<double>(std::min(p_got[p], p_owed[p])) /
                                                  static_cast<double>(p_owed[p]));
    }
    EXPECT_DOUBLE_EQ(m.owed_cum.value(), cum / all_owed);
    EXPECT_DOUBLE_EQ(m.owed_cum_worst.value(), worst);
    EXPECT_DOUBLE_EQ(m.owed_cum_worst_program.value(), worst_program);
    EXPECT_DOUBLE_EQ(m.occupancy.value(),
                     static_cast<double>(busy) / static_cast<double>(24 * (kMinutes - kWarmup)));
    EXPECT_DOUBLE_EQ(m.unfunded_share.value(),
                     static_cast<double>(unfunded_sum) / static_cast<double>(busy));
  }
}

}  // namespace
}  // namespace tenure::sim
