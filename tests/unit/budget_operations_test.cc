// SPDX-License-Identifier: Apache-2.0
//
// What is done to budgets while work runs: moving a subtree, boosts with an end, charge rates,
// limits on preemption and on sessions.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tenure/budget_tree.h"
#include "tenure/charge_rates.h"
#include "tenure/policy.h"
#include "tenure/presets.h"
#include "tenure/scheduler.h"
#include "tenure/sim/random.h"
#include "tenure/token_bucket.h"
#include "tenure/types.h"
#include "tenure/usage_meter.h"

namespace tenure {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TimePoint At(Duration d) { return TimePoint(d); }

using S = Scheduler<BudgetPolicy>;

SchedulerOptions Options() {
  SchedulerOptions o;
  o.lane_permille = 0;
  o.reservation.gang = GpuCount(0);
  return o;
}

S Build(int nodes, const SchedulerOptions& options = Options()) {
  EXPECT_TRUE(S::CheckOptions(options).ok());
  BudgetOptions policy;
  policy.quantum = minutes(30);
  S s(options, BudgetPolicy(policy));
  const GpuTypeId type = s.InternGpuType("gpu");
  for (int i = 0; i < nodes; ++i) {
    EXPECT_TRUE(s.AddNode(absl::StrCat("n", i), GpuCount(8), type, kRootDomain, At(hours(0))).ok());
  }
  return s;
}

WorkloadSpec Spec(std::uint64_t id, AllocationId leaf, Duration minimum, std::int64_t gpus = 8,
                  std::uint32_t nodes = 1) {
  WorkloadSpec spec;
  spec.id = WorkloadId(id);
  spec.allocation = leaf;
  spec.nodes = nodes;
  spec.gpus_per_node = GpuCount(gpus);
  spec.minimum = minimum;
  return spec;
}

// One pass; starts are confirmed at once.
Decisions Pass(S& s, TimePoint now) {
  const Decisions d = *s.Decide(now).value();
  for (const Start& start : d.starts) {
    EXPECT_TRUE(s.ReportStarted(start.workload, start.run, now).ok());
  }
  return d;
}

WaitReason ReasonOf(const S& s, std::uint64_t id) { return s.Explain(WorkloadId(id))->reason; }

// --- Moving --------------------------------------------------------------------------------------

class MoveTest : public testing::Test {
 protected:
  AllocationId Add(const char* name, AllocationId parent, double weight = 1) {
    return tree.Add(name, parent, Weight{weight}).value();
  }
  absl::StatusCode Move(AllocationId id, AllocationId to) {
    return tree.Move(id, to, At(hours(1)), "ops", "reorganised").code();
  }
  BudgetTree tree;
  AllocationId nlp = Add("nlp", kRootAllocation), vision = Add("vision", kRootAllocation);
  AllocationId pre = Add("pre", nlp), post = Add("post", nlp), deep = Add("deep", post);
};

TEST_F(MoveTest, RelinksASubtree) {
  ASSERT_EQ(Move(post, vision), absl::StatusCode::kOk);
  EXPECT_EQ(tree.path(deep), "vision/post/deep");
  EXPECT_EQ(tree.Find("vision/post/deep").value(), deep);
  EXPECT_EQ(tree.Find("nlp/post").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(tree.depth(deep), 3);
  EXPECT_FALSE(tree.is_leaf(vision));
  EXPECT_TRUE(tree.Inside(deep, vision));
  EXPECT_FALSE(tree.Inside(deep, nlp));
  std::vector<MilliGpu> share;
  tree.Entitlements(MilliGpu(8000), share);
  EXPECT_EQ(share[deep.value()], MilliGpu(4000));
  EXPECT_EQ(share[pre.value()], MilliGpu(4000));
  ASSERT_EQ(tree.moves().size(), 1u);
  EXPECT_EQ(tree.moves()[0], (BudgetMove{post, nlp, vision, At(hours(1)), "ops", "reorganised"}));
  // The old name is free again, also for coming back.
  const AllocationId other = Add("post", nlp);
  EXPECT_EQ(Move(post, nlp), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(tree.Close(other).ok());
  EXPECT_EQ(Move(post, nlp), absl::StatusCode::kOk);
  EXPECT_EQ(tree.Find("nlp/post").value(), post);
  const std::vector<AllocationId> children(tree.children(nlp).begin(), tree.children(nlp).end());
  EXPECT_EQ(children, (std::vector<AllocationId>{pre, post, other}));
  EXPECT_TRUE(tree.is_leaf(vision));
}

TEST_F(MoveTest, IsRefusedWithoutATrace) {
  tree.MarkCharged(pre);
  const AllocationId closed = Add("closed", kRootAllocation), twin = Add("pre", vision);
  ASSERT_TRUE(tree.Close(closed).ok());
  const std::string before = internal::Pack(tree);
  EXPECT_EQ(Move(AllocationId(99), nlp), absl::StatusCode::kNotFound);
  EXPECT_EQ(Move(nlp, AllocationId(99)), absl::StatusCode::kNotFound);
  EXPECT_EQ(Move(kRootAllocation, nlp), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Move(nlp, nlp), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Move(nlp, deep), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Move(nlp, kRootAllocation), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Move(closed, nlp), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Move(pre, closed), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Move(post, pre), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Move(twin, nlp), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(internal::Pack(tree), before);
}

TEST_F(MoveTest, SurvivesAnArchiveWhenAParentIsYoungerThanItsChild) {
  const AllocationId young = Add("young", kRootAllocation);
  ASSERT_EQ(Move(post, young), absl::StatusCode::kOk);
  const std::string bytes = internal::Pack(tree);
  BudgetTree copy;
  ASSERT_TRUE(internal::Unpack(bytes, copy).ok());
  EXPECT_EQ(internal::Pack(copy), bytes);
  EXPECT_EQ(copy.path(deep), "young/post/deep");
  EXPECT_EQ(copy.depth(deep), 3);
  EXPECT_EQ(copy.Find("young/post").value(), post);
  EXPECT_EQ(copy.moves().size(), 1u);
  EXPECT_TRUE(std::equal(tree.preorder().begin(), tree.preorder().end(), copy.preorder().begin()));
}

TEST(MeterSum, EqualsOneMeterThatSawEverything) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    sim::Rng rng(seed, 7);
    const Duration window(50);
    UsageMeter a(window), b(window), both(window);
    std::int64_t now = 0;
    for (int i = 0; i < 40; ++i) {
      now += rng.Below(8);
      const TimePoint at(Duration(now - rng.Below(70)));
      const GpuCount delta(rng.Below(9) - 4);
      (rng.Below(2) ? a : b).Change(at, delta);
      both.Change(at, delta);
    }
    UsageMeter sum = a, back = both;
    sum.Add(b, 1);
    back.Add(b, -1);
    for (int ahead = 0; ahead < 60; ++ahead) {
      const TimePoint t(Duration(now + ahead));
      ASSERT_EQ(sum.UseAt(t), both.UseAt(t)) << seed;
      ASSERT_EQ(back.UseAt(t), a.UseAt(t)) << seed;
    }
    // Late corrections still work.
    const TimePoint late(Duration(now - 10));
    sum.Change(late, GpuCount(3));
    both.Change(late, GpuCount(3));
    both.Use(TimePoint(Duration(now)));
    sum.Use(TimePoint(Duration(now)));
    ASSERT_TRUE(sum == both) << seed;
  }
}

// A cluster in use, with every occupation kept apart: what an allocation has used is the sum over
// the leaves that are below it now.
TEST(MoveAllocation, TakesItsHistoryAlongExactly) {
  struct Occupation {
    AllocationId leaf;
    std::int64_t gpus;
    TimePoint begin, end = kNever;
    bool funded;
  };
  SchedulerOptions options = Options();
  options.lookback = hours(48);
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    sim::Rng rng(seed, 11);
    S s = Build(6, options);
    const TimePoint t0 = At(hours(0));
    std::vector<AllocationId> inner = {kRootAllocation}, leaves;
    for (const char* name : {"x", "y", "z"}) {
      inner.push_back(s.AddAllocation(name, kRootAllocation, Weight{2}, t0).value());
    }
    for (int i = 0; i < 6; ++i) {
      const AllocationId parent = inner[static_cast<std::size_t>(1 + i % 3)];
      leaves.push_back(s.AddAllocation(absl::StrCat("l", i), parent, Weight{1}, t0).value());
      ASSERT_TRUE(
          s.Submit(Spec(1000 + static_cast<std::uint64_t>(i), leaves.back(), hours(1), 1), t0)
              .ok());
    }
    std::vector<Occupation> history;
    std::vector<std::size_t> of(100'000, 0);  // open occupation of a workload
    TimePoint now = t0;
    std::uint64_t next = 1;
    int moved = 0, refused = 0;
    std::vector<RunRef> running;
    for (int step = 0; step < 250; ++step) {
      now += microseconds(rng.Below(3'600'000'000));
      switch (rng.Below(4)) {
        case 0:
        case 1:
          ASSERT_TRUE(s.Submit(Spec(next++, leaves[static_cast<std::size_t>(rng.Below(6))],
                                    minutes(rng.Below(4) * 60), 1 + rng.Below(8)),
                               now)
                          .ok());
          break;
        case 2:
          if (!running.empty()) {
            const std::size_t i =
                static_cast<std::size_t>(rng.Below(static_cast<std::int64_t>(running.size())));
            // Reported late, but not before it began.
            const RunRef r = running[i];
            Occupation& o = history[of[r.workload.value()]];
            const TimePoint end = std::max(o.begin, now - minutes(rng.Below(50)));
            ASSERT_TRUE(s.ReportEnded(r.workload, r.run, end, now).ok());
            o.end = end;
            running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
          }
          break;
        default: {
          const bool leaf = rng.Below(2) == 0;
          const AllocationId id = leaf ? leaves[static_cast<std::size_t>(rng.Below(6))]
                                       : inner[static_cast<std::size_t>(rng.Below(4))];
          const AllocationId to = inner[static_cast<std::size_t>(rng.Below(4))];
          const std::uint64_t before = s.Digest();
          const bool ok = s.MoveAllocation(id, to, now, "ops", "test").ok();
          (ok ? moved : refused) += 1;
          if (!ok) {
            ASSERT_EQ(s.Digest(), before);
          }
        }
      }
      const Decisions d = *s.Decide(now).value();
      for (const Start& start : d.starts) {
        ASSERT_TRUE(s.ReportStarted(start.workload, start.run, now).ok());
        const tenure::Run& run = s.table().run(s.table().Find(start.workload));
        of[start.workload.value()] = history.size();
        history.push_back({run.leaf, run.gpus().value(), now, kNever, run.funded});
        running.push_back({start.workload, start.run});
      }
      for (const Stop& stop : d.stops) {
        ASSERT_TRUE(s.ReportStopped(stop.workload, stop.run, now).ok());
        history[of[stop.workload.value()]].end = now;
        running.erase(std::find_if(running.begin(), running.end(),
                                   [&](const RunRef& r) { return r.workload == stop.workload; }));
      }
      const TimePoint from = now - options.lookback;
      for (std::uint32_t i = 0; i < s.tree().size(); ++i) {
        std::int64_t funded = 0, unfunded = 0, placed = 0;
        for (const Occupation& o : history) {
          if (!s.tree().Inside(o.leaf, AllocationId(i))) continue;
          const Duration time = std::min(o.end, now) - std::max(o.begin, from);
          if (time > Duration(0)) (o.funded ? funded : unfunded) += o.gpus * time.count();
          if (o.funded && o.end == kNever) placed += o.gpus;
        }
        const AllocationStanding standing = s.Standing(AllocationId(i), now).value();
        ASSERT_EQ(standing.used_in_window, GpuTime(funded)) << seed << " " << i;
        ASSERT_EQ(standing.unfunded_in_window, GpuTime(unfunded)) << seed << " " << i;
        const GpuCount held = [&] {  // GPUs kept for workloads whose victims are gone
          GpuCount sum;
          for (RunSlot r = 0; r < s.table().slots(); ++r) {
            const tenure::Run& run = s.table().run(r);
            if (run.state == WorkloadState::kHeld && s.tree().Inside(run.leaf, AllocationId(i))) {
              sum += run.gpus();
            }
          }
          return sum;
        }();
        ASSERT_EQ(standing.placed - held, GpuCount(placed)) << seed << " " << i;
        GpuTime ahead;
        GpuCount queued;
        for (const AllocationId child : s.tree().children(AllocationId(i))) {
          ahead += s.Standing(child, now)->committed_ahead;
          queued += s.Standing(child, now)->queued;
        }
        if (!s.tree().is_leaf(AllocationId(i))) {
          ASSERT_EQ(standing.committed_ahead, ahead);
          ASSERT_EQ(standing.queued, queued);
        }
      }
      if (step % 50 == 49) {  // a restored copy goes on alike
        S copy(options);
        ASSERT_TRUE(copy.Restore(s.Snapshot()).ok());
        ASSERT_EQ(copy.Digest(), s.Digest());
      }
    }
    EXPECT_GT(moved, 10);
    EXPECT_GT(refused, 0);
    for (const RunRef& r : running) ASSERT_TRUE(s.ReportEnded(r.workload, r.run, now).ok());
    for (std::uint32_t i = 0; i < s.tree().size(); ++i) {
      EXPECT_EQ(s.Standing(AllocationId(i), now + options.lookback)->used_in_window, GpuTime(0));
    }
  }
}

TEST(MoveAllocation, ChangesWhoIsServedFirst) {
  S s = Build(1);
  const TimePoint t0 = At(hours(0));
  const AllocationId poor = s.AddAllocation("poor", kRootAllocation, Weight{1}, t0).value();
  const AllocationId rich = s.AddAllocation("rich", kRootAllocation, Weight{9}, t0).value();
  const AllocationId a = s.AddAllocation("a", poor, Weight{1}, t0).value();
  const AllocationId b = s.AddAllocation("b", rich, Weight{1}, t0).value();
  EXPECT_EQ(s.Standing(a, t0)->entitlement, MilliGpu(800));
  ASSERT_TRUE(s.MoveAllocation(a, rich, t0, "ops", "merged").ok());
  EXPECT_EQ(s.Standing(a, t0)->entitlement, MilliGpu(3600));
  EXPECT_EQ(s.Standing(b, t0)->entitlement, MilliGpu(3600));
  EXPECT_EQ(s.tree().moves()[0].reason, "merged");
  // The parent that lost its only child is a leaf, and may take work.
  EXPECT_TRUE(s.Submit(Spec(1, poor, hours(1)), t0).ok());
  EXPECT_EQ(s.MoveAllocation(b, poor, t0, "", "").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(s.MoveAllocation(b, a, At(-hours(1)), "", "").code(), absl::StatusCode::kOutOfRange);
}

// A subtree under weight 0 is unfunded; moving it out makes its waiting work funded.
TEST(MoveAllocation, ReconsidersWaitingWork) {
  S s = Build(1);
  const TimePoint t0 = At(hours(0));
  const AllocationId nothing = s.AddAllocation("nothing", kRootAllocation, Weight{0}, t0).value();
  const AllocationId some = s.AddAllocation("some", kRootAllocation, Weight{1}, t0).value();
  const AllocationId a = s.AddAllocation("a", nothing, Weight{1}, t0).value();
  const AllocationId b = s.AddAllocation("b", some, Weight{1}, t0).value();
  ASSERT_TRUE(s.Submit(Spec(1, b, hours(1)), t0).ok());
  ASSERT_TRUE(s.Submit(Spec(2, a, hours(1)), t0).ok());
  ASSERT_EQ(Pass(s, t0).starts.size(), 1u);
  EXPECT_EQ(ReasonOf(s, 2), WaitReason::kUnfundedWaits);
  ASSERT_TRUE(s.MoveAllocation(a, some, At(minutes(1)), "ops", "funded now").ok());
  Pass(s, At(minutes(1)));
  EXPECT_EQ(ReasonOf(s, 2), WaitReason::kNoCapacity);
  EXPECT_EQ(s.Standing(some, At(minutes(1)))->queued, GpuCount(8));
}

// --- Boosts --------------------------------------------------------------------------------------

class BoostTest : public testing::Test {
 protected:
  BoostTest() { a = tree.Add("a", kRootAllocation, Weight{1}).value(); }
  void Boost(double weight, int from, int until) {
    ASSERT_TRUE(
        tree.ScheduleBoost(a, Weight{weight}, At(hours(from)), At(hours(until)), "pi", "deadline")
            .ok());
  }
  void Edit(double weight, int at) {
    ASSERT_TRUE(tree.ScheduleWeight(a, Weight{weight}, At(hours(at)), "pi", "").ok());
  }
  // Weights at the end of each hour in [0, until).
  std::vector<double> Weights(int until) {
    std::vector<double> out;
    for (int h = 0; h < until; ++h) {
      tree.ApplyEdits(At(hours(h)));
      out.push_back(tree.weight(a).value);
      if (h % 2 == 0) {  // the same from an archive
        const std::string bytes = internal::Pack(tree);
        tree = BudgetTree();
        EXPECT_TRUE(internal::Unpack(bytes, tree).ok());
      }
    }
    return out;
  }
  BudgetTree tree;
  AllocationId a;
};

TEST_F(BoostTest, EndsByItself) {
  Boost(5, 1, 3);
  EXPECT_EQ(tree.next_edit(), At(hours(1)));
  EXPECT_EQ(Weights(5), (std::vector<double>{1, 5, 5, 1, 1}));
  ASSERT_EQ(tree.edits().size(), 2u);
  EXPECT_EQ(tree.edits()[1], (BudgetEdit{a, Weight{5}, Weight{1}, At(hours(3)), "pi", "deadline"}));
}

TEST_F(BoostTest, IsOverriddenByAnEdit) {
  Boost(5, 1, 4);
  Edit(2, 2);
  EXPECT_EQ(Weights(6), (std::vector<double>{1, 5, 2, 2, 2, 2}));
  EXPECT_EQ(tree.edits().size(), 2u);
}

TEST_F(BoostTest, RestoresAnEditMadeBeforeItBegan) {
  Boost(5, 2, 4);
  Edit(3, 1);
  EXPECT_EQ(Weights(6), (std::vector<double>{1, 3, 5, 5, 3, 3}));
}

TEST_F(BoostTest, OverlappingOnesDoNotOutlastTheirEnds) {
  Boost(5, 1, 4);
  Boost(7, 2, 6);
  EXPECT_EQ(Weights(8), (std::vector<double>{1, 5, 7, 7, 7, 7, 1, 1}));
}

TEST_F(BoostTest, ANestedOneGivesBackTheOuter) {
  Boost(5, 1, 6);
  Boost(7, 2, 4);
  EXPECT_EQ(Weights(8), (std::vector<double>{1, 5, 7, 7, 5, 5, 1, 1}));
}

TEST_F(BoostTest, OneThatBeginsAndEndsUnseenLeavesNothing) {
  Boost(5, 1, 2);
  EXPECT_TRUE(tree.ApplyEdits(At(hours(9))));
  EXPECT_EQ(tree.weight(a).value, 1);
  EXPECT_EQ(tree.edits().size(), 2u);
}

TEST_F(BoostTest, IsRefusedWithoutATrace) {
  const std::string before = internal::Pack(tree);
  const auto boost = [&](AllocationId id, double weight, int from, int until) {
    return tree.ScheduleBoost(id, Weight{weight}, At(hours(from)), At(hours(until)), "", "").code();
  };
  EXPECT_EQ(boost(a, 2, 3, 3), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(boost(a, 2, 3, 1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(boost(a, -1, 1, 3), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(boost(kRootAllocation, 2, 1, 3), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(boost(AllocationId(7), 2, 1, 3), absl::StatusCode::kNotFound);
  EXPECT_EQ(internal::Pack(tree), before);
  ASSERT_TRUE(tree.Close(a).ok());
  EXPECT_EQ(boost(a, 2, 1, 3), absl::StatusCode::kFailedPrecondition);
}

TEST(Boost, TakesEffectInThePassesOfItsDates) {
  S s = Build(1);
  const TimePoint t0 = At(hours(0));
  const AllocationId a = s.AddAllocation("a", kRootAllocation, Weight{1}, t0).value();
  s.AddAllocation("b", kRootAllocation, Weight{1}, t0).value();
  // A beginning in the past is now.
  ASSERT_TRUE(s.Boost(a, Weight{3}, At(-hours(5)), At(hours(2)), "pi", "deadline", t0).ok());
  EXPECT_EQ(s.Boost(a, Weight{3}, At(-hours(5)), At(-hours(2)), "pi", "late", t0).code(),
            absl::StatusCode::kInvalidArgument);
  const Decisions* d = s.Decide(t0).value();
  EXPECT_EQ(d->next_wakeup, At(hours(2)));
  EXPECT_EQ(s.Standing(a, t0)->entitlement, MilliGpu(6000));
  ASSERT_TRUE(s.Decide(At(hours(2))).ok());
  EXPECT_EQ(s.Standing(a, At(hours(2)))->entitlement, MilliGpu(4000));
}

// --- Charge rates --------------------------------------------------------------------------------

TEST(ChargeRates, KnowTheRateOfEveryTime) {
  ChargeRates rates;
  const GpuTypeId a(0), b(3);
  EXPECT_TRUE(rates.standard());
  rates.Set(b, 250, At(hours(1)), At(-hours(9)));
  rates.Set(a, 2000, At(hours(2)), At(-hours(9)));
  rates.Set(b, 400, At(hours(3)), At(-hours(9)));
  EXPECT_EQ(rates.At(b, At(hours(0))), 1000);
  EXPECT_EQ(rates.At(b, At(hours(1))), 250);
  EXPECT_EQ(rates.At(b, At(hours(2))), 250);
  EXPECT_EQ(rates.At(b, At(hours(3))), 400);
  EXPECT_EQ(rates.At(a, At(hours(3))), 2000);
  EXPECT_EQ(rates.rate(GpuTypeId(1)), 1000);
  // What is kept no longer has always been so.
  rates.Set(b, 500, At(hours(9)), At(hours(2)));
  EXPECT_EQ(rates.changes().size(), 2u);
  EXPECT_EQ(rates.At(b, At(hours(0))), 250);
}

class ChargeRateTest : public testing::Test {
 protected:
  // `h` nodes of 8 large GPUs, `l` nodes of 8 small ones; two teams of equal weight.
  void Begin(int h, int l, const SchedulerOptions& options = Options()) {
    s = S(options);
    large = s.InternGpuType("h100");
    small = s.InternGpuType("l4");
    for (int i = 0; i < h + l; ++i) {
      ASSERT_TRUE(
          s.AddNode(absl::StrCat("n", i), GpuCount(8), i < h ? large : small, kRootDomain, t0)
              .ok());
    }
    a = s.AddAllocation("a", kRootAllocation, Weight{1}, t0).value();
    b = s.AddAllocation("b", kRootAllocation, Weight{1}, t0).value();
  }
  void Submit(std::uint64_t id, AllocationId leaf, GpuTypeId type, Duration minimum = hours(2)) {
    WorkloadSpec spec = Spec(id, leaf, minimum);
    spec.gpu_type = type;
    ASSERT_TRUE(s.Submit(spec, s.now()).ok());
  }
  const TimePoint t0 = At(hours(0));
  S s;
  GpuTypeId large, small;
  AllocationId a, b;
};

TEST_F(ChargeRateTest, WeighsUseAndCapacityAlike) {
  Begin(2, 8);
  ASSERT_TRUE(s.SetChargeRate(small, 250, t0).ok());
  EXPECT_EQ(s.charge_rate(small), 250);
  EXPECT_EQ(s.Capacity(), MilliGpu(32'000));
  for (std::uint64_t id = 1; id <= 8; ++id) Submit(id, b, small);
  for (std::uint64_t id = 11; id <= 12; ++id) Submit(id, a, large);
  ASSERT_EQ(Pass(s, t0).starts.size(), 10u);
  const TimePoint t = At(hours(3));
  const AllocationStanding sa = s.Standing(a, t).value(), sb = s.Standing(b, t).value();
  EXPECT_EQ(sa.entitlement, MilliGpu(16'000));
  EXPECT_EQ(sa.placed, GpuCount(16));
  EXPECT_EQ(sb.placed, GpuCount(64));
  EXPECT_EQ(sa.used_in_window, GpuCount(16) * hours(3));
  EXPECT_EQ(sb.used_in_window, GpuCount(16) * hours(3));
  EXPECT_EQ(sa.key, sb.key);
  // Both are at their entitlement: nobody may take more from the other.
  Submit(21, a, small, hours(1));
  Submit(22, b, large, hours(1));
  const Decisions d = Pass(s, t);
  EXPECT_TRUE(d.stops.empty());
  EXPECT_TRUE(d.starts.empty());
  EXPECT_EQ(s.Explain(WorkloadId(21))->tier, 2);
  EXPECT_EQ(s.Explain(WorkloadId(22))->tier, 2);
}

TEST_F(ChargeRateTest, CountsFromItsDateOn) {
  Begin(1, 1);
  Submit(1, a, small, hours(8));
  ASSERT_EQ(Pass(s, t0).starts.size(), 1u);
  ASSERT_TRUE(s.SetChargeRate(small, 125, At(hours(1))).ok());
  EXPECT_EQ(s.Standing(a, At(hours(1)))->used_in_window, GpuCount(8) * hours(1));
  EXPECT_EQ(s.Standing(a, At(hours(1)))->committed_ahead, GpuCount(1) * hours(7));
  EXPECT_EQ(s.Standing(a, At(hours(3)))->used_in_window, GpuCount(10) * hours(1));
  // An end that is reported late is an end before the change.
  ASSERT_TRUE(s.ReportEnded(WorkloadId(1), RunNumber(1), At(minutes(30)), At(hours(3))).ok());
  const AllocationStanding end = s.Standing(a, At(hours(3))).value();
  EXPECT_EQ(end.used_in_window, GpuCount(4) * hours(1));
  EXPECT_EQ(end.committed_ahead, GpuTime(0));
  EXPECT_EQ(s.Standing(kRootAllocation, At(hours(200)))->used_in_window, GpuTime(0));
}

TEST_F(ChargeRateTest, MeasuresARequestForAnyTypeByTheDearest) {
  Begin(2, 2);
  ASSERT_TRUE(s.SetChargeRate(large, 4000, t0).ok());
  Submit(1, a, kAnyGpuType);
  EXPECT_EQ(s.Standing(a, t0)->natural, MilliGpu(32'000));
  ASSERT_TRUE(s.SetChargeRate(large, 500, t0).ok());
  EXPECT_EQ(s.Standing(a, t0)->natural, MilliGpu(8'000));
}

TEST_F(ChargeRateTest, RefusesWhatCannotBeCounted) {
  Begin(1, 1);
  const std::uint64_t before = s.Digest();
  EXPECT_EQ(s.SetChargeRate(GpuTypeId(9), 500, t0).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(s.SetChargeRate(small, 0, t0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(s.SetChargeRate(small, kMaxChargeRate + 1, t0).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(s.SetChargeRate(small, 500, At(-hours(1))).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(s.Digest(), before);
  Begin(1, 1000);
  EXPECT_TRUE(s.SetChargeRate(small, 333, t0).ok());
  const std::uint64_t now = s.Digest();
  EXPECT_EQ(s.SetChargeRate(small, 999'999, t0).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(s.Digest(), now);
  EXPECT_TRUE(s.SetChargeRate(small, 1000, t0).ok());
  int more = 0;
  while (more < 3000 &&
         s.AddNode(absl::StrCat("m", more), GpuCount(8), small, kRootDomain, t0).ok())
    ++more;
  EXPECT_EQ(more, 122);  // 8,987 GPUs are the most in thousandths over seven days
}

// Random work with late reports, changes of rates, moves and lost ends, against a list of who
// occupied what: equal to the last thousandth.
TEST_F(ChargeRateTest, ChargesExactlyUnderAnyHistory) {
  struct Occupation {
    WorkloadId id;
    AllocationId leaf;
    GpuTypeId type;
    std::int64_t gpus;
    TimePoint begin, end = kNever;
    bool funded = false;
    RunNumber run;
  };
  struct Rate {
    TimePoint from;
    std::int64_t permille;
  };
  SchedulerOptions options = Options();
  options.lookback = hours(30);
  options.preemption_rate = 60;
  std::int64_t late_ends = 0, changes = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    sim::Rng rng(seed, 5);
    Begin(3, 3, options);
    const AllocationId inner = s.AddAllocation("in", kRootAllocation, Weight{2}, t0).value();
    std::vector<AllocationId> leaves = {a, b};
    for (const char* name : {"x", "y"}) {
      leaves.push_back(s.AddAllocation(name, inner, Weight{1}, t0).value());
    }
    std::vector<std::vector<Rate>> rates(2, {{At(-hours(1)), 1000}});
    std::vector<Occupation> history;
    std::uint64_t next = 1;
    TimePoint now = t0;
    const auto find = [&](WorkloadId id, RunNumber run) -> Occupation& {
      return *std::find_if(history.begin(), history.end(),
                           [&](const Occupation& o) { return o.id == id && o.run == run; });
    };
    for (int step = 0; step < 150; ++step) {
      now += microseconds(rng.Below(3'600'000'000));
      const std::int64_t what = rng.Below(8);
      if (what < 4) {
        WorkloadSpec spec = Spec(next++, leaves[static_cast<std::size_t>(rng.Below(4))],
                                 minutes(rng.Below(5) * 40), 1 + rng.Below(8));
        spec.gpu_type = rng.Below(3) == 0 ? kAnyGpuType : rng.Below(2) ? large : small;
        if (rng.Below(4) == 0) spec.workload_class = WorkloadClass::kInteractive;
        ASSERT_TRUE(s.Submit(spec, now).ok());
      } else if (what < 6 && !history.empty()) {
        Occupation& o =
            history[static_cast<std::size_t>(rng.Below(static_cast<std::int64_t>(history.size())))];
        if (o.end == kNever) {
          const TimePoint end = std::max(o.begin, now - minutes(rng.Below(2) ? rng.Below(600) : 0));
          ASSERT_TRUE(s.ReportEnded(o.id, o.run, end, now).ok());
          o.end = end;
          ++late_ends;
        }
      } else if (what == 6) {
        static constexpr std::int32_t kRates[] = {250, 1000, 333, 1999, 500, 4000};
        const bool first = rng.Below(2) == 0;
        const std::int32_t rate = kRates[rng.Below(6)];
        ASSERT_TRUE(s.SetChargeRate(first ? large : small, rate, now).ok());
        rates[first ? large.value() : small.value()].push_back({now, rate});
        ++changes;
      } else if (rng.Below(3) == 0) {
        std::vector<RunRef> seen;  // the end of one run got lost
        bool lost = false;
        for (Occupation& o : history) {
          if (o.end != kNever) continue;
          if (!lost && rng.Below(4) == 0) {
            lost = true;
            continue;
          }
          seen.push_back({o.id, o.run});
        }
        const ReconcileReport report = s.Reconcile(seen, now).value();
        EXPECT_TRUE(report.unknown.empty());
        // The end that was inferred is corrected by the record that comes after all.
        for (const RunRef& r : report.ended) {
          Occupation& o = find(r.workload, r.run);
          o.end = std::max(o.begin, now - minutes(rng.Below(90)));
          const absl::Status status = s.ReportEnded(o.id, o.run, o.end, now);
          if (status.ok()) continue;
          // Its last sign of life is out of the window; it is forgotten.
          ASSERT_EQ(status.code(), absl::StatusCode::kNotFound);
          o.end = o.begin;
        }
      } else {
        const AllocationId parents[] = {kRootAllocation, inner};
        s.MoveAllocation(leaves[static_cast<std::size_t>(rng.Below(4))], parents[rng.Below(2)], now,
                         "ops", "test")
            .IgnoreError();
      }
      const Decisions d = *s.Decide(now).value();
      for (const Start& start : d.starts) {
        ASSERT_TRUE(s.ReportStarted(start.workload, start.run, now).ok());
        const tenure::Run& run = s.table().run(s.table().Find(start.workload));
        Occupation o;
        o.id = start.workload;
        o.run = start.run;
        o.leaf = run.leaf;
        o.type = s.cluster().node(d.Nodes(start)[0]).type;
        o.gpus = run.gpus().value();
        o.begin = now;
        o.funded = run.funded;
        history.push_back(o);
      }
      for (const Stop& stop : d.stops) {
        ASSERT_TRUE(s.ReportStopped(stop.workload, stop.run, now).ok());
        find(stop.workload, stop.run).end = now;
      }
      const TimePoint from = now - options.lookback;
      for (std::uint32_t i = 0; i < s.tree().size(); ++i) {
        std::int64_t milli = 0;
        for (const Occupation& o : history) {
          if (!o.funded || !s.tree().Inside(o.leaf, AllocationId(i))) continue;
          const std::vector<Rate>& r = rates[o.type.value()];
          for (std::size_t k = 0; k < r.size(); ++k) {
            const TimePoint begin = std::max({o.begin, from, r[k].from});
            const TimePoint end = std::min({o.end, now, k + 1 < r.size() ? r[k + 1].from : kNever});
            if (end > begin) milli += o.gpus * r[k].permille * (end - begin).count();
          }
        }
        const AllocationStanding st = s.Standing(AllocationId(i), now).value();
        ASSERT_EQ(st.used_in_window.value() * 1000 + st.used_rest, milli)
            << "seed " << seed << " step " << step << " allocation " << i;
        std::int64_t ahead = 0;
        for (RunSlot slot = 0; slot < s.table().slots(); ++slot) {
          const tenure::Run& run = s.table().run(slot);
          const bool committed =
              run.state == WorkloadState::kRunning || run.state == WorkloadState::kHeld;
          if (!committed || !run.funded || run.protected_until <= now ||
              !s.tree().Inside(run.leaf, AllocationId(i))) {
            continue;
          }
          const GpuTypeId type = s.cluster().node(s.table().workload(slot).nodes[0]).type;
          ahead += run.gpus().value() * s.charge_rate(type) * (run.protected_until - now).count();
        }
        ASSERT_EQ(st.committed_ahead.value(), ahead / 1000) << seed << " " << step << " " << i;
      }
      if (step % 40 == 39) {
        S copy(options);
        ASSERT_TRUE(copy.Restore(s.Snapshot()).ok());
        ASSERT_EQ(copy.Digest(), s.Digest());
      }
    }
    EXPECT_EQ(s.Standing(kRootAllocation, now)->queued,
              s.Standing(a, now)->queued + s.Standing(b, now)->queued +
                  s.Standing(leaves[2], now)->queued + s.Standing(leaves[3], now)->queued);
  }
  EXPECT_GT(late_ends, 500);
  EXPECT_GT(changes, 300);
}

// --- A budget of preemptions ---------------------------------------------------------------------

TEST(TokenBucket, RefillsExactly) {
  TokenBucket bucket(7, 3);
  EXPECT_EQ(bucket.Available(At(hours(0))), 3);
  EXPECT_EQ(bucket.NextToken(At(hours(0))), kNever);
  bucket.Take(At(hours(0)), 3);
  const TimePoint next = bucket.NextToken(At(hours(0)));
  EXPECT_EQ(next, At(microseconds(514'285'715)));  // an hour / 7, rounded up
  EXPECT_EQ(bucket.Available(next - microseconds(1)), 0);
  EXPECT_EQ(bucket.Available(next), 1);
  EXPECT_EQ(bucket.Available(At(hours(1))), 3);
  EXPECT_EQ(bucket.Available(TimePoint(kTimeLimit)), 3);
  // Seven tokens an hour in the long run, none lost to rounding.
  std::int64_t taken = 0;
  for (int s = 0; s <= 10 * 3600; ++s) {
    while (bucket.Available(At(seconds(s))) > 0) {
      bucket.Take(At(seconds(s)), 1);
      ++taken;
    }
  }
  EXPECT_EQ(taken, 70);
  const TokenBucket off;
  EXPECT_GT(off.Available(At(hours(0))), TokenBucket::kMaxTokens);
}

// a (weight 1) holds all four nodes, past its minimum; b (weight 7) is due nearly everything.
class PreemptionBudgetTest : public testing::Test {
 protected:
  void Begin(const SchedulerOptions& options, Duration minimum_of_a) {
    s = Build(4, options);
    a = s.AddAllocation("a", kRootAllocation, Weight{1}, t0).value();
    b = s.AddAllocation("b", kRootAllocation, Weight{7}, t0).value();
    for (std::uint64_t id = 1; id <= 4; ++id) {
      ASSERT_TRUE(s.Submit(Spec(id, a, minimum_of_a), t0).ok());
    }
    ASSERT_EQ(Pass(s, t0).starts.size(), 4u);
  }
  // Number of stops decided at `now`, all confirmed at once.
  std::size_t Stops(TimePoint now) {
    const Decisions d = Pass(s, now);
    for (const Stop& stop : d.stops) {
      EXPECT_TRUE(s.ReportStopped(stop.workload, stop.run, now).ok());
    }
    Pass(s, now);
    return d.stops.size();
  }
  const TimePoint t0 = At(hours(0));
  S s;
  AllocationId a, b;
};

TEST_F(PreemptionBudgetTest, IsOffByDefault) {
  Begin(Options(), minutes(30));
  for (std::uint64_t id = 11; id <= 13; ++id) {
    ASSERT_TRUE(s.Submit(Spec(id, b, hours(1)), t0).ok());
  }
  EXPECT_EQ(Stops(At(hours(2))), 3u);
}

TEST_F(PreemptionBudgetTest, SpreadsTheStopsOverTime) {
  SchedulerOptions options = Options();
  options.preemption_rate = 2;
  options.preemption_burst = 1;
  Begin(options, minutes(30));
  for (std::uint64_t id = 11; id <= 13; ++id) {
    ASSERT_TRUE(s.Submit(Spec(id, b, hours(4)), t0).ok());
  }
  EXPECT_EQ(Stops(At(hours(2))), 1u);
  EXPECT_EQ(Stops(At(hours(2) + minutes(20))), 0u);
  const std::string snapshot = s.Snapshot();
  EXPECT_EQ(Stops(At(hours(2) + minutes(29))), 0u);
  EXPECT_EQ(Stops(At(hours(2) + minutes(30))), 1u);
  EXPECT_EQ(Stops(At(hours(2) + minutes(59))), 0u);
  EXPECT_EQ(Stops(At(hours(3))), 1u);
  EXPECT_EQ(s.Standing(b, At(hours(3)))->placed, GpuCount(24));
  // The level is part of the state.
  S copy(options);
  ASSERT_TRUE(copy.Restore(snapshot).ok());
  EXPECT_TRUE(copy.Decide(At(hours(2) + minutes(29))).value()->stops.empty());
  EXPECT_EQ(copy.Decide(At(hours(2) + minutes(30))).value()->stops.size(), 1u);
}

TEST_F(PreemptionBudgetTest, WantsAllVictimsOfAGangAtOnce) {
  SchedulerOptions options = Options();
  options.preemption_rate = 4;
  options.preemption_burst = 3;
  Begin(options, minutes(30));
  ASSERT_TRUE(s.Submit(Spec(11, b, hours(4)), t0).ok());
  EXPECT_EQ(Stops(At(hours(2))), 1u);
  ASSERT_TRUE(s.Submit(Spec(12, b, hours(4), 8, 2), At(hours(2))).ok());
  EXPECT_EQ(Stops(At(hours(2) + seconds(1))), 2u);
  // A gang beyond the burst is never served by stopping.
  SchedulerOptions small = options;
  small.preemption_burst = 1;
  Begin(small, minutes(30));
  ASSERT_TRUE(s.Submit(Spec(12, b, hours(4), 8, 2), t0).ok());
  for (int h = 1; h < 20; ++h) EXPECT_EQ(Stops(At(hours(h))), 0u);
}

TEST_F(PreemptionBudgetTest, DoesNotCountUnfundedDrainedAndCancelled) {
  SchedulerOptions options = Options();
  options.preemption_rate = 1;
  Begin(options, Duration(0));
  for (std::uint64_t id = 11; id <= 13; ++id) {
    ASSERT_TRUE(s.Submit(Spec(id, b, minutes(30)), t0).ok());
  }
  EXPECT_EQ(Stops(At(minutes(1))), 3u);
  ASSERT_TRUE(s.Cancel(WorkloadId(11), At(hours(2))).ok());
  ASSERT_TRUE(s.Cancel(WorkloadId(12), At(hours(2))).ok());
  EXPECT_EQ(Stops(At(hours(2))), 2u);
  for (std::uint32_t n = 0; n < 4; ++n) {
    ASSERT_TRUE(s.SetNode(NodeId(n), NodeHealth::kDraining, At(hours(3))).ok());
  }
  EXPECT_EQ(Stops(At(hours(3))), 4u);
}

TEST_F(PreemptionBudgetTest, KeepsPromises) {
  SchedulerOptions options = Options();
  options.preemption_rate = 1;
  options.reservation.gang = GpuCount(24);
  options.reservation.first_credit = Duration(0);
  Begin(options, hours(2));
  ASSERT_TRUE(s.Submit(Spec(11, b, hours(1), 8, 3), At(minutes(1))).ok());
  Pass(s, At(minutes(1)));
  Pass(s, At(minutes(2)));
  ASSERT_EQ(ReasonOf(s, 11), WaitReason::kReserved);
  const Decisions d = Pass(s, At(hours(2)));
  ASSERT_EQ(d.stops.size(), 3u);
  for (const Stop& stop : d.stops) EXPECT_EQ(stop.reason, StopReason::kPromise);
}

TEST_F(PreemptionBudgetTest, WakesUpForTheNextToken) {
  SchedulerOptions options = Options();
  options.preemption_rate = 2;
  options.retry = hours(20);
  Begin(options, minutes(30));
  ASSERT_TRUE(s.Submit(Spec(11, b, hours(4)), t0).ok());
  ASSERT_TRUE(s.Submit(Spec(12, b, hours(4)), t0).ok());
  ASSERT_EQ(Stops(At(hours(2))), 1u);
  EXPECT_EQ(Pass(s, At(hours(2) + minutes(1))).next_wakeup, At(hours(2) + minutes(30)));
}

TEST(Presets, KnowThePreemptionBudgetAndTheClassCaps) {
  for (const std::string name : kPresetNames) {
    Preset p = MakePreset(name);
    EXPECT_EQ(p.scheduler.preemption_rate, 0);
    EXPECT_EQ(p.scheduler.session_cap, 0);
    EXPECT_EQ(p.scheduler.debug_cap, name == "ai2" ? 0 : 400);
    ASSERT_TRUE(p.Set(name, {{"preemption_rate", "12"},
                             {"preemption_burst", "4"},
                             {"session_cap", "250"},
                             {"debug_cap", "100"}})
                    .ok());
    EXPECT_EQ(p.scheduler.preemption_rate, 12);
    EXPECT_EQ(p.scheduler.preemption_burst, 4);
    EXPECT_EQ(p.scheduler.session_cap, 250);
    EXPECT_EQ(p.scheduler.debug_cap, 100);
    EXPECT_TRUE(S::CheckOptions(p.scheduler).ok());
    p.scheduler.preemption_burst = 0;
    EXPECT_FALSE(S::CheckOptions(p.scheduler).ok());
  }
}

// --- Sessions ------------------------------------------------------------------------------------

// Leaves a and b of 8 GPUs each; `klass` of a may have 4, of b too; a gang of each wants
// everything.
class ClassCap : public ::testing::TestWithParam<WorkloadClass> {
 protected:
  ClassCap() {
    SchedulerOptions options = Options();
    options.reservation.gang = options.reservation.block = GpuCount(0);
    options.contract.cap[static_cast<std::size_t>(WorkloadClass::kDebug)] = hours(2);
    options.session_cap = GetParam() == WorkloadClass::kInteractive ? 500 : 0;
    options.debug_cap = GetParam() == WorkloadClass::kDebug ? 500 : 0;
    s = Build(2, options);
    const AllocationId a = s.AddAllocation("a", kRootAllocation, Weight{1}, At(hours(0))).value();
    const AllocationId b = s.AddAllocation("b", kRootAllocation, Weight{1}, At(hours(0))).value();
    for (std::uint64_t id : {1u, 2u, 3u}) Submit(id, a, 2);
    Submit(5, b, 5);  // the first of a leaf may always run
    Submit(6, b, 1);
    for (const auto& [id, leaf] : {std::pair(7u, a), std::pair(8u, b)}) {
      WorkloadSpec gang = Spec(id, leaf, hours(1), 8);
      gang.nodes = 2;
      EXPECT_TRUE(s.Submit(gang, At(hours(0))).ok());
    }
  }
  void Submit(std::uint64_t id, AllocationId leaf, std::int64_t gpus) {
    WorkloadSpec spec = Spec(id, leaf, hours(2), gpus);
    spec.workload_class = GetParam();
    EXPECT_TRUE(s.Submit(spec, At(hours(0))).ok());
  }
  WaitReason Capped() const {
    return GetParam() == WorkloadClass::kDebug ? WaitReason::kDebugCap : WaitReason::kSessionCap;
  }
  S s = Build(2, Options());
};

TEST_P(ClassCap, LetsMoreOfTheClassWaitWhileTheLeafWantsMoreThanItIsOffered) {
  EXPECT_EQ(Pass(s, At(hours(0))).starts.size(), 3u);
  EXPECT_EQ(ReasonOf(s, 2), WaitReason::kNone);
  EXPECT_EQ(ReasonOf(s, 3), Capped());
  EXPECT_EQ(ReasonOf(s, 5), WaitReason::kNone);
  EXPECT_EQ(ReasonOf(s, 6), Capped());
  ASSERT_TRUE(s.ReportEnded(WorkloadId(1), RunNumber(1), At(minutes(5))).ok());
  const Decisions d = Pass(s, At(minutes(5)));
  ASSERT_EQ(d.starts.size(), 1u);
  EXPECT_EQ(d.starts[0].workload, WorkloadId(3));
}

TEST_P(ClassCap, IsNoneWhereNobodyElseWantsTheGpus) {
  ASSERT_EQ(Pass(s, At(hours(0))).starts.size(), 3u);
  for (std::uint64_t gang : {7u, 8u}) {
    ASSERT_TRUE(s.Cancel(WorkloadId(gang), At(minutes(1))).ok());
  }
  const Decisions d = Pass(s, At(minutes(1)));
  ASSERT_EQ(d.starts.size(), 2u);
  EXPECT_EQ(ReasonOf(s, 3), WaitReason::kNone);
  EXPECT_EQ(ReasonOf(s, 6), WaitReason::kNone);
}

INSTANTIATE_TEST_SUITE_P(Of, ClassCap,
                         ::testing::Values(WorkloadClass::kInteractive, WorkloadClass::kDebug),
                         [](const auto& parameter) {
                           return std::string(ToString(parameter.param));
                         });

TEST(IdleCap, SuspendsTheSessionsBeyondItWhileAnythingWaits) {
  SchedulerOptions options = Options();
  options.idle_cap = 250;
  S s = Build(2, options);
  const AllocationId a = s.AddAllocation("a", kRootAllocation, Weight{1}, At(hours(0))).value();
  ASSERT_TRUE(s.AddAllocation("b", kRootAllocation, Weight{1}, At(hours(0))).ok());
  // a is entitled to 8 GPUs: 2 of them may be idle.
  for (std::uint64_t id : {1u, 2u, 3u, 4u}) {
    WorkloadSpec spec = Spec(id, a, hours(4), 1);
    spec.workload_class = WorkloadClass::kInteractive;
    ASSERT_TRUE(s.Submit(spec, At(hours(0))).ok());
  }
  ASSERT_EQ(Pass(s, At(hours(0))).starts.size(), 4u);
  for (std::uint64_t id : {1u, 2u, 3u, 4u}) {
    ASSERT_TRUE(s.ReportIdle(WorkloadId(id), true, At(minutes(30))).ok());
  }
  EXPECT_TRUE(Pass(s, At(hours(2))).stops.empty()) << "nobody wants their GPUs";
  WorkloadSpec sweep = Spec(9, a, Duration(0), 8);
  sweep.nodes = 2;
  ASSERT_TRUE(s.Submit(sweep, At(hours(2))).ok());
  const Decisions d = Pass(s, At(hours(2)));
  ASSERT_EQ(d.stops.size(), 2u);
  for (std::size_t i : {0u, 1u}) {
    EXPECT_EQ(d.stops[i].workload, WorkloadId(3 + i));
    EXPECT_EQ(d.stops[i].reason, StopReason::kIdle);
    EXPECT_EQ(s.ReportStopped(WorkloadId(3 + i), RunNumber(1), At(hours(2)), At(hours(2))).value(),
              LossOutcome::kSuspended);
  }
  EXPECT_TRUE(Pass(s, At(hours(3))).stops.empty()) << "two may stay";
  ASSERT_TRUE(s.ReportIdle(WorkloadId(4), false, At(hours(4))).ok());
  ASSERT_EQ(Pass(s, At(hours(4))).starts.size(), 1u) << "its owner is back";
}

TEST(IdleCap, LooksAgainWhenAProtectionEnds) {
  SchedulerOptions options = Options();
  options.idle_cap = 0;
  S s = Build(1, options);
  const AllocationId a = s.AddAllocation("a", kRootAllocation, Weight{1}, At(hours(0))).value();
  WorkloadSpec session = Spec(1, a, hours(4), 1);
  session.workload_class = WorkloadClass::kInteractive;
  ASSERT_TRUE(s.Submit(session, At(hours(0))).ok());
  ASSERT_EQ(Pass(s, At(hours(0))).starts.size(), 1u);
  ASSERT_TRUE(s.ReportIdle(WorkloadId(1), true, At(minutes(30))).ok());
  ASSERT_TRUE(s.Submit(Spec(2, a, Duration(0), 8), At(minutes(30))).ok());
  const Decisions d = Pass(s, At(minutes(30)));
  EXPECT_TRUE(d.stops.empty()) << "an hour is its own";
  EXPECT_EQ(d.next_wakeup, At(hours(1)));
  ASSERT_EQ(Pass(s, At(hours(1))).stops.size(), 1u);
}

}  // namespace
}  // namespace tenure
