// SPDX-License-Identifier: Apache-2.0
//
// With a plan search every law holds as without, decisions depend neither on the order of
// declarations nor on restarts nor on where the trials were made, and a search does take plans.
#include <algorithm>
#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "law_checker.h"
#include "random_events.h"
#include "random_world.h"
#include "tenure/policy.h"
#include "tenure/presets.h"
#include "tenure/scheduler.h"

namespace tenure::test {
namespace {

WorldSpec WorldWithSearch(sim::Rng& rng, const std::string& preset) {
  SchedulerOptions options = MakePreset(preset).scheduler;
  WorldSpec world = RandomWorld(rng, options);
  world.options.search.trials = static_cast<std::uint32_t>(2 + rng.Below(60));
  world.options.search.seed = static_cast<std::uint32_t>(rng.Below(1000));
  world.options.search.backend = plan::BackendKind::kCpu;
  const Duration tolerances[] = {Duration(0), std::chrono::hours(1), std::chrono::hours(500)};
  world.options.search_tolerance = tolerances[rng.Below(3)];
  return world;
}

template <class Policy>
void CheckLaws(const std::string& preset, std::uint64_t first, std::uint64_t worlds) {
  std::int64_t taken = 0, searched = 0, refused = 0, stopping = 0;
  for (std::uint64_t seed = first; seed < first + worlds; ++seed) {
    sim::Rng rng(seed, 1);
    const WorldSpec world = WorldWithSearch(rng, preset);
    ASSERT_TRUE(Scheduler<Policy>::CheckOptions(world.options).ok());
    LawChecker<Policy> checker(world);
    Instance<Policy> twin(world, &rng), restarted(world, nullptr);
    RandomEvents events(sim::Rng(seed, 2));
    for (int i = 0; i < 120; ++i) {
      const Event e = events.Next(checker.model());
      ASSERT_EQ(checker.Step(e), "") << preset << " seed " << seed << " event " << i << ": "
                                     << e.ToString() << checker.last().ToString();
      const Response& r = checker.last();
      const Response t = twin.Tell(e);
      ASSERT_TRUE(t == r) << preset << " seed " << seed << " event " << i << ": " << e.ToString()
                          << r.ToString() << "\ndeclared in another order:" << t.ToString();
      if (rng.Chance(1, 8)) {
        ASSERT_TRUE(restarted.Restart().ok());
      }
      ASSERT_TRUE(restarted.Tell(e) == r) << preset << " seed " << seed << " event " << i;
      ASSERT_EQ(restarted.scheduler().Digest(), checker.instance().scheduler().Digest());
      ASSERT_EQ(checker.instance().scheduler().search_faults(), 0u);
      taken += r.search.outcome == SearchOutcome::kTaken;
      stopping += r.search.outcome == SearchOutcome::kTaken && !r.holds.empty();
      refused += r.search.outcome == SearchOutcome::kRefused;
      searched += r.search.trials > 1;
    }
  }
  EXPECT_GT(taken, 0);
  EXPECT_GT(stopping, 0);  // plans that stop runs, too
  EXPECT_GT(searched, 0);
  // The model of the search is close to the engine: what it proposes is rarely refused.
  EXPECT_LT(refused, taken) << searched << " searches";
}

TEST(SchedulerSearch, KeepsTheLawsUnderBudget) {
  CheckLaws<BudgetPolicy>("budget", 1, Worlds(400));
}
TEST(SchedulerSearch, KeepsTheLawsUnderHier) { CheckLaws<BudgetPolicy>("hier", 100'001, 150); }
TEST(SchedulerSearch, KeepsTheLawsUnderAi2) { CheckLaws<Ai2Policy>("ai2", 200'001, Worlds(250)); }

}  // namespace
}  // namespace tenure::test
