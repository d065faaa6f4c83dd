// SPDX-License-Identifier: Apache-2.0
//
// Law 17: the same events give the same answers, whatever the order in which nodes, domains, types
// and allocations were declared, and through snapshots; replaying the events gives the same state.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "instance.h"
#include "law_checker.h"
#include "random_events.h"
#include "random_world.h"
#include "tenure/policy.h"
#include "tenure/presets.h"
#include "tenure/scheduler.h"

namespace tenure::test {
namespace {

template <class Policy>
void CheckTwins(const std::string& preset, std::uint64_t first, std::uint64_t worlds) {
  std::int64_t starts = 0, restarts = 0;
  for (std::uint64_t seed = first; seed < first + worlds; ++seed) {
    sim::Rng rng(seed, 1);
    WorldSpec world = RandomWorld(rng, MakePreset(preset).scheduler);
    world.budget = MakePreset(preset).budget;
    LawChecker<Policy> checker(world);
    Instance<Policy> twin(world, &rng), restarted(world, nullptr), replayed(world, nullptr);
    RandomEvents events(sim::Rng(seed, 2));
    std::vector<Event> story;
    for (int i = 0; i < 100; ++i) {
      story.push_back(events.Next(checker.model()));
      const Event& e = story.back();
      ASSERT_EQ(checker.Step(e), "") << preset << " seed " << seed << " event " << i;
      const Response& r = checker.last();
      starts += static_cast<std::int64_t>(r.starts.size());
      const std::string at = preset + " seed " + std::to_string(seed) + " event " +
                             std::to_string(i) + ": " + e.ToString() + r.ToString();
      const Response t = twin.Tell(e);
      ASSERT_TRUE(t == r) << at << "\ndeclared in another order:" << t.ToString();
      if (rng.Chance(1, 6)) {
        ++restarts;
        const std::uint64_t digest = restarted.scheduler().Digest();
        ASSERT_TRUE(restarted.Restart().ok());
        ASSERT_EQ(restarted.scheduler().Digest(), digest) << at;
      }
      const Response s = restarted.Tell(e);
      ASSERT_TRUE(s == r) << at << "\nafter a restart:" << s.ToString();
      ASSERT_EQ(restarted.scheduler().Digest(), checker.instance().scheduler().Digest()) << at;
      ASSERT_EQ(restarted.scheduler().dirty(), checker.instance().scheduler().dirty()) << at;
    }
    for (const Event& e : story) replayed.Tell(e);
    ASSERT_EQ(replayed.scheduler().Digest(), checker.instance().scheduler().Digest()) << seed;
    // A copy goes its own way.
    Scheduler<Policy> copy = replayed.scheduler().Clone();
    ASSERT_TRUE(copy.Decide(std::min(checker.model().now + kHour, TimePoint(kTimeLimit))).ok());
    ASSERT_EQ(replayed.scheduler().Digest(), checker.instance().scheduler().Digest()) << seed;
  }
  EXPECT_GT(starts, 0);
  EXPECT_GT(restarts, 0);
}

TEST(SchedulerDeterminism, BudgetIgnoresOrderOfDeclarationAndRestarts) {
  CheckTwins<BudgetPolicy>("budget", 400'001, Worlds(250));
}
TEST(SchedulerDeterminism, HierIgnoresOrderOfDeclarationAndRestarts) {
  CheckTwins<BudgetPolicy>("hier", 500'001, Worlds(100));
}
TEST(SchedulerDeterminism, LagIgnoresOrderOfDeclarationAndRestarts) {
  CheckTwins<BudgetPolicy>("lag", 700'001, Worlds(100));
}
TEST(SchedulerDeterminism, Ai2IgnoresOrderOfDeclarationAndRestarts) {
  CheckTwins<Ai2Policy>("ai2", 600'001, Worlds(250));
}

TEST(SchedulerDeterminism, DamagedSnapshotsAreRefusedAndChangeNothing) {
  sim::Rng rng(7, 1);
  const WorldSpec world = RandomWorld(rng, MakePreset("budget").scheduler);
  LawChecker<BudgetPolicy> checker(world);
  RandomEvents events(sim::Rng(7, 2));
  for (int i = 0; i < 80; ++i) ASSERT_EQ(checker.Step(events.Next(checker.model())), "");
  const std::string good = checker.instance().scheduler().Snapshot();
  Scheduler<BudgetPolicy> victim(world.options);
  const std::uint64_t digest = victim.Digest();
  for (int i = 0; i < 500; ++i) {
    std::string bad = good;
    const auto at = static_cast<std::size_t>(rng.Below(static_cast<std::int64_t>(bad.size())));
    if (rng.Chance(1, 2)) {
      bad.resize(at);
    } else {
      bad[at] = static_cast<char>(bad[at] ^ (1 << rng.Below(8)));
    }
    ASSERT_EQ(victim.Restore(bad).code(), absl::StatusCode::kInvalidArgument);
    ASSERT_EQ(victim.Digest(), digest);
  }
  SchedulerOptions other = world.options;
  other.tick += kSecond;
  Scheduler<BudgetPolicy> stranger(other);
  EXPECT_EQ(stranger.Restore(good).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(victim.Restore(good).ok());
  EXPECT_EQ(victim.Digest(), checker.instance().scheduler().Digest());
}

}  // namespace
}  // namespace tenure::test
