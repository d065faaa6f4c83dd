// SPDX-License-Identifier: Apache-2.0

#include "tenure/sim/gaming.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tenure/sim/institute.h"
#include "tenure/sim/simulate.h"

namespace tenure::sim {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

std::int64_t Us(Duration d) { return d.count(); }

JobRow Job(std::int32_t leaf, WorkloadClass klass, std::int32_t nodes, std::int32_t gpus,
           Duration runtime, Duration minimum) {
  JobRow row;
  row.leaf = leaf;
  row.workload_class = static_cast<std::uint32_t>(klass);
  row.nodes = nodes;
  row.gpus_per_node = gpus;
  row.runtime_us = Us(runtime);
  row.limit_us = Us(2 * runtime);
  row.minimum_us = Us(minimum);
  return row;
}

// One job of each kind for leaf 0 and leaf 1.
World Mixed() {
  World world;
  world.cluster = {.nodes = 8, .gpus_per_node = 8, .nodes_per_rack = 0};
  world.leaves = {{"p/a", {2, 1}}, {"p/b", {2, 1}}};
  for (std::int32_t leaf : {0, 1}) {
    world.jobs.push_back(Job(leaf, WorkloadClass::kTraining, 4, 8, hours(2), hours(1)));
    world.jobs.push_back(Job(leaf, WorkloadClass::kTraining, 1, 4, hours(1), hours(1)));
    world.jobs.push_back(Job(leaf, WorkloadClass::kInteractive, 1, 1, hours(24), hours(4)));
    world.jobs.push_back(Job(leaf, WorkloadClass::kDebug, 1, 2, minutes(5), minutes(10)));
    world.jobs.push_back(Job(leaf, WorkloadClass::kSweep, 1, 8, hours(3), Duration(0)));
  }
  for (std::size_t i = 0; i < world.jobs.size(); ++i) {
    world.jobs[i].submit_us = static_cast<std::int64_t>(i);
    world.jobs[i].user = static_cast<std::int32_t>(i);
  }
  return world;
}

World Gamed(GameStrategy strategy, World world = Mixed()) {
  EXPECT_TRUE(Game(world, 0, strategy).ok());
  EXPECT_TRUE(CheckWorld(world).ok());
  return world;
}

std::vector<JobRow> Of(const World& world, std::int32_t leaf) {
  std::vector<JobRow> jobs;
  std::copy_if(world.jobs.begin(), world.jobs.end(), std::back_inserter(jobs),
               [&](const JobRow& j) { return j.leaf == leaf; });
  return jobs;
}

std::int64_t FundedWork(const std::vector<JobRow>& jobs) {
  std::int64_t sum = 0;
  for (const JobRow& j : jobs) {
    if (j.funded() && !(j.flags & kIdle)) sum += j.runtime_us * j.gpus();
  }
  return sum;
}

std::string Text(const JobRow& j) {
  return absl::StrCat(j.nodes, "x", j.gpus_per_node, " ", ToString(j.klass()), " min ",
                      j.minimum_us / 60'000'000, " run ", j.runtime_us / 60'000'000, " prio ",
                      j.priority, " flags ", j.flags);
}

std::vector<std::string> Texts(const std::vector<JobRow>& jobs) {
  std::vector<std::string> out;
  for (const JobRow& j : jobs) out.push_back(Text(j));
  return out;
}

TEST(Gaming, NamesAreParsed) {
  for (std::size_t i = 0; i < kGameNames.size(); ++i) {
    const auto strategy = static_cast<GameStrategy>(i);
    EXPECT_EQ(ParseGame(ToString(strategy)).value(), strategy);
  }
  const absl::Status s = ParseGame("bribe").status();
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(s.message(),
            "no gaming strategy 'bribe'; there are none, inflate, split, pieces, resubmit, "
            "hold, "
            "subaccounts, high, lane");
}

TEST(Gaming, UnknownLeavesAreRefused) {
  World world = Mixed();
  for (std::int32_t leaf : {-1, 2}) {
    EXPECT_EQ(Game(world, leaf, GameStrategy::kSplit).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(Texts(world.jobs), Texts(Mixed().jobs));
}

TEST(Gaming, OthersAreLeftAloneAndTheWorkIsTheSame) {
  const World honest = Mixed();
  for (std::size_t i = 0; i < kGameNames.size(); ++i) {
    const auto strategy = static_cast<GameStrategy>(i);
    World world = Mixed();
    const std::vector<std::int32_t> leaves = Game(world, 0, strategy).value();
    EXPECT_EQ(leaves[0], 0);
    EXPECT_TRUE(CheckWorld(world).ok()) << kGameNames[i];
    EXPECT_EQ(Texts(Of(world, 1)), Texts(Of(honest, 1))) << kGameNames[i];
    std::int64_t work = 0;
    for (std::int32_t leaf : leaves) work += FundedWork(Of(world, leaf));
    EXPECT_EQ(work, FundedWork(Of(honest, 0))) << kGameNames[i];
    EXPECT_EQ(world.assumptions.size(), i == 0 ? 0u : 1u);
  }
}

TEST(Gaming, InflateDeclaresTheLongestMinimum) {
  EXPECT_EQ(Texts(Of(Gamed(GameStrategy::kInflate), 0)),
            (std::vector<std::string>{"4x8 training min 480 run 120 prio 0 flags 1",
                                      "1x4 training min 480 run 60 prio 0 flags 1",
                                      "1x1 interactive min 480 run 1440 prio 0 flags 1",
                                      "1x2 debug min 10 run 5 prio 0 flags 1",
                                      "1x8 sweep min 0 run 180 prio 0 flags 1"}));
}

TEST(Gaming, SplitMakesJobsOfEightGpus) {
  const std::vector<JobRow> jobs = Of(Gamed(GameStrategy::kSplit), 0);
  ASSERT_EQ(jobs.size(), 8u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(Text(jobs[i]), "1x8 training min 60 run 120 prio 0 flags 1");
  }
  EXPECT_EQ(Text(jobs[4]), "1x4 training min 60 run 60 prio 0 flags 1");
  // Of a host with 20 GPUs: 8, 8 and 4.
  World big = Mixed();
  big.cluster.gpus_per_node = 20;
  big.jobs[0].nodes = 1;
  big.jobs[0].gpus_per_node = 20;
  const std::vector<JobRow> parts = Of(Gamed(GameStrategy::kSplit, big), 0);
  EXPECT_EQ(parts[0].gpus(), 8);
  EXPECT_EQ(parts[1].gpus(), 8);
  EXPECT_EQ(parts[2].gpus(), 4);
}

TEST(Gaming, PiecesAreAQuarterOfAnHourEach) {
  const std::vector<JobRow> jobs = Of(Gamed(GameStrategy::kPieces), 0);
  ASSERT_EQ(jobs.size(), 4u * 8 + 4 + 3);
  for (std::size_t i = 0; i < 36; ++i) {
    EXPECT_EQ(jobs[i].minimum_us, Us(minutes(15)));
    EXPECT_EQ(jobs[i].runtime_us, Us(minutes(15)));
    EXPECT_EQ(jobs[i].limit_us, Us(minutes(30)));
    EXPECT_EQ(jobs[i].submit_us, i < 32 ? 0 : 1);
    EXPECT_EQ(jobs[i].klass(), WorkloadClass::kTraining);
  }
  // Odd microseconds are not lost, and a job shorter than a piece stays whole.
  World odd = Mixed();
  odd.jobs[1].runtime_us = Us(minutes(47)) + 1;
  odd.jobs[0].runtime_us = 1;
  const World gamed = Gamed(GameStrategy::kPieces, odd);
  EXPECT_EQ(FundedWork(Of(gamed, 0)), FundedWork(Of(odd, 0)));
  EXPECT_EQ(Of(gamed, 0).size(), 4u + 3 + 3);
}

TEST(Gaming, ResubmittedWorkIsAsLongAsItsMinimum) {
  const std::vector<JobRow> jobs = Of(Gamed(GameStrategy::kResubmit), 0);
  ASSERT_EQ(jobs.size(), 2u + 1 + 3);
  EXPECT_EQ(Text(jobs[0]), "4x8 training min 60 run 60 prio 0 flags 1");
  EXPECT_EQ(Text(jobs[1]), Text(jobs[0]));
  EXPECT_EQ(Text(jobs[2]), "1x4 training min 60 run 60 prio 0 flags 1");
  // A short minimum is raised to an hour, a long one cut to the cap.
  World world = Mixed();
  world.jobs[0].minimum_us = Us(minutes(15));
  world.jobs[1].minimum_us = Us(hours(30));
  world.jobs[1].runtime_us = Us(hours(16));
  const std::vector<JobRow> others = Of(Gamed(GameStrategy::kResubmit, world), 0);
  EXPECT_EQ(Text(others[0]), "4x8 training min 60 run 60 prio 0 flags 1");
  EXPECT_EQ(Text(others[2]), "1x4 training min 480 run 480 prio 0 flags 1");
}

TEST(Gaming, HoldAddsEightIdleSessions) {
  const std::vector<JobRow> jobs = Of(Gamed(GameStrategy::kHold), 0);
  ASSERT_EQ(jobs.size(), 5u + 8);
  EXPECT_EQ(Text(jobs[2]), "1x1 interactive min 240 run 1440 prio 0 flags 1");
  for (std::size_t i = 3; i < 11; ++i) {
    EXPECT_EQ(Text(jobs[i]), "1x1 interactive min 480 run 10080 prio 0 flags 3");
    EXPECT_EQ(jobs[i].submit_us, jobs[2].submit_us);
    EXPECT_GE(jobs[i].limit_us, jobs[i].runtime_us);
  }
}

TEST(Gaming, SubaccountsDivideTheLeaf) {
  World world = Mixed();
  const std::vector<std::int32_t> leaves = Game(world, 0, GameStrategy::kSubaccounts).value();
  EXPECT_EQ(leaves, (std::vector<std::int32_t>{0, 2, 3, 4}));
  ASSERT_EQ(world.leaves.size(), 5u);
  EXPECT_EQ(world.leaves[0].path, "p/a/0");
  EXPECT_EQ(world.leaves[4].path, "p/a/3");
  EXPECT_EQ(world.leaves[4].weights, (std::vector<double>{2, 1, 1}));
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(world.jobs[i].leaf, leaves[i % 4]);
  SimOptions o;
  o.end = hours(48);
  const Metrics m = Simulate(world, "budget", {}, o).value();
  EXPECT_EQ(m.jobs_done, 10);
  EXPECT_DOUBLE_EQ(m.leaf[0].share, 0.125);
  EXPECT_DOUBLE_EQ(m.leaf[1].share, 0.5);
  EXPECT_DOUBLE_EQ(m.leaf[4].share, 0.125);
}

TEST(Gaming, HighIsTheHighestPriority) {
  for (const JobRow& j : Of(Gamed(GameStrategy::kHigh), 0)) {
    EXPECT_EQ(j.priority, std::numeric_limits<std::int32_t>::max());
  }
}

TEST(Gaming, LaneDeclaresShortMinimumsAndDebug) {
  EXPECT_EQ(
      Texts(Of(Gamed(GameStrategy::kLane), 0)),
      (std::vector<std::string>{
          "4x8 training min 15 run 120 prio 0 flags 1", "1x4 debug min 15 run 60 prio 0 flags 1",
          "1x1 interactive min 240 run 1440 prio 0 flags 1",
          "1x2 debug min 10 run 5 prio 0 flags 1", "1x8 sweep min 0 run 180 prio 0 flags 1"}));
}

// Every strategy in a small institute: it runs under both kinds of policy, and a priority that is
// only read inside a team moves nothing but the order inside it.
TEST(Gaming, SimulatesEveryStrategy) {
  InstituteOptions options;
  options.nodes = 32;
  options.days = 3;
  options.warmup_days = 1;
  options.load = 1.6;
  const World honest = GenerateInstitute(options).value();
  SimOptions o;
  o.warmup = hours(24);
  o.end = hours(24 * 4);
  for (const char* policy : {"budget", "priority"}) {
    std::uint64_t before = 0;
    for (std::size_t i = 0; i < kGameNames.size(); ++i) {
      World world = honest;
      const auto strategy = static_cast<GameStrategy>(i);
      ASSERT_TRUE(Game(world, kGamingLeaf, strategy).ok());
      const absl::StatusOr<Metrics> m = Simulate(world, policy, {}, o);
      ASSERT_TRUE(m.ok()) << policy << " " << kGameNames[i] << ": " << m.status();
      EXPECT_EQ(m->jobs, static_cast<std::int64_t>(world.jobs.size()));
      if (strategy == GameStrategy::kNone) before = m->decision_digest;
      if (strategy == GameStrategy::kHigh) {
        EXPECT_EQ(m->decision_digest, before) << policy;
      }
    }
  }
}

}  // namespace
}  // namespace tenure::sim
