// SPDX-License-Identifier: Apache-2.0
//
// Every policy on a small institute must decide, byte for byte, what simulation.txt says. After an
// intended change of a policy refresh it and look at the difference:
//
//   TENURE_UPDATE_GOLDEN=1 ctest --preset release -R golden.Simulation
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tenure/sim/institute.h"
#include "tenure/sim/policies.h"
#include "tenure/sim/simulate.h"

namespace tenure::sim {
namespace {

using std::chrono::hours;

const char* const kPath = TENURE_TEST_DIR "/golden/simulation.txt";

World SmallInstitute() {
  InstituteOptions o;
  o.load = 1.6;
  o.nodes = 32;
  o.nodes_per_rack = 8;
  o.days = 3;
  o.warmup_days = 1;
  return GenerateInstitute(o).value();
}

// Figures of integers only: quotients are for people.
std::string Line(const std::string& policy, const std::string& scene, const Metrics& m) {
  return absl::StrCat(
      policy, " ", scene, " digest=", absl::Hex(m.decision_digest, absl::kZeroPad16),
      " passes=", m.passes, " events=", m.events, " starts=", m.starts,
      " preemptions=", m.preemptions, " done=", m.jobs_done, " running=", m.jobs_running,
      " queued=", m.jobs_queued, " withdrawn=", m.jobs_withdrawn, " never_fit=", m.jobs_never_fit,
      " sessions_killed=", m.sessions_killed, " promises=", m.promises, "/", m.promises_broken,
      " repairs=", m.repairs, "/", m.repairs_human, " lost=", m.runs_lost,
      " failed_resumes=", m.failed_resumes);
}

TEST(Simulation, DecidesWhatTheGoldenFileSays) {
  const World world = SmallInstitute();
  std::vector<std::string> lines;
  for (const std::string& policy : PolicyNames()) {
    SimOptions o;
    o.warmup = hours(24);
    o.end = hours(24 * 4);
    lines.push_back(Line(policy, "healthy", Simulate(world, policy, {}, o).value()));
    o.notice_permille = 300;
    o.idle_nights_permille = 300;
    o.faults.mean_uptime = hours(24 * 6);
    o.faults.failed_resume_permille = 50;
    o.faults.maintenance = {{0, 4, hours(60), hours(66)}};
    lines.push_back(Line(policy, "faulty", Simulate(world, policy, {}, o).value()));
  }
  const char* update = std::getenv("TENURE_UPDATE_GOLDEN");
  if (update != nullptr && std::string(update) == "1") {
    std::ofstream out(kPath);
    for (const std::string& line : lines) out << line << "\n";
    out.close();
    ASSERT_TRUE(out.good()) << kPath;
    return;
  }
  std::ifstream in(kPath);
  ASSERT_TRUE(in.good()) << kPath;
  std::stringstream text;
  text << in.rdbuf();
  std::vector<std::string> golden = absl::StrSplit(text.str(), '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), golden.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i], golden[i]) << "if intended, run again with TENURE_UPDATE_GOLDEN=1";
  }
}

}  // namespace
}  // namespace tenure::sim
