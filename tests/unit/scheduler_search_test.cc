// SPDX-License-Identifier: Apache-2.0
//
// Plan search inside a pass.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tenure/any_scheduler.h"
#include "tenure/policy.h"
#include "tenure/presets.h"
#include "tenure/scheduler.h"
#include "tenure/search_scene.h"
#include "tenure/types.h"

namespace tenure {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

const TimePoint t0{Duration(0)};

class SchedulerSearchTest : public ::testing::Test {
 protected:
  // Nodes of 8 GPUs, teams of equal weight, no lane.
  void Build(int nodes, int teams, std::uint32_t trials) {
    SchedulerOptions o;
    o.lane_permille = 0;
    o.search.trials = trials;
    o.search.backend = plan::BackendKind::kCpu;
    ASSERT_TRUE(Scheduler<BudgetPolicy>::CheckOptions(o).ok());
    s = std::make_unique<Scheduler<BudgetPolicy>>(o);
    const GpuTypeId type = s->InternGpuType("h100");
    for (int n = 0; n < nodes; ++n) {
      s->AddNode(absl::StrCat("n", n), GpuCount(8), type, kRootDomain, t0).value();
    }
    for (int t = 0; t < teams; ++t) {
      team[t] = s->AddAllocation(absl::StrCat("team", t), kRootAllocation, Weight{1.0}, t0).value();
    }
  }
  void Submit(std::uint64_t id, int of_team, std::int64_t gpus, Duration minimum = hours(4)) {
    WorkloadSpec w;
    w.id = WorkloadId(id);
    w.allocation = team[of_team];
    w.gpus_per_node = GpuCount(gpus);
    w.minimum = minimum;
    ASSERT_TRUE(s->Submit(w, now).ok());
  }
  const Decisions& Decide() { return **s->Decide(now); }

  std::unique_ptr<Scheduler<BudgetPolicy>> s;
  AllocationId team[4];
  TimePoint now = t0;
};

// On two nodes of 8: tightest fit in the order of the queue leaves the last request waiting.
TEST_F(SchedulerSearchTest, StartsWhatTheOrderOfTheQueueLeavesWaiting) {
  for (const std::uint32_t trials : {0u, 64u}) {
    Build(2, 1, trials);
    const std::int64_t gpus[] = {4, 2, 6, 4};
    for (std::uint64_t i = 0; i < 4; ++i) Submit(i + 1, 0, gpus[i]);
    const Decisions& d = Decide();
    EXPECT_EQ(d.starts.size(), trials == 0 ? 3u : 4u);
    if (trials == 0) {
      EXPECT_EQ(d.search, SearchRecord{});
      continue;
    }
    EXPECT_EQ(d.search.outcome, SearchOutcome::kTaken);
    EXPECT_EQ(d.search.backend, plan::BackendKind::kCpu);
    EXPECT_GT(d.search.winner, 0u);
    EXPECT_LE(d.search.trials, 64u);
    EXPECT_LT(d.search.price, d.search.price_before);
  }
}

TEST_F(SchedulerSearchTest, ChangesNothingWhereNothingIsToBeGained) {
  Build(2, 1, 0);
  Submit(1, 0, 8);
  Submit(2, 0, 8);
  const Decisions plain = Decide();
  Build(2, 1, 64);
  Submit(1, 0, 8);
  Submit(2, 0, 8);
  const Decisions searched = Decide();
  EXPECT_EQ(searched.search.outcome, SearchOutcome::kNoGain);
  ASSERT_EQ(searched.starts.size(), plain.starts.size());
  for (std::size_t i = 0; i < plain.starts.size(); ++i) {
    EXPECT_EQ(searched.starts[i].workload, plain.starts[i].workload);
    EXPECT_EQ(searched.Nodes(searched.starts[i])[0], plain.Nodes(plain.starts[i])[0]);
  }
  Submit(3, 0, 8);  // no place for it, and none under any order
  EXPECT_EQ(Decide().search.outcome, SearchOutcome::kNone);
}

TEST_F(SchedulerSearchTest, SnapshotsCarryTrialsAndSeedButNotTheBackEnd) {
  Build(2, 1, 64);
  Submit(1, 0, 4);
  SchedulerOptions same = s->options(), other = s->options();
  same.search.threads = 7;
  same.search.backend = plan::BackendKind::kAuto;
  other.search.seed = 1;
  Scheduler<BudgetPolicy> restored(same), refused(other);
  EXPECT_TRUE(restored.Restore(s->Snapshot()).ok());
  EXPECT_EQ(restored.Digest(), s->Digest());
  EXPECT_EQ(refused.Restore(s->Snapshot()).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(restored.options().search.threads, 7u);
}

// A service has no end of protection: its nodes are released never, not at once.
TEST(SearchScene, MinutesAreRoundedUpAndNeverStaysFar) {
  EXPECT_EQ(internal::MinutesUp(Duration(0)), 0);
  EXPECT_EQ(internal::MinutesUp(Duration(1)), 1);
  EXPECT_EQ(internal::MinutesUp(minutes(3)), 3);
  EXPECT_EQ(internal::MinutesUp(minutes(3) + Duration(1)), 4);
  EXPECT_EQ(internal::MinutesUp(-minutes(3)), -3);
  EXPECT_EQ(internal::Minutes16(internal::MinutesUp(kNever - t0)), 0xfffe);
  EXPECT_EQ(internal::Minutes16(internal::MinutesUp(kNever - (t0 + Duration(1)))), 0xfffe);
}

TEST(SearchParameters, AreThoseOfEveryPreset) {
  for (const char* policy : kPresetNames) {
    Preset p = MakePreset(policy);
    EXPECT_FALSE(p.scheduler.search.On());
    ASSERT_TRUE(p.Set(policy, {{"search_trials", "64"},
                               {"search_backend", "cpu"},
                               {"search_seed", "5"},
                               {"search_threads", "2"},
                               {"search_tolerance", "30m"}})
                    .ok());
    EXPECT_EQ(p.scheduler.search.trials, 64u);
    EXPECT_EQ(p.scheduler.search.backend, plan::BackendKind::kCpu);
    EXPECT_EQ(p.scheduler.search_tolerance, minutes(30));
    EXPECT_TRUE(p.scheduler.search.On());
    ASSERT_TRUE(p.Set(policy, {{"search_backend", "off"}}).ok());
    EXPECT_FALSE(p.scheduler.search.On());
    const absl::Status bad = p.Set(policy, {{"search_backend", "gpu"}});
    EXPECT_EQ(bad.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(bad.message()).find("search_backend = 'gpu'"), std::string::npos) << bad;
  }
}

TEST(SearchParameters, AreChecked) {
  const auto made = [](const Parameters& p) { return MakeScheduler("budget", p).status(); };
  EXPECT_TRUE(made({{"search_trials", "1024"}}).ok());
  EXPECT_EQ(made({{"search_trials", "2000000"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(made({{"search_trials", "-1"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(made({{"search_threads", "0"}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(made({{"search_tolerance", "-1h"}}).code(), absl::StatusCode::kInvalidArgument);
  if (!plan::OpenCuda().ok()) {
    const absl::Status s = made({{"search_trials", "16"}, {"search_backend", "cuda"}});
    EXPECT_EQ(s.code(), absl::StatusCode::kUnavailable) << s;
  }
}

}  // namespace
}  // namespace tenure
