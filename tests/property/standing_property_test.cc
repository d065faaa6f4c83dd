// SPDX-License-Identifier: Apache-2.0
//
// What is kept from pass to pass about the standing of allocations, against what comes out when it
// is computed from nothing.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "random_world.h"
#include "tenure/archive.h"
#include "tenure/budget_tree.h"
#include "tenure/fixed_math.h"
#include "tenure/ledger.h"
#include "tenure/ranking.h"
#include "tenure/reservation.h"
#include "tenure/serving_order.h"
#include "tenure/sim/random.h"

namespace tenure::test {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

Duration Key(AllocationId, GpuTime used, MilliGpu entitlement) {
  return internal::HoursOfShare(used, entitlement);
}

// A tree of up to three levels in which some weigh nothing.
BudgetTree RandomTree(sim::Rng& rng, std::vector<AllocationId>& leaves) {
  BudgetTree tree;
  std::vector<AllocationId> inner = {kRootAllocation};
  for (std::int64_t i = rng.Below(6); i > 0; --i) {
    const AllocationId parent =
        inner[static_cast<std::size_t>(rng.Below(static_cast<std::int64_t>(inner.size())))];
    if (tree.depth(parent) < 3) {
      inner.push_back(
          tree.Add(absl::StrCat("i", i), parent, Weight{static_cast<double>(rng.Below(4))})
              .value());
    }
  }
  for (std::int64_t i = 2 + rng.Below(rng.Chance(1, 4) ? 40 : 10); i > 0; --i) {
    const AllocationId parent =
        inner[static_cast<std::size_t>(rng.Below(static_cast<std::int64_t>(inner.size())))];
    leaves.push_back(
        tree.Add(absl::StrCat("l", i), parent, Weight{static_cast<double>(rng.Below(5))}).value());
  }
  return tree;
}

// Accounts on which something is booked at random, and late, as time passes.
class Books {
 public:
  explicit Books(sim::Rng& rng)
      : rng_(rng), tree(RandomTree(rng, leaves)), ledger(hours(24)), placed_(tree.size()) {
    ledger.Open(tree);
  }

  void Change() {
    const AllocationId leaf =
        leaves[static_cast<std::size_t>(rng_.Below(static_cast<std::int64_t>(leaves.size())))];
    const std::int64_t what = rng_.Below(12);
    const TimePoint at = rng_.Chance(1, 4) ? now - minutes(rng_.Below(3000)) : now;
    if (what < 4) {
      ledger.Charge(tree, leaf, at, GpuCount(rng_.Below(9) - 4));
    } else if (what < 7) {
      GpuCount& placed = placed_[leaf.value()];
      const GpuCount to(rng_.Chance(1, 3) ? 0 : rng_.Below(30));
      if (rng_.Chance(1, 2)) {
        ledger.AddPlaced(tree, leaf, to - placed);
      } else {
        ledger.AddQueued(tree, leaf, to - placed);
      }
      placed = to;
    } else if (what < 8) {
      const TimePoint until = now + minutes(rng_.Below(600));
      committed_.emplace_back(leaf, until);
      ledger.Commit(tree, leaf, MilliGpu(4000), until);
      ledger.Charge(tree, leaf, now, GpuCount(4));
    } else if (what < 9) {
      ledger.ChargeUnfunded(tree, leaf, at, GpuCount(rng_.Below(5)));
    } else if (what < 10 && rng_.Chance(1, 10)) {
      ledger.Refine(ledger.unit() == 1 ? 4 : ledger.unit() == 4 ? 20 : ledger.unit());
    } else {
      now += rng_.Chance(1, 20) ? hours(rng_.Below(40)) : minutes(rng_.Below(40));
      std::erase_if(committed_, [&](const auto& c) {
        if (c.second > now) return false;
        ledger.Uncommit(tree, c.first, MilliGpu(4000), c.second);
        return true;
      });
    }
  }

 private:
  sim::Rng& rng_;

 public:
  std::vector<AllocationId> leaves;
  BudgetTree tree;
  Ledger ledger;
  TimePoint now{hours(24)};

