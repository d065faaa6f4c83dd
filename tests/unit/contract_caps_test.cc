// SPDX-License-Identifier: Apache-2.0
//
// Caps on what a user may have at once and on how long borrowed GPUs are protected.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tenure/policy.h"
#include "tenure/presets.h"
#include "tenure/scheduler.h"

namespace tenure {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

using S = Scheduler<BudgetPolicy>;

TimePoint At(Duration d) { return TimePoint(d); }

constexpr UserId kAnn{1}, kBen{2};

// Four nodes of 8 GPUs; a user may have 8 GPUs of training.
class UserCap : public ::testing::Test {
 protected:
  static SchedulerOptions Options() {
    SchedulerOptions o;
    o.lane_permille = 0;
    o.grace = minutes(1);
    o.reservation.gang = GpuCount(8);
    o.reservation.block = GpuCount(0);
    o.reservation.first_credit = Duration(0);
    o.contract.user_gpus[static_cast<std::size_t>(WorkloadClass::kTraining)] = GpuCount(8);
    return o;
  }
  UserCap() {
    const GpuTypeId type = s.InternGpuType("gpu");
    for (int i = 0; i < 4; ++i) {
      EXPECT_TRUE(s.AddNode(absl::StrCat("n", i), GpuCount(8), type, kRootDomain, At({})).ok());
    }
    a = s.AddAllocation("a", kRootAllocation, Weight{1}, At({})).value();
    b = s.AddAllocation("b", kRootAllocation, Weight{1}, At({})).value();
  }
  static WorkloadSpec Spec(std::uint64_t id, AllocationId leaf, UserId user, std::int64_t gpus,
                           Duration minimum = hours(2)) {
    WorkloadSpec spec;
    spec.id = WorkloadId(id);
    spec.allocation = leaf;
    spec.user = user;
    spec.gpus_per_node = GpuCount(gpus);
    spec.minimum = minimum;
    return spec;
  }
  void Submit(const WorkloadSpec& spec, Duration now = {}) {
    ASSERT_TRUE(s.Submit(spec, At(now)).ok());
  }
  // One pass; starts are confirmed, stops carried out at once. What was started.
  std::set<std::uint64_t> Pass(Duration now) {
    std::set<std::uint64_t> started;
    for (bool again = true; again;) {
      const Decisions d = *s.Decide(At(now)).value();
      for (const Start& start : d.starts) {
        started.insert(start.workload.value());
        EXPECT_TRUE(s.ReportStarted(start.workload, start.run, At(now)).ok());
      }
      for (const Stop& stop : d.stops) {
        EXPECT_TRUE(s.ReportStopped(stop.workload, stop.run, At(now)).ok());
      }
      again = !d.stops.empty();
    }
    return started;
  }
  WaitReason Reason(std::uint64_t id) const { return s.Explain(WorkloadId(id))->reason; }
  using Ids = std::set<std::uint64_t>;

  S s{Options()};
  AllocationId a, b;
};

TEST_F(UserCap, HoldsInTheWholeClusterAndForEveryUserAlone) {
  Submit(Spec(1, a, kAnn, 4));
  Submit(Spec(2, b, kAnn, 4));
  Submit(Spec(3, b, kAnn, 1));
  Submit(Spec(4, a, kBen, 8));
  EXPECT_EQ(Pass(hours(0)), (Ids{1, 2, 4}));
  EXPECT_EQ(Reason(3), WaitReason::kUserCap);
  ASSERT_TRUE(s.ReportEnded(WorkloadId(1), RunNumber(1), At(hours(1))).ok());
  EXPECT_EQ(Pass(hours(1)), (Ids{3}));
}

TEST_F(UserCap, LetsOthersOfTheTeamPass) {
  for (std::uint64_t id = 1; id <= 5; ++id) Submit(Spec(id, a, kAnn, 4));
  Submit(Spec(6, a, kBen, 4));
  EXPECT_EQ(Pass(hours(0)), (Ids{1, 2, 6}));
}

TEST_F(UserCap, CountsNeitherFreeWorkNorOtherClassesNorNobodys) {
  Submit(Spec(1, a, kAnn, 8));
  Submit(Spec(2, a, kAnn, 8, Duration(0)));
  WorkloadSpec session = Spec(3, a, kAnn, 2);
  session.workload_class = WorkloadClass::kInteractive;
  Submit(session);
  Submit(Spec(4, a, kNoUser, 8));
  Submit(Spec(5, a, kNoUser, 4));
  EXPECT_EQ(Pass(hours(0)), (Ids{1, 2, 3, 4, 5}));
}

TEST_F(UserCap, RefusesWhatNoUserMayHave) {
  const std::uint64_t before = s.Digest();
  const absl::Status refused = s.Submit(Spec(1, a, kAnn, 9), At(hours(0)));
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.message(),
            "workload 1: a user may have 8 GPUs of class training at once, asked 9");
  EXPECT_EQ(s.Digest(), before);
  EXPECT_TRUE(s.Submit(Spec(1, a, kAnn, 9, Duration(0)), At(hours(0))).ok());  // it is free
}

