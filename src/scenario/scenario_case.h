// SPDX-License-Identifier: Apache-2.0
//
// A case of a scenario file as read: nothing is run yet.
#ifndef TENURE_SCENARIO_SCENARIO_CASE_H_
#define TENURE_SCENARIO_SCENARIO_CASE_H_

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tenure/contract.h"
#include "tenure/presets.h"
#include "tenure/types.h"

namespace tenure::scenario {

struct NodeEntry {
  std::string name, type, domain;  // domain: "row-1/rack-2", "" = none
  std::int64_t gpus = 0;
};

struct TeamEntry {
  std::string path;    // "nlp/pretraining"
  std::string name;    // last component
  std::string parent;  // path, "" = below the root
  double weight = 1;
};

inline constexpr Duration kNeverHappens = Duration::max();

// A workload, with how the resource manager of the scenario behaves towards it.
struct JobEntry {
  std::string name, team, type;
  WorkloadSpec spec;                   // allocation and gpu_type are not set
  Duration runtime = kNeverHappens;    // work until it ends by itself
  Duration start_takes{0};             // from the decision to the confirmation
  std::optional<Duration> stop_takes;  // from the signal to the confirmation; default: grace
  bool keeps_work = true;              // a stopped run goes on where it was
  TimePoint start{};                   // of work that runs at the beginning
  std::vector<std::string> on;         // its nodes; empty: wherever the scheduler puts it
  int line = 0;
};

struct TimelineEntry {
  TimePoint at{};
  std::optional<TimePoint> now;  // what the call says the time is, if not `at`
  std::string action;            // "" = only expectations
  YAML::Node value;
  std::vector<JobEntry> submits;  // for "submit"
  std::optional<absl::StatusCode> refused;
  YAML::Node expect;
  int line = 0;
};

struct Case {
  std::string name;
  std::vector<std::string> policies;  // empty: all presets
  std::string because;                // why not all
  Parameters options;
  std::vector<NodeEntry> nodes;
  std::vector<TeamEntry> teams;                            // parents first
  std::vector<std::pair<std::string, GpuTime>> used;       // by leaf path
  std::vector<JobEntry> running;                           // by start
  std::vector<TimelineEntry> timeline;                     // by time
  std::vector<std::pair<std::string, NodeHealth>> health;  // at the beginning
  TimePoint until{};
  Duration pass_every{0};  // additional passes; 0 = none
  int shuffles = 3;
};

struct ScenarioFile {
  std::string title;
  std::vector<Case> cases;
};

// Throws BadScenario.
ScenarioFile ReadScenario(const YAML::Node& root);

// The options of the case that `policy` has.
Parameters OptionsFor(const Case& c, const std::string& policy);

// "invalid-argument", as in the files, and back.
std::string CodeText(absl::StatusCode code);

NodeEntry ReadNode(const YAML::Node& node);  // of one name

}  // namespace tenure::scenario

#endif  // TENURE_SCENARIO_SCENARIO_CASE_H_
