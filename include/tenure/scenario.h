// SPDX-License-Identifier: Apache-2.0
//
// Runs a scenario file: a small cluster, a budget tree, a dated list of events and what must come
// of them. The format is described in tests/field/README.md; a report of a bug is one such file.
//
//   absl::StatusOr<tenure::ScenarioReport> r =
//       tenure::RunScenario(text, {.policy = "budget", .file = "L01.yaml"});
//   if (r.ok() && !r->passed()) for (const auto& c : r->cases) Print(c.failures);
//
// Needs the library tenure_scenario (yaml-cpp). Deterministic; the clock is that of the file.
// Besides the expectations of the file, the laws that hold in every run are checked: no GPU twice,
// protection kept, gangs whole, victims necessary, charges exact to the second, refused calls
// without effect; and the case is run again with a snapshot and restore after every instant and
// with the order of equal input shuffled: the decisions must be the same.
#ifndef TENURE_SCENARIO_H_
#define TENURE_SCENARIO_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tenure/presets.h"

namespace tenure {

class AnyScheduler;

// Makes the scheduler that a scenario speaks of.
using SchedulerFactory = std::function<absl::StatusOr<std::unique_ptr<AnyScheduler>>(
    const std::string& policy, const Parameters& parameters)>;

struct ScenarioOptions {
  std::string policy = "budget";  // one of kPresetNames
  std::string file = "scenario";  // stands before the line in messages
  bool repeat = true;             // also the runs with restores and with shuffled input
  bool keep_log = false;          // fill ScenarioCase::log
  // A case with more instants (times at which something happens) is refused with InvalidArgument.
  std::int64_t max_instants = 10'000'000;
  // Another implementation to be put to the same tests; empty: MakeScheduler.
  SchedulerFactory make = nullptr;
};

struct ScenarioCase {
  std::string name;      // "" if the file has one case only
  bool skipped = false;  // the file does not speak of this policy
  std::string skip_reason;
  std::int64_t checks = 0;            // expectations and laws looked at
  std::vector<std::string> failures;  // "file:line: what was expected and what came"
  std::vector<std::string> log;       // one decision a line: "120s start b2 on n1"
};

struct ScenarioReport {
  std::string title;
  std::string policy;
  std::vector<ScenarioCase> cases;

  bool passed() const {
    for (const ScenarioCase& c : cases) {
      if (!c.failures.empty()) return false;
    }
    return true;
  }
};

// InvalidArgument "file:line: ..." if the text is no scenario or the policy is unknown. A failed
// expectation is no error: see ScenarioCase::failures.
absl::StatusOr<ScenarioReport> RunScenario(std::string_view yaml,
                                           const ScenarioOptions& options = {});

}  // namespace tenure

#endif  // TENURE_SCENARIO_H_
