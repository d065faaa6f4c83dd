// SPDX-License-Identifier: Apache-2.0
//
// Law 12: with fixed demand and a resource manager that does what it is told at once, every instant
// comes to rest, whoever others were stopped for starts, and nobody is stopped more often than once
// per minimum.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

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
class FixedDemand {
 public:
  FixedDemand(const WorldSpec& world, std::string name) : checker_(world), name_(std::move(name)) {}

  void Run(std::uint64_t seed, Duration horizon) {
    RandomEvents events(sim::Rng(seed, 2));
    TimePoint now{};
    for (int i = 0; i < 25; ++i) {
      Event e;
      e.kind = Event::Kind::kSubmit;
      e.spec = events.Spec(checker_.model());
      e.spec.resumable = true;
      checker_.Step(e);  // some are refused
    }
    while (now < TimePoint(horizon) && !::testing::Test::HasFatalFailure()) {
      const TimePoint wakeup = Settle(now);
      now = std::max(now + kMinute, std::min(wakeup, now + kHour * 12));
    }
    for (const auto& [id, w] : checker_.model().workloads) {
      if (w.ideal <= Duration(0)) continue;
      EXPECT_LE(stops_[id], horizon / w.ideal + 1) << name_ << ": w" << id.value();
    }
  }
  std::int64_t total_stops() const {
    std::int64_t sum = 0;
    for (const auto& [id, n] : stops_) sum += n;
    return sum;
  }

 private:
  void Tell(const Event& e) {
    const std::string broken = checker_.Step(e);
    story_.push_back(e.ToString() + checker_.last().ToString());
    if (story_.size() > 60) story_.erase(story_.begin());
    std::string story;
    if (!broken.empty()) {
      for (const std::string& line : story_) story += "\n" + line;
    }
    ASSERT_EQ(broken, "") << name_ << story;
  }

  // Passes at one instant until nothing is decided any more; returns the next wake-up.
  TimePoint Settle(TimePoint now) {
    std::vector<WorkloadId> beneficiaries;
    for (int round = 0; round < 200; ++round) {
      Event decide;
      decide.now = now;
      Tell(decide);
      if (::testing::Test::HasFatalFailure()) return now;
      const Response r = checker_.last();
      for (WorkloadId id : beneficiaries) {
        EXPECT_TRUE(std::any_of(r.starts.begin(), r.starts.end(),
                                [&](const auto& p) { return p.workload == id; }))
            << name_ << ": w" << id.value() << " does not start on what was emptied for it";
      }
      if (r.quiet()) return r.next_wakeup;
      beneficiaries.clear();
      for (const auto& p : r.starts) {
        Event e;
        e.kind = Event::Kind::kStarted;
        e.now = e.at = now;
        e.id = p.workload;
        e.run = p.run;
        Tell(e);
      }
      for (const auto& s : r.stops) {
        ++stops_[s.workload];
        beneficiaries.push_back(s.beneficiary);
        Event e;
        e.kind = Event::Kind::kStopped;
        e.now = e.at = now;
        e.id = s.workload;
        e.run = s.run;
        Tell(e);
      }
    }
    ADD_FAILURE() << name_ << ": no rest at " << now.time_since_epoch().count();
    return now;
  }

  LawChecker<Policy> checker_;
  std::string name_;
  std::vector<std::string> story_;  // the last events
  std::map<WorkloadId, std::int64_t> stops_;
};

template <class Policy>
void CheckFixedDemand(const std::string& preset, std::uint64_t first, std::uint64_t worlds) {
  std::int64_t stops = 0;
  for (std::uint64_t seed = first; seed < first + worlds; ++seed) {
    sim::Rng rng(seed, 1);
    const WorldSpec world = RandomWorld(rng, MakePreset(preset).scheduler);
    FixedDemand<Policy> run(world, preset + " seed " + std::to_string(seed));
    run.Run(seed, kHour * 60);
    stops += run.total_stops();
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(stops, 0);
}

TEST(SchedulerFixedDemand, ComesToRestUnderBudget) {
  CheckFixedDemand<BudgetPolicy>("budget", 700'001, Worlds(25));
}
TEST(SchedulerFixedDemand, ComesToRestUnderHier) {
  CheckFixedDemand<BudgetPolicy>("hier", 800'001, Worlds(12));
}
TEST(SchedulerFixedDemand, ComesToRestUnderAi2) {
  CheckFixedDemand<Ai2Policy>("ai2", 900'001, Worlds(25));
}

}  // namespace
}  // namespace tenure::test
