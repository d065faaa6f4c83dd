// SPDX-License-Identifier: Apache-2.0
//
// The laws of scheduling over random worlds and stories, for each policy. A failure prints the
// seed and the shortest story found that still breaks a law.
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "law_checker.h"
#include "random_events.h"
#include "random_world.h"
#include "tenure/policy.h"
#include "tenure/presets.h"
#include "tenure/scheduler.h"

namespace tenure::test {
namespace {

template <class Policy>
std::string Broken(const WorldSpec& world, const std::vector<Event>& story, std::string* trace) {
  LawChecker<Policy> checker(world);
  for (const Event& e : story) {
    const std::string broken = checker.Step(e);
    if (trace != nullptr) {
      absl::StrAppend(trace, e.ToString(), checker.last().ToString(), "\n");
    }
    if (!broken.empty()) return broken;
  }
  return "";
}

// Leaves out events as long as some law stays broken.
template <class Policy>
std::string Shortest(const WorldSpec& world, std::vector<Event> story) {
  for (std::size_t chunk = story.size() / 2; chunk > 0; chunk /= 2) {
    for (std::size_t at = 0; at + chunk <= story.size();) {
      std::vector<Event> shorter = story;
      shorter.erase(shorter.begin() + static_cast<std::ptrdiff_t>(at),
                    shorter.begin() + static_cast<std::ptrdiff_t>(at + chunk));
      if (Broken<Policy>(world, shorter, nullptr).empty()) {
        at += chunk;
      } else {
        story = std::move(shorter);
      }
    }
  }
  std::string trace;
  const std::string broken = Broken<Policy>(world, story, &trace);
  return absl::StrCat(broken, "\n", ToString(world), "\n", trace);
}

template <class Policy>
void CheckWorlds(const std::string& preset, std::uint64_t first, std::uint64_t worlds) {
  LawCounts total;
  int failures = 0;
  for (std::uint64_t seed = first; seed < first + worlds && failures < 3; ++seed) {
    sim::Rng rng(seed, 1);
    WorldSpec world = RandomWorld(rng, MakePreset(preset).scheduler);
    world.budget = MakePreset(preset).budget;
    ASSERT_TRUE(Scheduler<Policy>::CheckOptions(world.options).ok());
    LawChecker<Policy> checker(world);
    RandomEvents events(sim::Rng(seed, 2));
    std::vector<Event> story;
    std::string broken;
    const std::int64_t length = 60 + rng.Below(140);
    for (std::int64_t i = 0; i < length && broken.empty(); ++i) {
      story.push_back(events.Next(checker.model()));
      broken = checker.Step(story.back());
    }
    if (!broken.empty()) {
      ++failures;
      ADD_FAILURE() << preset << " seed " << seed << ": " << broken
                    << "\nshortest story: " << Shortest<Policy>(world, story);
    }
    const LawCounts& c = checker.counts();
    total.events += c.events;
    total.refused += c.refused;
    total.passes += c.passes;
    total.starts += c.starts;
    total.gang_starts += c.gang_starts;
    total.holds += c.holds;
    total.hold_starts += c.hold_starts;
    total.preempted += c.preempted;
    total.preempted_funded += c.preempted_funded;
    total.drained += c.drained;
    total.cancelled += c.cancelled;
    total.lost += c.lost;
    total.inferred += c.inferred;
    total.never_fits += c.never_fits;
    total.promises += c.promises;
    total.promised_starts += c.promised_starts;
    total.lost_with_node += c.lost_with_node;
    total.closed_drains += c.closed_drains;
    total.maintenance_waits += c.maintenance_waits;
    total.class_caps += c.class_caps;
    total.serving_caps += c.serving_caps;
    total.user_caps += c.user_caps;
    total.borrowed += c.borrowed;
    total.suspended += c.suspended;
    total.boosted_passes += c.boosted_passes;
    total.rated_passes += c.rated_passes;
  }
  std::cout << preset << ": " << worlds << " worlds, " << total.events << " events ("
            << total.refused << " refused), " << total.passes << " passes, " << total.starts
            << " starts (" << total.gang_starts << " gangs, " << total.hold_starts
            << " from holds), " << total.holds << " holds, " << total.preempted << " preempted ("
            << total.preempted_funded << " funded), " << total.drained << " drained, "
            << total.cancelled << " cancelled, " << total.lost << " stopped, " << total.inferred
            << " ends inferred, " << total.lost_with_node << " lost with a node, "
            << total.never_fits << " never fit, " << total.promises << " promises, "
            << total.promised_starts << " promised starts, " << total.closed_drains
            << " emptied for maintenance, " << total.maintenance_waits << " waits for it, "
            << total.class_caps << " for the cap of a class, " << total.serving_caps
            << " for that of services, " << total.user_caps << " for that of a user, "
            << total.borrowed << " protected less, " << total.suspended
            << " idle sessions suspended, " << total.boosted_passes << " passes with boosts, "
            << total.rated_passes << " with charge rates\n";
  // The laws were put to the test.
  EXPECT_GT(total.gang_starts, 0);
  EXPECT_GT(total.hold_starts, 0);
  EXPECT_GT(total.preempted_funded, 0);
  EXPECT_GT(total.drained, 0);
  EXPECT_GT(total.inferred, 0);
  EXPECT_GT(total.lost_with_node, 0);
  EXPECT_GT(total.closed_drains, 0);
  EXPECT_GT(total.maintenance_waits, 0);
  EXPECT_GT(total.class_caps, 0);
  EXPECT_GT(total.serving_caps, 0);
  EXPECT_GT(total.user_caps, 0);
  EXPECT_GT(total.borrowed, 0);
  EXPECT_GT(total.suspended, 0);
  EXPECT_GT(total.boosted_passes, 0);
  EXPECT_GT(total.rated_passes, 0);
  EXPECT_GT(total.refused, 0);
  if (preset != "ai2") {  // credit needs the fluid shares
    EXPECT_GT(total.promises, 0);
    EXPECT_GT(total.promised_starts, 0);
  }
}

TEST(SchedulerLaws, HoldInRandomWorldsUnderBudget) {
  CheckWorlds<BudgetPolicy>("budget", 1, Worlds(2000));
}
TEST(SchedulerLaws, HoldInRandomWorldsUnderHier) {
  CheckWorlds<BudgetPolicy>("hier", 100'001, Worlds(1000));
}
TEST(SchedulerLaws, HoldInRandomWorldsUnderLag) {
  CheckWorlds<BudgetPolicy>("lag", 300'001, Worlds(500));
}
TEST(SchedulerLaws, HoldInRandomWorldsUnderAi2) {
  CheckWorlds<Ai2Policy>("ai2", 200'001, Worlds(2000));
}

}  // namespace
}  // namespace tenure::test
