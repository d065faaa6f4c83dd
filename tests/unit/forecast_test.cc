// SPDX-License-Identifier: Apache-2.0
#include "tenure/forecast.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tenure/policy.h"
#include "tenure/scheduler.h"
#include "tenure/types.h"

namespace tenure {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

TimePoint At(Duration d) { return TimePoint(d); }

// `nodes` nodes of 8 GPUs; two teams of equal weight.
class ForecastTest : public testing::Test {
 protected:
  using S = Scheduler<BudgetPolicy>;

  static SchedulerOptions Options() {
    SchedulerOptions o;
    o.lane_permille = 0;
    return o;
  }
  void Build(int nodes, const SchedulerOptions& options = Options()) {
    BudgetOptions policy;
    policy.quantum = minutes(30);
    s = S(options, BudgetPolicy(policy));
    const GpuTypeId type = s.InternGpuType("gpu");
    for (int i = 0; i < nodes; ++i) {
      ASSERT_TRUE(
          s.AddNode(absl::StrCat("n", i), GpuCount(8), type, kRootDomain, At(hours(0))).ok());
    }
    a = s.AddAllocation("a", kRootAllocation, Weight{1}, At(hours(0))).value();
    b = s.AddAllocation("b", kRootAllocation, Weight{1}, At(hours(0))).value();
  }
  static WorkloadSpec Spec(std::uint64_t id, AllocationId leaf, Duration minimum,
                           std::uint32_t nodes = 1, std::int64_t gpus = 8) {
    WorkloadSpec spec;
    spec.id = WorkloadId(id);
    spec.allocation = leaf;
    spec.nodes = nodes;
    spec.gpus_per_node = GpuCount(gpus);
    spec.minimum = minimum;
    return spec;
  }
  void Submit(const WorkloadSpec& spec, TimePoint now) { ASSERT_TRUE(s.Submit(spec, now).ok()); }
  // One pass; every start is confirmed at once, every stop after the grace if `stops`.
  std::vector<WorkloadId> Pass(TimePoint now) {
    std::vector<WorkloadId> started;
    const Decisions d = *s.Decide(now).value();
    for (const Start& start : d.starts) {
      EXPECT_TRUE(s.ReportStarted(start.workload, start.run, now).ok());
      started.push_back(start.workload);
    }
    for (const Stop& stop : d.stops) stopping.push_back(stop);
    return started;
  }

