// SPDX-License-Identifier: Apache-2.0
#include "tenure/sim/parallel.h"

#include <chrono>
#include <vector>

#include "gtest/gtest.h"
#include "tenure/sim/institute.h"

namespace tenure::sim {
namespace {

World Institute(std::uint64_t seed) {
  InstituteOptions options;
  options.seed = seed;
  options.load = 1.5;
  return GenerateInstitute(options).value();
}

TEST(SimulateAll, GivesEachCaseWhatItGetsAlone) {
  const World one = Institute(1), two = Institute(2);
  SimOptions day;
  day.end = std::chrono::hours(24);
  std::vector<Case> cases;
  for (const World* world : {&one, &two}) {
    for (const char* policy : {"budget", "ai2", "fifo-easy"}) {
      cases.push_back({world, policy, {}, day});
    }
  }
  for (const unsigned threads : {0u, 1u, 3u, 64u}) {
    const auto results = SimulateAll(cases, threads);
    ASSERT_EQ(results.size(), cases.size());
    for (std::size_t i = 0; i < cases.size(); ++i) {
      ASSERT_TRUE(results[i].ok()) << results[i].status();
      const Metrics alone = Simulate(*cases[i].world, cases[i].policy, {}, day).value();
      EXPECT_EQ(results[i]->decision_digest, alone.decision_digest) << i;
      EXPECT_EQ(results[i]->events, alone.events) << i;
    }
  }
}

TEST(SimulateAll, AnErrorIsTheResultOfItsCaseAlone) {
  const World world = Institute(1);
  SimOptions day;
  day.end = std::chrono::hours(24);
  const std::vector<Case> cases = {{&world, "no such policy", {}, day},
                                   {nullptr, "budget", {}, day},
                                   {&world, "budget", {}, day}};
  const auto results = SimulateAll(cases, 2);
  EXPECT_EQ(results[0].status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(results[1].status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(results[2].ok());
  EXPECT_TRUE(SimulateAll({}, 4).empty());
}

}  // namespace
}  // namespace tenure::sim
