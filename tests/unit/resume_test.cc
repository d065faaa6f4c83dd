// SPDX-License-Identifier: Apache-2.0
//
// Work that saves itself when it is stopped, and what is kept for its next start.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "tenure/contract.h"
#include "tenure/policy.h"
#include "tenure/scheduler.h"
#include "tenure/workload_table.h"

namespace tenure {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

TimePoint At(Duration d) { return TimePoint(d); }

TEST(Restorable, LosesTheRestartOnly) {
  tenure::Run run;
  run.workload_class = WorkloadClass::kInteractive;
  run.gpus_per_node = run.node_count = 1;
  run.start = run.progress_since = At(hours(1));
  run.restart_overhead = minutes(5);
  EXPECT_EQ(run.LostIfStopped(At(hours(9))), hours(8) + minutes(5));
  run.restorable = true;
  EXPECT_EQ(run.LostIfStopped(At(hours(9))), minutes(5));
  run.workload_class = WorkloadClass::kTraining;
  EXPECT_EQ(run.LostIfStopped(At(hours(9))), minutes(5));
  // A run that is still coming back has spent that for nothing, too.
  run.progress_since = At(hours(1) + minutes(5));
  EXPECT_EQ(run.LostIfStopped(At(hours(1) + minutes(2))), minutes(2 + 5));
}

TEST(Restorable, NeedsResumableAndHasNoLivelock) {
  WorkloadSpec spec;
  spec.id = WorkloadId(3);
  spec.minimum = minutes(10);
  spec.checkpoint_interval = hours(1);
  ContractRules rules;
  rules.refuse_livelock = true;
  EXPECT_FALSE(rules.Check(spec).ok());
  spec.restorable = true;
  EXPECT_TRUE(rules.Check(spec).ok());
  spec.resumable = false;
  EXPECT_EQ(rules.Check(spec).message(), "workload 3: restorable, but not resumable");
}

class ResumeHint : public ::testing::Test {
 protected:
  ResumeHint() {
    const GpuTypeId type = s.InternGpuType("gpu");
    EXPECT_TRUE(s.AddNode("n", GpuCount(8), type, kRootDomain, At({})).ok());
    spec.allocation = s.AddAllocation("a", kRootAllocation, Weight{1}, At({})).value();
    spec.id = WorkloadId(7);
    spec.minimum = hours(1);
    EXPECT_TRUE(s.Submit(spec, At({})).ok());
  }
  Scheduler<BudgetPolicy> s;
  WorkloadSpec spec;
};

TEST_F(ResumeHint, IsKeptUntilTheWorkloadIsOver) {
  EXPECT_EQ(s.ResumeHint(spec.id).value(), "");
  const std::string hint("image\0 17", 9);  // bytes, never interpreted
  ASSERT_TRUE(s.SetResumeHint(spec.id, hint, At(minutes(1))).ok());
  EXPECT_EQ(s.now(), At(minutes(1)));
  ASSERT_EQ(s.Decide(At(minutes(1))).value()->starts.size(), 1u);
  ASSERT_TRUE(s.ReportStarted(spec.id, RunNumber(1), At(minutes(1))).ok());
  // The node fails: requeued, and what was kept is there.
  ASSERT_TRUE(s.SetNode(NodeId(0), NodeHealth::kDown, At(minutes(2))).ok());
  EXPECT_EQ(s.ResumeHint(spec.id).value(), hint);
  Scheduler<BudgetPolicy> restored;
  ASSERT_TRUE(restored.Restore(s.Snapshot()).ok());
  EXPECT_EQ(restored.ResumeHint(spec.id).value(), hint);
  EXPECT_EQ(restored.Digest(), s.Digest());
  ASSERT_TRUE(s.Cancel(spec.id, At(minutes(3))).ok());
  EXPECT_EQ(s.ResumeHint(spec.id).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(s.Submit(spec, At(minutes(3))).ok());  // the id is free again, and has nothing kept
  EXPECT_EQ(s.ResumeHint(spec.id).value(), "");
}

TEST_F(ResumeHint, IsPartOfTheStateAndCanBeTakenBack) {
  const std::uint64_t before = s.Digest();
  ASSERT_TRUE(s.SetResumeHint(spec.id, "x", At({})).ok());
  EXPECT_NE(s.Digest(), before);
  ASSERT_TRUE(s.SetResumeHint(spec.id, "", At({})).ok());
  EXPECT_EQ(s.Digest(), before);
}

TEST_F(ResumeHint, IsRefusedWithoutATrace) {
  ASSERT_TRUE(s.SetResumeHint(spec.id, std::string(kMaxHintBytes, 'x'), At(hours(1))).ok());
  const std::uint64_t before = s.Digest();
  const std::string longer(kMaxHintBytes + 1, 'x');
  EXPECT_EQ(s.SetResumeHint(spec.id, longer, At(hours(2))).message(),
            "resume hint of workload 7: 4097 bytes exceed 4096");
  EXPECT_EQ(s.SetResumeHint(WorkloadId(8), "x", At(hours(2))).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(s.SetResumeHint(spec.id, "x", At(hours(0))).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(s.Digest(), before);
}

}  // namespace
}  // namespace tenure