TEST_F(UserCap, CountsWhatIsPromised) {
  // b fills the cluster; the gang of a is promised nodes, and Ann's next waits for that.
  for (std::uint64_t id = 1; id <= 4; ++id)
    Submit(Spec(id, b, UserId(10 + static_cast<std::uint32_t>(id)), 8));
  ASSERT_EQ(Pass(hours(0)).size(), 4u);
  Submit(Spec(5, a, kAnn, 8), minutes(1));
  EXPECT_EQ(Pass(minutes(1)), Ids{});
  EXPECT_EQ(Pass(minutes(2)), Ids{});  // its team has fallen behind meanwhile
  ASSERT_EQ(Reason(5), WaitReason::kReserved);
  Submit(Spec(6, a, kAnn, 4), minutes(3));
  ASSERT_TRUE(s.SetNode(NodeId(0), NodeHealth::kDraining, At(minutes(3))).ok());
  ASSERT_TRUE(s.AddNode("small", GpuCount(4), GpuTypeId(0), kRootDomain, At(minutes(3))).ok());
  EXPECT_EQ(Pass(minutes(3)), Ids{});
  EXPECT_EQ(Reason(6), WaitReason::kUserCap);
  ASSERT_TRUE(s.Cancel(WorkloadId(5), At(minutes(4))).ok());
  EXPECT_EQ(Pass(minutes(4)), (Ids{6}));
}

TEST_F(UserCap, IsKeptAcrossASnapshot) {
  for (std::uint64_t id = 1; id <= 3; ++id) Submit(Spec(id, a, kAnn, 4));
  ASSERT_EQ(Pass(hours(0)), (Ids{1, 2}));
  S restored{Options()};
  ASSERT_TRUE(restored.Restore(s.Snapshot()).ok());
  EXPECT_EQ(restored.Digest(), s.Digest());
  s = restored;
  EXPECT_EQ(Pass(hours(1)), Ids{});
  EXPECT_EQ(Reason(3), WaitReason::kUserCap);
  ASSERT_TRUE(s.ReportEnded(WorkloadId(2), RunNumber(1), At(hours(1))).ok());
  EXPECT_EQ(Pass(hours(1)), (Ids{3}));
}

