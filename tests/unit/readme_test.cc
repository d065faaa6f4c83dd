// SPDX-License-Identifier: Apache-2.0
//
// The C++ example of README.md, compiled and run: the lines between the markers below, less their
// indentation, must be the README's code, line by line.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "tenure/scheduler.h"

namespace tenure {
namespace {

// Lines strictly between the first line equal to `begin` and the next equal to `end`.
std::vector<std::string> LinesBetween(const std::string& path, const std::string& begin,
                                      const std::string& end, std::size_t indentation) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  std::vector<std::string> out;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (inside && line == end) return out;
    if (inside) out.push_back(line.size() > indentation ? line.substr(indentation) : "");
    inside = inside || line == begin;
  }
  ADD_FAILURE() << path << ": nothing between '" << begin << "' and '" << end << "'";
  return {};
}

TEST(Readme, ShowsTheCodeThatIsTestedHere) {
  const std::vector<std::string> shown =
      LinesBetween(TENURE_TEST_DIR "/../README.md", "```cpp", "```", 0);
  const std::vector<std::string> tested = LinesBetween(TENURE_TEST_DIR "/unit/readme_test.cc",
                                                       "  // README begins", "  // README ends", 2);
  EXPECT_EQ(shown, tested);
}

TEST(Readme, ExampleStartsTheJob) {
  std::vector<WorkloadId> launched;
  const auto Check = [](const absl::Status& status) { ASSERT_TRUE(status.ok()) << status; };
  const auto Launch = [&](WorkloadId id, std::span<const NodeId> nodes, GpuCount gpus) {
    launched.push_back(id);
    EXPECT_EQ(nodes.size(), 1u);
    EXPECT_EQ(gpus, GpuCount(4));
  };
  // README begins
  tenure::Scheduler<tenure::BudgetPolicy> scheduler;
  const tenure::TimePoint now{};  // from your clock: the library has none
  const auto h100 = scheduler.InternGpuType("h100");
  Check(scheduler.AddNode("node-1", tenure::GpuCount(8), h100, tenure::kRootDomain, now).status());
  const auto vision =
      scheduler.AddAllocation("vision", tenure::kRootAllocation, tenure::Weight{35}, now).value();

  tenure::WorkloadSpec job;
  job.id = tenure::WorkloadId(7);
  job.allocation = vision;
  job.gpus_per_node = tenure::GpuCount(4);
  job.minimum = std::chrono::hours(2);  // protected, and charged to vision
  Check(scheduler.Submit(job, now));

  const tenure::Decisions& decisions = *scheduler.Decide(now).value();
  for (const tenure::Start& start : decisions.starts) {
    Launch(start.workload, decisions.Nodes(start), start.gpus_per_node);  // yours
    Check(scheduler.ReportStarted(start.workload, start.run, now));
  }
  // README ends
  EXPECT_EQ(launched, std::vector<WorkloadId>{WorkloadId(7)});
  EXPECT_EQ(scheduler.Explain(job.id).value().state, WorkloadState::kRunning);
}

}  // namespace
}  // namespace tenure