  S s{Options()};
  AllocationId a, b;
  std::vector<Stop> stopping;
};

TEST_F(ForecastTest, WaitsForTheEndOfTheDeclaredMinimum) {
  Build(1);
  Submit(Spec(1, a, hours(2)), At(hours(0)));
  ASSERT_EQ(Pass(At(hours(0))).size(), 1u);
  Submit(Spec(2, b, hours(1)), At(minutes(30)));
  Submit(Spec(3, b, hours(1)), At(minutes(30)));
  ASSERT_TRUE(Pass(At(minutes(30))).empty());
  const std::uint64_t before = s.Digest();
  const ForecastResult second = Forecast(s, WorkloadId(2)).value();
  EXPECT_EQ(second.start, At(hours(2)));
  EXPECT_FALSE(second.promised);
  EXPECT_FALSE(second.started);
  EXPECT_EQ(second.reason, WaitReason::kNoCapacity);
  EXPECT_EQ(Forecast(s, WorkloadId(3))->start, At(hours(3)));
  const ForecastResult first = Forecast(s, WorkloadId(1)).value();
  EXPECT_TRUE(first.started);
  EXPECT_EQ(first.start, At(hours(0)));
  EXPECT_EQ(s.Digest(), before);
}

TEST_F(ForecastTest, UsesADeclaredLimitWhereThereIsOne) {
  Build(1);
  WorkloadSpec job = Spec(1, a, hours(2));
  job.name = "limit 5 h";
  Submit(job, At(hours(0)));
  ASSERT_EQ(Pass(At(hours(0))).size(), 1u);
  Submit(Spec(2, a, hours(1)), At(hours(0)));  // the same leaf never preempts itself
  ASSERT_TRUE(Pass(At(hours(0))).empty());
  ForecastOptions options;
  options.limit = [](const WorkloadSpec& w) {
    return w.name.empty() ? Duration(0) : Duration(hours(5));
  };
  EXPECT_EQ(Forecast(s, WorkloadId(2), options)->start, At(hours(5)));
  options.horizon = hours(4);
  const ForecastResult none = Forecast(s, WorkloadId(2), options).value();
  EXPECT_EQ(none.start, kNever);
  EXPECT_EQ(none.searched_until, At(hours(4)));
  options.horizon = hours(24);
  options.max_passes = 1;
  EXPECT_EQ(Forecast(s, WorkloadId(2), options)->start, kNever);
}

TEST_F(ForecastTest, CountsPreemptionAndGrace) {
  SchedulerOptions o = Options();
  o.grace = seconds(90);
  Build(2, o);
  // a holds both nodes, far over its entitlement, and declares that it stays for long.
  for (std::uint64_t id : {1u, 2u}) Submit(Spec(id, a, hours(2)), At(hours(0)));
  ASSERT_EQ(Pass(At(hours(0))).size(), 2u);
  Submit(Spec(3, b, hours(1)), At(hours(1)));
  ASSERT_TRUE(Pass(At(hours(1))).empty());
  ForecastOptions options;
  options.limit = [](const WorkloadSpec& w) {
    return w.minimum == hours(2) ? Duration(hours(100)) : Duration(0);
  };
  // Protection ends at 2 h; the policy leaves a run alone for the quantum of 30 min after that.
  const ForecastResult f = Forecast(s, WorkloadId(3), options).value();
  EXPECT_EQ(f.start, At(hours(2) + minutes(30) + seconds(90)));
  // Played for real, it starts then.
  const TimePoint due = f.start - seconds(90);
  EXPECT_TRUE(Pass(due - minutes(5)).empty());
  EXPECT_TRUE(stopping.empty());
  Pass(due);
  ASSERT_EQ(stopping.size(), 1u);
  EXPECT_EQ(Forecast(s, WorkloadId(3), options)->start, f.start);  // held: the same answer
  EXPECT_EQ(Forecast(s, WorkloadId(3), options)->reason, WaitReason::kWaitsForStop);
  Pass(due + seconds(40));  // also when it is asked while the grace passes
  EXPECT_EQ(Forecast(s, WorkloadId(3), options)->start, f.start);
  ASSERT_TRUE(s.ReportStopped(stopping[0].workload, stopping[0].run, f.start).ok());
  EXPECT_EQ(Pass(f.start), std::vector<WorkloadId>{WorkloadId(3)});
}

TEST_F(ForecastTest, UnfundedRunsAreAssumedToLastAnHour) {
  Build(1);
  Submit(Spec(1, a, Duration(0)), At(hours(0)));
  ASSERT_EQ(Pass(At(hours(0))).size(), 1u);
  Submit(Spec(2, b, Duration(0)), At(minutes(10)));
  ASSERT_TRUE(Pass(At(minutes(10))).empty());
  const ForecastResult f = Forecast(s, WorkloadId(2)).value();
  EXPECT_EQ(f.start, At(hours(1)));
  EXPECT_EQ(f.reason, WaitReason::kUnfundedWaits);
}

TEST_F(ForecastTest, NamesThePromiseOfAReservedGang) {
  SchedulerOptions o = Options();
  o.reservation.gang = GpuCount(16);
  o.reservation.first_credit = Duration(0);
  Build(2, o);
  for (std::uint64_t id : {1u, 2u}) Submit(Spec(id, a, hours(2)), At(hours(0)));
  ASSERT_EQ(Pass(At(hours(0))).size(), 2u);
  Submit(Spec(3, b, hours(1), 2), At(minutes(1)));
  Pass(At(minutes(1)));
  Pass(At(minutes(2)));  // now the credit meter has seen its demand
  ASSERT_EQ(s.Explain(WorkloadId(3))->reason, WaitReason::kReserved);
  const ForecastResult f = Forecast(s, WorkloadId(3)).value();
  EXPECT_TRUE(f.promised);
  EXPECT_EQ(f.start, At(hours(2)) + o.grace);
  EXPECT_EQ(f.passes, 0u);
}

TEST_F(ForecastTest, KnowsWhatCanNeverFit) {
  Build(1);
  Submit(Spec(1, a, hours(1), 3), At(hours(0)));
  Pass(At(hours(0)));
  const ForecastResult f = Forecast(s, WorkloadId(1)).value();
  EXPECT_EQ(f.start, kNever);
  EXPECT_EQ(f.reason, WaitReason::kNeverFits);
  EXPECT_EQ(Forecast(s, WorkloadId(9)).status().code(), absl::StatusCode::kNotFound);
  ForecastOptions bad;
  bad.step = Duration(0);
  EXPECT_EQ(Forecast(s, WorkloadId(1), bad).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ForecastTest, EndsWithALongQueueAndRepeats) {
  Build(4);
  std::uint64_t id = 0;
  for (int i = 0; i < 300; ++i) {
    Submit(Spec(++id, i % 2 ? a : b, hours(1 + i % 3), 1 + static_cast<std::uint32_t>(i % 2),
                i % 5 ? 8 : 3),
           At(seconds(i)));
  }
  Pass(At(seconds(300)));
  const ForecastResult f = Forecast(s, WorkloadId(299)).value();
  ASSERT_NE(f.start, kNever);
  EXPECT_GT(f.start, At(hours(50)));
  EXPECT_EQ(Forecast(s, WorkloadId(299))->start, f.start);
  EXPECT_EQ(Forecast(s, WorkloadId(299))->passes, f.passes);
}

TEST_F(ForecastTest, WhatIfStartsOnFreeGpusAndChangesNothing) {
  Build(2);
  Submit(Spec(1, a, hours(1)), At(hours(0)));
  Pass(At(hours(0)));
  const std::uint64_t before = s.Digest();
  const WhatIfResult w = WhatIf(s, Spec(2, b, hours(1)), At(hours(1))).value();
  EXPECT_TRUE(w.starts_now);
  EXPECT_FALSE(w.held);
  EXPECT_FALSE(w.reserved);
  ASSERT_EQ(w.nodes.size(), 1u);
  EXPECT_TRUE(w.victims.empty());
  EXPECT_EQ(w.reason, WaitReason::kNone);
  EXPECT_EQ(WhatIf(s, Spec(1, b, hours(1)), At(hours(1))).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(WhatIf(s, Spec(2, b, hours(1)), At(-hours(1))).status().code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(s.Digest(), before);
  // What was answered is what happens.
  Submit(Spec(2, b, hours(1)), At(hours(1)));
  EXPECT_EQ(Pass(At(hours(1))), std::vector<WorkloadId>{WorkloadId(2)});
  EXPECT_EQ(s.table().workload(s.table().Find(WorkloadId(2))).nodes[0], w.nodes[0]);
}

TEST_F(ForecastTest, WhatIfNamesVictimsAndTheirLoss) {
  Build(2);
  const AllocationId c = s.AddAllocation("c", kRootAllocation, Weight{1}, At(hours(0))).value();
  Submit(Spec(1, a, Duration(0), 1, 4), At(hours(0)));
  Submit(Spec(2, a, Duration(0), 1, 4), At(hours(0)));
  Submit(Spec(3, c, Duration(0), 1, 8), At(hours(0)));
  ASSERT_EQ(Pass(At(hours(0))).size(), 3u);
  const std::uint64_t before = s.Digest();
  const WhatIfResult w = WhatIf(s, Spec(4, b, hours(1), 2), At(hours(3))).value();
  EXPECT_FALSE(w.starts_now);
  EXPECT_TRUE(w.held);
  EXPECT_EQ(w.nodes.size(), 2u);
  EXPECT_EQ(w.victims.size(), 3u);
  EXPECT_EQ(w.reason, WaitReason::kWaitsForStop);
  const std::vector<AllocationLoss> losses = {{a, GpuCount(8) * hours(3)},
                                              {c, GpuCount(8) * hours(3)}};
  EXPECT_EQ(w.losses, losses);
  EXPECT_EQ(s.Digest(), before);
}

TEST_F(ForecastTest, WhatIfTellsOfAReservationAndOfWaiting) {
  SchedulerOptions o = Options();
  o.reservation.gang = GpuCount(16);
  o.reservation.first_credit = Duration(0);
  Build(2, o);
  for (std::uint64_t id : {1u, 2u}) Submit(Spec(id, a, hours(2)), At(hours(0)));
  ASSERT_EQ(Pass(At(hours(0))).size(), 2u);
  const WhatIfResult small = WhatIf(s, Spec(3, b, hours(1)), At(hours(1))).value();
  EXPECT_FALSE(small.starts_now || small.held || small.reserved);
  EXPECT_EQ(small.reason, WaitReason::kNoCapacity);
  EXPECT_TRUE(small.nodes.empty());
  // A little demand of b first: a leaf that never asked for anything is owed nothing.
  Submit(Spec(9, b, hours(1)), At(minutes(10)));
  Pass(At(minutes(10)));
  const WhatIfResult gang = WhatIf(s, Spec(4, b, hours(1), 2), At(hours(1))).value();
  EXPECT_TRUE(gang.reserved);
  EXPECT_EQ(gang.promised, At(hours(2)) + o.grace);
  EXPECT_EQ(gang.nodes.size(), 2u);
  EXPECT_TRUE(gang.victims.empty());
  EXPECT_EQ(gang.reason, WaitReason::kReserved);
}

}  // namespace
}  // namespace tenure