 private:
  std::vector<GpuCount> placed_;
  std::vector<std::pair<AllocationId, TimePoint>> committed_;
};

TEST(Ranking, IsWhatItWouldBeFromNothing) {
  std::int64_t compared = 0, asked = 0;
  for (std::uint64_t seed = 1; seed <= Worlds(150); ++seed) {
    sim::Rng rng(seed);
    Books books(rng);
    RankingOptions options;
    options.level_by_level = rng.Chance(1, 2);
    options.fluid = !rng.Chance(1, 8);
    if (rng.Chance(1, 6)) options.gain = Duration(0);
    Ranking ranking(options), other(options);
    MilliGpu capacity(rng.Below(400'000));
    std::vector<MilliGpu> natural(books.tree.size());
    for (int step = 0; step < 120; ++step) {
      for (std::int64_t n = rng.Below(6); n > 0; --n) books.Change();
      if (rng.Chance(1, 30)) capacity = MilliGpu(rng.Below(400'000));
      if (rng.Chance(1, 30)) {
        const AllocationId leaf = books.leaves[0];
        ASSERT_TRUE(books.tree
                        .ScheduleWeight(leaf, Weight{static_cast<double>(rng.Below(5))}, books.now,
                                        "a", "r")
                        .ok());
        if (books.tree.ApplyEdits(books.now)) ranking.Invalidate();
        other.Invalidate();
      }
      // Another that asks the same ledger may cost time, but nothing else.
      if (rng.Chance(1, 10)) other.Refresh(books.tree, books.ledger, capacity, books.now, Key);
      const bool all = rng.Chance(1, 20);
      const auto key = [&](AllocationId id, GpuTime used, MilliGpu entitlement) {
        ++asked;
        return Key(id, used, entitlement);
      };
      ranking.Refresh(books.tree, books.ledger, capacity, books.now, key, all);
      Ledger ledger = books.ledger;
      Ranking fresh(options);
      fresh.Refresh(books.tree, ledger, capacity, books.now, Key);
      for (std::uint32_t i : ranking.natural_moved()) {
        natural[i] = ranking.natural(AllocationId(i));
      }
      for (std::uint32_t i = 0; i < books.tree.size(); ++i) {
        const AllocationId id(i);
        ASSERT_EQ(ranking.used(id), fresh.used(id)) << "world " << seed << " step " << step;
        ASSERT_EQ(ranking.key(id), fresh.key(id));
        ASSERT_EQ(ranking.entitlement(id), fresh.entitlement(id));
        ASSERT_EQ(ranking.demand(id), fresh.demand(id));
        ASSERT_EQ(ranking.natural(id), fresh.natural(id)) << "world " << seed << " step " << step;
        ASSERT_EQ(ranking.fluid(id), fresh.fluid(id)) << "world " << seed << " step " << step;
        ASSERT_EQ(ranking.natural(id), natural[i]) << "natural_moved is not complete";
        ++compared;
      }
    }
  }
  EXPECT_LT(asked, compared);
  EXPECT_GT(compared, 10'000);
}

// The cost of a pass grows with what changes, not with the number of allocations.
TEST(Ranking, LooksAtNothingThatCannotHaveMoved) {
  sim::Rng rng(5);
  BudgetTree tree;
  std::vector<AllocationId> leaves;
  for (int d = 0; d < 50; ++d) {
    const AllocationId division =
        tree.Add(absl::StrCat("d", d), kRootAllocation, Weight{1}).value();
    for (int l = 0; l < 200; ++l) {
      leaves.push_back(tree.Add(absl::StrCat("l", l), division, Weight{1}).value());
    }
  }
  Ledger ledger(hours(168));
  ledger.Open(tree);
  // All have run something two days ago, eight run something now, half of them protected.
  const TimePoint now(hours(24 * 30));
  for (AllocationId leaf : leaves) {
    ledger.Charge(tree, leaf, now - hours(48), GpuCount(8));
    ledger.Charge(tree, leaf, now - hours(47), GpuCount(-8));
  }
  for (std::size_t i = 0; i < 8; ++i) {
    const AllocationId leaf = leaves[i * 1000];
    ledger.Charge(tree, leaf, now, GpuCount(8));
    ledger.AddPlaced(tree, leaf, GpuCount(8));
    if (i % 2 == 0) ledger.Commit(tree, leaf, MilliGpu(8000), now + hours(8));
  }
  std::int64_t asked = 0;
  const auto key = [&](AllocationId id, GpuTime used, MilliGpu entitlement) {
    ++asked;
    return Key(id, used, entitlement);
  };
  Ranking ranking;
  ranking.Refresh(tree, ledger, GpuCount(1024), now, key);
  EXPECT_EQ(asked, static_cast<std::int64_t>(tree.size()));
  asked = 0;
  ranking.Refresh(tree, ledger, GpuCount(1024), now + minutes(1), key);
  EXPECT_EQ(asked, 4 + 4 + 1);  // those without protection, their divisions and the root
  ledger.AddQueued(tree, leaves[7], GpuCount(1));
  asked = 0;
  ranking.Refresh(tree, ledger, GpuCount(1024), now + minutes(2), key);
  EXPECT_EQ(asked, 4 + 4 + 1 + 2);  // and the leaf that waits, and its division
  asked = 0;
  // Five days later what all have used leaves the window.
  ranking.Refresh(tree, ledger, GpuCount(1024), now + hours(121), key);
  EXPECT_EQ(asked, static_cast<std::int64_t>(tree.size()));
}

TEST(ServingOrder, IsTheFirstOfAllThatWait) {
  std::int64_t turns = 0;
  for (std::uint64_t seed = 1; seed <= Worlds(200); ++seed) {
    sim::Rng rng(seed);
    std::vector<AllocationId> leaves;
    const BudgetTree tree = RandomTree(rng, leaves);
    Ledger ledger;
    ledger.Open(tree);
    for (AllocationId leaf : leaves) {
      ledger.Charge(tree, leaf, TimePoint(), GpuCount(rng.Below(3)));
    }
    RankingOptions options;
    options.level_by_level = rng.Chance(1, 2);
    options.fluid = false;
    Ranking ranking(options);
    std::map<AllocationId, Duration> keys;
    const auto key = [&](AllocationId id, GpuTime, MilliGpu) { return keys[id]; };
    const auto move = [&](AllocationId id) { keys[id] = Duration(rng.Below(6)); };
    TimePoint now{};
    ServingOrder order;
    std::vector<AllocationId> waiting;
    for (int round = 0; round < 12; ++round) {
      now += hours(1);
      for (std::uint32_t i = 0; i < tree.size(); ++i) {
        if (round == 0 || rng.Chance(1, 3)) move(AllocationId(i));
      }
      ranking.Refresh(tree, ledger, GpuCount(64), now, key, true);
      for (AllocationId leaf : leaves) {
        const auto at = std::find(waiting.begin(), waiting.end(), leaf);
        if (rng.Chance(3, 4)) continue;
        if (at != waiting.end()) {
          waiting.erase(at);
        } else {
          waiting.push_back(leaf);
          order.Add(leaf);
        }
      }
      std::vector<AllocationId> active = waiting;
      const auto waits = [&](AllocationId leaf) {
        return std::find(waiting.begin(), waiting.end(), leaf) != waiting.end();
      };
      for (order.Begin(tree, ranking, waits); !order.empty(); ++turns) {
        const auto first = std::min_element(
            active.begin(), active.end(),
            [&](AllocationId a, AllocationId b) { return ranking.Before(tree, a, b); });
        ASSERT_NE(first, active.end());
        ASSERT_EQ(order.first(), *first) << "world " << seed << " round " << round;
        const bool again = rng.Chance(1, 2);
        if (again || rng.Chance(1, 4)) {
          for (AllocationId a = *first; a != kRootAllocation; a = tree.parent(a)) {
            if (rng.Chance(1, 2)) move(a);
          }
          ranking.Recharge(tree, ledger, *first, now, key);
        }
        if (!again) active.erase(first);
        order.Served(tree, ranking, again);
      }
      ASSERT_TRUE(active.empty());
    }
  }
  EXPECT_GT(turns, 1000);
}

TEST(CreditMeter, IsTheIntegralOfTheShare) {
  constexpr std::int64_t kBucket = 100;  // us: the window is 168 of them
  for (std::uint64_t seed = 1; seed <= Worlds(300); ++seed) {
    sim::Rng rng(seed);
    CreditMeter meter{Duration(168 * kBucket)};
    const auto size = static_cast<std::uint32_t>(1 + rng.Below(4));
    // What each was owed in every microsecond, from `begin` on.
    const std::int64_t begin = rng.Below(3) * 100'000 - 100'000 + rng.Below(7);
    std::vector<std::vector<std::int64_t>> owed(size);
    std::vector<std::int64_t> rate(size);
    std::int64_t now = begin;
    meter.Advance(TimePoint(Duration(now)));
    for (int step = 0; step < 60; ++step) {
      const std::uint32_t i = static_cast<std::uint32_t>(rng.Below(size));
      if (rng.Chance(1, 2)) {
        rate[i] = rng.Chance(1, 3) ? 0 : rng.Below(5'000);
        meter.Set(AllocationId(i), MilliGpu(rate[i]));
      } else if (rng.Chance(1, 20)) {
        meter.Forgive(AllocationId(i));
        rate[i] = 0;
        owed[i].assign(owed[i].size(), 0);
      }
      const std::int64_t pass = rng.Chance(1, 10)  ? rng.Below(400 * kBucket)
                                : rng.Chance(1, 3) ? kBucket - (now % kBucket + kBucket) % kBucket
                                                   : rng.Below(3 * kBucket);
      now += pass;
      for (std::uint32_t j = 0; j < size; ++j) {
        owed[j].resize(owed[j].size() + static_cast<std::size_t>(pass), rate[j]);
      }
      meter.Advance(TimePoint(Duration(now)));
      // The last 1/168th that has begun and the 167 before.
      const auto floor = [](std::int64_t t) {
        return t >= 0 ? t / kBucket : -((-t + kBucket - 1) / kBucket);
      };
      const std::int64_t first = (floor(now - 1) - 167) * kBucket;
      if (rng.Chance(1, 4)) {
        CreditMeter restored{Duration(168 * kBucket)};
        const std::string bytes = internal::Pack(meter);
        ASSERT_TRUE(internal::Unpack(bytes, restored).ok());
        ASSERT_EQ(internal::Pack(restored), bytes);
        if (rng.Chance(1, 2)) meter = restored;
      }
      for (std::uint32_t j = 0; j < size; ++j) {
        std::int64_t sum = 0;
        for (std::int64_t t = std::max(first, begin); t < now; ++t) {
          sum += owed[j][static_cast<std::size_t>(t - begin)];
        }
        ASSERT_EQ(meter.Owed(AllocationId(j)), GpuTime(sum / 1000))
            << "world " << seed << " step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace tenure::test
