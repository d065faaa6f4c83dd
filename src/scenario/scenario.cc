// SPDX-License-Identifier: Apache-2.0
#include "tenure/scenario.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runner.h"
#include "scenario_case.h"
#include "tenure/presets.h"
#include "yaml.h"

namespace tenure {
namespace {

using scenario::Case;
using scenario::Outcome;
using scenario::Runner;
using scenario::Variant;

void Repeat(const Case& c, const ScenarioOptions& options, const std::vector<std::string>& log,
            const Variant& variant, ScenarioCase& result) {
  const Outcome again = Runner(c, options, variant).Execute();
  const std::string how = variant.restore ? "with a snapshot and restore after every instant"
                                          : absl::StrCat("with the order of equal input shuffled (",
                                                         variant.shuffle, ")");
  ++result.checks;
  for (const std::string& failure : again.failures) {
    result.failures.push_back(absl::StrCat(failure, " (", how, ")"));
  }
  for (std::size_t i = 0; i < std::max(log.size(), again.log.size()); ++i) {
    const std::string a = i < log.size() ? log[i] : "nothing";
    const std::string b = i < again.log.size() ? again.log[i] : "nothing";
    if (a == b) continue;
    result.failures.push_back(absl::StrCat(
        options.file, ":0: ", c.name.empty() ? "" : absl::StrCat("case ", c.name, ", "),
        options.policy, ": '", a, "' becomes '", b, "' ", how));
    return;
  }
}

ScenarioCase RunCase(const Case& c, const ScenarioOptions& options) {
  ScenarioCase result;
  result.name = c.name;
  if (!c.policies.empty() &&
      std::find(c.policies.begin(), c.policies.end(), options.policy) == c.policies.end()) {
    result.skipped = true;
    result.skip_reason =
        absl::StrCat("for ", absl::StrJoin(c.policies, ", "), " only: ", c.because);
    return result;
  }
  Outcome outcome = Runner(c, options, Variant{}).Execute();
  result.checks = outcome.checks;
  result.failures = std::move(outcome.failures);
  if (options.repeat) {
    Repeat(c, options, outcome.log, Variant{.restore = true}, result);
    for (int i = 1; i <= c.shuffles && result.failures.empty(); ++i) {
      Repeat(c, options, outcome.log, Variant{.shuffle = static_cast<std::uint64_t>(i)}, result);
    }
  }
  if (options.keep_log) result.log = std::move(outcome.log);
  return result;
}

}  // namespace

absl::StatusOr<ScenarioReport> RunScenario(std::string_view yaml, const ScenarioOptions& options) {
  if (!IsPreset(options.policy)) {
    return absl::InvalidArgumentError(absl::StrCat("no scheduler policy '", options.policy,
                                                   "'; there are ",
                                                   absl::StrJoin(kPresetNames, ", ")));
  }
  try {
    const scenario::ScenarioFile file = scenario::ReadScenario(YAML::Load(std::string(yaml)));
    ScenarioReport report;
    report.title = file.title;
    report.policy = options.policy;
    for (const Case& c : file.cases) report.cases.push_back(RunCase(c, options));
    return report;
  } catch (const scenario::BadScenario& bad) {
    return absl::InvalidArgumentError(absl::StrCat(options.file, ":", bad.line, ": ", bad.what));
  } catch (const YAML::Exception& bad) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.file, ":", bad.mark.line + 1, ": ", bad.msg));
  } catch (const std::exception& bad) {
    return absl::InternalError(absl::StrCat(options.file, ": ", bad.what()));
  }
}

}  // namespace tenure
