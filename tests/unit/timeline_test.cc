// SPDX-License-Identifier: Apache-2.0

#include "tenure/sim/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "tenure/sim/institute.h"
#include "tenure/sim/simulate.h"

namespace tenure::sim {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

InstituteOptions Small() {
  InstituteOptions options;
  options.load = 1.6;
  options.nodes = 32;
  options.days = 4;
  options.warmup_days = 1;
  return options;
}

SimOptions SmallRun() {
  SimOptions o;
  o.warmup = hours(24);
  o.end = hours(24 * 5);
  return o;
}

// The timeline holds what the figures count, no GPU is given twice, and nobody is stopped while
// protected.
TEST(Timeline, AgreesWithTheFigures) {
  const World world = GenerateInstitute(Small()).value();
  SimOptions o = SmallRun();
  o.faults.mean_uptime = hours(24 * 20);
  o.idle_nights_permille = 500;
  Timeline timeline;
  o.timeline = &timeline;
  const Metrics m = Simulate(world, "budget", {}, o).value();
  EXPECT_EQ(m.starts, static_cast<std::int64_t>(timeline.runs.size()));
  std::int64_t ends[5] = {};
  struct Change {
    std::int64_t time, gpus;
    std::uint32_t node;
  };
  std::vector<Change> changes;
  std::int64_t suspended = 0, killed = 0;
  for (const RunRow& run : timeline.runs) {
    ++ends[run.end];
    const JobRow& job = world.jobs[run.job];
    EXPECT_GE(run.start_us, job.submit_us);
    EXPECT_GE(run.end_us, run.start_us);
    EXPECT_EQ(run.protected_us, run.start_us + job.minimum_us);  // all within the cap of 8 h
    for (std::uint32_t node : timeline.Nodes(run, job.nodes)) {
      changes.push_back({run.start_us, job.gpus_per_node, node});
      changes.push_back({run.end_us, -job.gpus_per_node, node});
    }
    const bool measured = run.end_us >= o.warmup.count() && job.workload_class == 1;
    suspended += measured && run.end == static_cast<std::uint32_t>(RunEnd::kSuspended);
    killed += measured && run.end == static_cast<std::uint32_t>(RunEnd::kStopped);
    if (run.end == static_cast<std::uint32_t>(RunEnd::kStopped)) {
      if (job.klass() != WorkloadClass::kInteractive) {
        EXPECT_GE(run.end_us, run.protected_us);
      }
      EXPECT_LE(run.beneficiary, world.jobs.size());
    } else if (run.end != static_cast<std::uint32_t>(RunEnd::kSuspended)) {
      EXPECT_EQ(run.beneficiary, 0u);
    }
  }
  EXPECT_EQ(ends[static_cast<int>(RunEnd::kOpen)], m.jobs_running);
  EXPECT_EQ(ends[static_cast<int>(RunEnd::kFinished)], m.jobs_done);
  EXPECT_EQ(ends[static_cast<int>(RunEnd::kStopped)] + ends[static_cast<int>(RunEnd::kSuspended)],
            m.preemptions);
  EXPECT_GT(ends[static_cast<int>(RunEnd::kLost)], 0);
  EXPECT_EQ(suspended, m.sessions_suspended);
  EXPECT_EQ(killed, m.sessions_killed);
  EXPECT_GT(suspended, 0);
  EXPECT_GE(static_cast<std::int64_t>(timeline.promises.size()), m.promises);
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return a.time != b.time ? a.time < b.time : a.gpus < b.gpus;
  });
  std::vector<std::int64_t> used(static_cast<std::size_t>(world.cluster.nodes));
  for (const Change& c : changes) {
    used[c.node] += c.gpus;
    ASSERT_LE(used[c.node], world.cluster.gpus_per_node);
    ASSERT_GE(used[c.node], 0);
  }
}

TEST(Timeline, ChangesNoDecision) {
  const World world = GenerateInstitute(Small()).value();
  SimOptions o = SmallRun();
  const Metrics plain = Simulate(world, "budget", {}, o).value();
  Timeline timeline;
  o.timeline = &timeline;
  o.forecast_interval = hours(6);
  const Metrics watched = Simulate(world, "budget", {}, o).value();
  EXPECT_EQ(watched.decision_digest, plain.decision_digest);
  EXPECT_EQ(watched.goodput, plain.goodput);
}

// Two jobs of an hour on one host, the second of which waits for the first.
TEST(Forecasts, AreKeptWithWhatCameOfThem) {
  World world;
  world.cluster = {.nodes = 1, .gpus_per_node = 8, .nodes_per_rack = 0};
  world.leaves = {{"a", {1}}};
  JobRow job;
  job.gpus_per_node = 8;
  job.runtime_us = Duration(hours(2)).count();
  job.minimum_us = Duration(hours(1)).count();
  job.workload_class = static_cast<std::uint32_t>(WorkloadClass::kTraining);
  world.jobs = {job, job, job};
  world.jobs[2].patience_us = Duration(minutes(30)).count();
  SimOptions o;
  o.end = hours(24);
  o.forecast_interval = minutes(1);
  const Metrics m = Simulate(world, "budget", {}, o).value();
  ASSERT_FALSE(m.forecasts.empty());
  bool started = false;
  for (const ForecastSample& f : m.forecasts) {
    EXPECT_FALSE(f.promised);
    ASSERT_TRUE(f.predicted_s.has_value());
    EXPECT_GT(f.until_end_s, 0);
    if (f.actual_s.has_value()) {
      started = true;
      EXPECT_LE(*f.actual_s, 2 * 3600.0);
    }
  }
  EXPECT_TRUE(started);
  EXPECT_EQ(Simulate(world, "fifo-easy", {}, o).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(Inspections, SayWhyAJobWaits) {
  World world;
  world.cluster = {.nodes = 1, .gpus_per_node = 8, .nodes_per_rack = 0};
  world.leaves = {{"a", {1}}};
  JobRow job;
  job.gpus_per_node = 8;
  job.runtime_us = Duration(hours(2)).count();
  job.minimum_us = Duration(hours(2)).count();
  job.workload_class = static_cast<std::uint32_t>(WorkloadClass::kTraining);
  world.jobs = {job, job};
  Inspection inspection;
  SimOptions o;
  o.inspection = &inspection;
  const auto at = [&](std::uint32_t number, Duration end) {
    inspection = {.job = number, .explanation = std::nullopt};
    o.end = end;
    return Simulate(world, "budget", {}, o).status();
  };
  ASSERT_TRUE(at(1, hours(1)).ok());
  ASSERT_TRUE(inspection.explanation.has_value());
  EXPECT_EQ(inspection.explanation->reason, WaitReason::kNoCapacity);
  EXPECT_EQ(inspection.explanation->queued, GpuCount(8));
  ASSERT_TRUE(at(0, hours(1)).ok());
  EXPECT_EQ(inspection.explanation->state, WorkloadState::kRunning);
  ASSERT_TRUE(at(0, hours(5)).ok());
  EXPECT_FALSE(inspection.explanation.has_value());
  EXPECT_EQ(at(2, hours(1)).message(), "job is 2, the world has 2");
  inspection.job = 1;
  o.end = hours(1);
  EXPECT_EQ(Simulate(world, "priority", {}, o).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace tenure::sim
