// SPDX-License-Identifier: Apache-2.0
//
// The field cases L23 and L25 (see tests/field) at their full size.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tenure/ledger.h"
#include "tenure/policy.h"
#include "tenure/scheduler.h"
#include "tenure/types.h"

namespace tenure {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

std::uint64_t Mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

TEST(FieldScale, L23MillionShortJobsLeaveTheWindowWithoutRest) {
  constexpr std::int64_t kJobs = 1'000'000, kDay = 86'400;
  std::vector<std::int64_t> jobs_at(kDay, 0);
  for (std::int64_t j = 0; j < kJobs; ++j) {
    ++jobs_at[Mix(static_cast<std::uint64_t>(j)) % kDay];
  }
  Scheduler<BudgetPolicy> s;
  const GpuTypeId type = s.InternGpuType("gpu");
  const TimePoint t0{};
  for (int i = 0; i < 16; ++i) {
    ASSERT_TRUE(s.AddNode(absl::StrCat("n", i), GpuCount(12), type, kRootDomain, t0).ok());
  }
  const AllocationId a = s.AddAllocation("A", kRootAllocation, Weight{1}, t0).value();
  const AllocationId b = s.AddAllocation("B", kRootAllocation, Weight{1}, t0).value();
  WorkloadSpec spec;
  spec.allocation = a;
  spec.gpus_per_node = GpuCount(3);
  spec.minimum = seconds(1);
  std::uint64_t next = 1;
  std::int64_t started = 0;
  std::vector<std::pair<WorkloadId, RunNumber>> running;
  for (std::int64_t second = 0; second <= kDay || !running.empty(); ++second) {
    const TimePoint now = t0 + seconds(second);
    for (const auto& [id, run] : running) ASSERT_TRUE(s.ReportEnded(id, run, now).ok());
    running.clear();
    for (std::int64_t k = second < kDay ? jobs_at[static_cast<std::size_t>(second)] : 0; k > 0;
         --k) {
      spec.id = WorkloadId(next++);
      ASSERT_TRUE(s.Submit(spec, now).ok());
    }
    const Decisions* d = s.Decide(now).value();
    ASSERT_TRUE(d->stops.empty());
    for (const Start& start : d->starts) {
      ASSERT_TRUE(s.ReportStarted(start.workload, start.run, now).ok());
      running.emplace_back(start.workload, start.run);
    }
    started += static_cast<std::int64_t>(d->starts.size());
  }
  EXPECT_EQ(started, kJobs);
  EXPECT_EQ(s.workloads(), 0u);
  const TimePoint after = t0 + seconds(kDay + 60);
  EXPECT_EQ(s.Standing(a, after)->used_in_window, GpuCount(3) * seconds(kJobs));
  EXPECT_EQ(s.Standing(kRootAllocation, after)->used_in_window, GpuCount(3) * seconds(kJobs));
  const TimePoint late = t0 + hours(24 * 9);
  const AllocationStanding used = *s.Standing(a, late), never = *s.Standing(b, late);
  EXPECT_EQ(used.used_in_window, GpuTime(0));
  EXPECT_EQ(used.key, never.key);
  EXPECT_EQ(used.key, Duration(0));
}

// A thousand accounts of a thousand users. Sum of the shares, and one order whatever the order of
// creation.
TEST(FieldScale, L25MillionUsersAreRankedInOneOrder) {
  constexpr std::uint32_t kAccounts = 1000, kUsers = 1000;
  constexpr std::uint32_t kLeaves = kAccounts * kUsers;
  const auto build = [&](bool backwards, std::vector<std::uint32_t>& order) {
    BudgetTree tree;
    Ledger ledger;
    std::vector<AllocationId> leaf(kLeaves);
    for (std::uint32_t i = 0; i < kAccounts; ++i) {
      const std::uint32_t a = backwards ? kAccounts - 1 - i : i;
      const AllocationId account =
          tree.Add(absl::StrCat("a", a), kRootAllocation, Weight{1}).value();
      for (std::uint32_t k = 0; k < kUsers; ++k) {
        const std::uint32_t u = backwards ? kUsers - 1 - k : k;
        leaf[a * kUsers + u] = tree.Add(absl::StrCat("u", u), account, Weight{1}).value();
      }
    }
    ledger.Open(tree);
    const TimePoint now = TimePoint() + hours(1);
    for (std::uint32_t i = 0; i < kLeaves; ++i) {
      // One waiting job each; 4,000 of them run; use at random, with ties.
      if (i % 250 == 0) {
        ledger.AddPlaced(tree, leaf[i], GpuCount(1));
      } else {
        ledger.AddQueued(tree, leaf[i], GpuCount(1));
      }
      const auto length = minutes(static_cast<int>(Mix(i) % 50));
      ledger.Charge(tree, leaf[i], TimePoint(), GpuCount(1));
      ledger.Charge(tree, leaf[i], TimePoint() + length, GpuCount(-1));
    }
    Ranking ranking;
    const PolicyDefaults policy;
    const auto key = [&](AllocationId id, GpuTime used, MilliGpu entitlement) {
      return policy.RankKey(AllocationView{id, used, entitlement});
    };
    const auto began = std::chrono::steady_clock::now();
    ranking.Refresh(tree, ledger, GpuCount(2'000'000), now, key);
    order.resize(kLeaves);
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](std::uint32_t x, std::uint32_t y) {
      return ranking.Before(tree, leaf[x], leaf[y]);
    });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    // Not asserted: a busy or instrumented machine may be slow.
    RecordProperty("rerank_seconds", absl::StrCat(took.count()));
    MilliGpu sum;
    for (const AllocationId id : leaf) sum += ranking.entitlement(id);
    EXPECT_EQ(sum, ToMilli(GpuCount(2'000'000)));
    EXPECT_EQ(ledger.Use(kRootAllocation, now), [&] {
      GpuTime total;
      for (std::uint32_t i = 0; i < kLeaves; ++i) {
        total += GpuCount(1) * minutes(static_cast<int>(Mix(i) % 50));
      }
      return total;
    }());
  };
  std::vector<std::uint32_t> forwards, backwards;
  build(false, forwards);
  build(true, backwards);
  EXPECT_EQ(forwards, backwards);
}

}  // namespace
}  // namespace tenure