// Two teams, each entitled to one of two nodes.
class BorrowedCap : public ::testing::Test {
 protected:
  static SchedulerOptions Options(Duration borrowed) {
    SchedulerOptions o;
    o.lane_permille = 0;
    o.contract.borrowed_cap.fill(borrowed);
    return o;
  }
  explicit BorrowedCap(Duration borrowed = hours(1)) : s(Options(borrowed)) {
    const GpuTypeId type = s.InternGpuType("gpu");
    for (const char* name : {"n1", "n2"}) {
      EXPECT_TRUE(s.AddNode(name, GpuCount(8), type, kRootDomain, At({})).ok());
    }
    a = s.AddAllocation("a", kRootAllocation, Weight{1}, At({})).value();
    EXPECT_TRUE(s.AddAllocation("b", kRootAllocation, Weight{1}, At({})).ok());
  }
  void Run(std::uint64_t id, std::int64_t gpus, Duration minimum, Duration now) {
    WorkloadSpec spec;
    spec.id = WorkloadId(id);
    spec.allocation = a;
    spec.gpus_per_node = GpuCount(gpus);
    spec.minimum = minimum;
    EXPECT_TRUE(s.Submit(spec, At(now)).ok());
    EXPECT_EQ(s.Decide(At(now)).value()->starts.size(), 1u);
    // Confirmed late: the protection is as long as decided.
    EXPECT_TRUE(s.ReportStarted(spec.id, RunNumber(1), At(now + minutes(2))).ok());
  }
  Duration ProtectedFor(std::uint64_t id) const {
    const tenure::Run& run = s.table().run(s.table().Find(WorkloadId(id)));
    return run.protected_until - run.start;
  }
  S s;
  AllocationId a;
};

TEST_F(BorrowedCap, IsForWhatStartsBeyondTheEntitlement) {
  Run(1, 4, hours(4), minutes(0));
  Run(2, 4, hours(4), minutes(10));
  EXPECT_EQ(ProtectedFor(1), hours(4));
  EXPECT_EQ(ProtectedFor(2), hours(4));  // reaches its entitlement
  Run(3, 1, hours(4), minutes(20));
  EXPECT_EQ(ProtectedFor(3), hours(1));
  Run(4, 1, minutes(30), minutes(30));
  EXPECT_EQ(ProtectedFor(4), minutes(30));
  // Only what is protected is committed, and so are the charges that rank it.
  const AllocationStanding standing = s.Standing(a, At(minutes(32))).value();
  const auto gpu_minutes = [](std::int64_t n) { return GpuTime(n * 60'000'000); };
  EXPECT_EQ(standing.committed_ahead,
            gpu_minutes(4 * (242 - 32) + 4 * (252 - 32) + (82 - 32) + (62 - 32)));
  // What lies within it when it comes back is protected whole again.
  for (std::uint64_t id : {1u, 2u, 4u}) {
    ASSERT_TRUE(s.ReportEnded(WorkloadId(id), RunNumber(1), At(minutes(40))).ok());
  }
  Run(5, 7, hours(4), minutes(40));
  EXPECT_EQ(ProtectedFor(5), hours(4));
  EXPECT_EQ(ProtectedFor(3), hours(1));  // nothing changes under way
}

class NothingBorrowed : public BorrowedCap {
 protected:
  NothingBorrowed() : BorrowedCap(Duration(0)) {}
};

TEST_F(NothingBorrowed, IsProtectedAtAll) {
  Run(1, 8, hours(4), minutes(0));
  Run(2, 8, hours(4), minutes(10));
  EXPECT_EQ(ProtectedFor(1), hours(4));
  EXPECT_EQ(ProtectedFor(2), Duration(0));
}

TEST(UserCapParameters, AreTheSameInAllPresets) {
  for (const std::string name : kPresetNames) {
    Preset p = MakePreset(name);
    ASSERT_TRUE(p.Set(name, {{"user_debug_gpus", "4"},
                             {"user_session_gpus", "5"},
                             {"user_training_gpus", "6"},
                             {"user_serving_gpus", "7"}})
                    .ok());
    EXPECT_EQ(p.scheduler.contract.UserGpus(WorkloadClass::kDebug), GpuCount(4));
    EXPECT_EQ(p.scheduler.contract.UserGpus(WorkloadClass::kInteractive), GpuCount(5));
    EXPECT_EQ(p.scheduler.contract.UserGpus(WorkloadClass::kTraining), GpuCount(6));
    EXPECT_EQ(p.scheduler.contract.UserGpus(WorkloadClass::kServing), GpuCount(7));
    EXPECT_FALSE(p.Set(name, {{"user_training_gpus", "-1"}}).ok());
  }
}

}  // namespace
}  // namespace tenure
