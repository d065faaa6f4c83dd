// SPDX-License-Identifier: Apache-2.0
//
// The named policies of the library and their parameters as text: one table serves the C API, the
// Python package and the command line.
//
//   tenure::Preset preset = tenure::MakePreset("budget");
//   absl::Status s = preset.Bind().Apply("budget", {{"big_gap", "12h"}});
//
// Durations are written with units ("90s", "30m", "24h", "1h30m"), switches as true or false.
#ifndef TENURE_PRESETS_H_
#define TENURE_PRESETS_H_

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "tenure/policy.h"
#include "tenure/scheduler.h"

namespace tenure {

using Parameters = std::map<std::string, std::string>;

struct PolicyParameter {
  std::string name, unit, help, default_value;
};

namespace internal {

inline std::string Text(Duration d) { return absl::FormatDuration(absl::Microseconds(d.count())); }
inline bool Parse(const std::string& text, Duration& out) {
  absl::Duration d;
  if (!absl::ParseDuration(text, &d)) return false;
  out = Duration(absl::ToInt64Microseconds(d));
  return true;
}
inline std::string Text(bool b) { return b ? "true" : "false"; }
inline bool Parse(const std::string& text, bool& out) { return absl::SimpleAtob(text, &out); }
inline std::string Text(GpuCount n) { return absl::StrCat(n.value()); }
inline bool Parse(const std::string& text, GpuCount& out) {
  std::int64_t n = 0;
  if (!absl::SimpleAtoi(text, &n) || n < 0) return false;
  out = GpuCount(n);
  return true;
}
template <class Int>
requires std::is_integral_v<Int> std::string Text(Int n) { return absl::StrCat(n); }
template <class Int>
requires std::is_integral_v<Int>
bool Parse(const std::string& text, Int& out) { return absl::SimpleAtoi(text, &out); }

inline std::string Text(plan::BackendKind kind) { return plan::ToString(kind); }
inline bool Parse(const std::string& text, plan::BackendKind& out) {
  for (const plan::BackendKind kind : {plan::BackendKind::kOff, plan::BackendKind::kCpu,
                                       plan::BackendKind::kCuda, plan::BackendKind::kAuto}) {
    if (text != plan::ToString(kind)) continue;
    out = kind;
    return true;
  }
  return false;
}

// A named parameter bound to a field of an options object.
struct Binding {
  PolicyParameter parameter;
  std::function<bool(const std::string&)> set;
};

}  // namespace internal

// The parameters of one options object, which must outlive this.
class Bindings {
 public:
  template <class T>
  void Add(std::string name, T& field, std::string unit, std::string help) {
    list_.push_back({{std::move(name), std::move(unit), std::move(help), internal::Text(field)},
                     [&field](const std::string& text) { return internal::Parse(text, field); }});
  }
  absl::Status Apply(const std::string& policy, const Parameters& parameters) const {
    for (const auto& [key, value] : parameters) {
      const internal::Binding* found = nullptr;
      for (const internal::Binding& b : list_) {
        if (b.parameter.name == key) found = &b;
      }
      if (found == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat(
            "policy '", policy, "' has no parameter '", key, "'; it has ",
            absl::StrJoin(list_, ", ", [](std::string* out, const internal::Binding& b) {
              out->append(b.parameter.name);
            })));
      }
      if (!found->set(value)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "parameter ", policy, ".", key, " = '", value, "' is not a ", found->parameter.unit));
      }
    }
    return absl::OkStatus();
  }
  std::vector<PolicyParameter> Describe() const {
    std::vector<PolicyParameter> out;
    for (const internal::Binding& b : list_) out.push_back(b.parameter);
    return out;
  }

 private:
  std::vector<internal::Binding> list_;
};

// Options of the policies that the Scheduler runs.
struct Preset {
  SchedulerOptions scheduler;
  BudgetOptions budget;
  Duration cap = std::chrono::hours(8);
  Duration borrowed_cap = kUncapped;
  bool ai2 = false;

  // Sets parameters by name. InvalidArgument names the policy, the parameter and the value.
  absl::Status Set(const std::string& policy, const Parameters& parameters) {
    if (absl::Status s = Bind().Apply(policy, parameters); !s.ok()) return s;
    if (parameters.contains("cap")) {
      for (WorkloadClass c :
           {WorkloadClass::kInteractive, WorkloadClass::kTraining, WorkloadClass::kServing}) {
        scheduler.contract.cap[static_cast<std::size_t>(c)] = cap;
      }
    }
    if (parameters.contains("borrowed_cap")) scheduler.contract.borrowed_cap.fill(borrowed_cap);
    budget.express = scheduler.express;
    budget.serving_permille = scheduler.serving_cap;
    return absl::OkStatus();
  }

  GpuCount& UserGpus(WorkloadClass c) {
    return scheduler.contract.user_gpus[static_cast<std::size_t>(c)];
  }

  Bindings Bind() {
    Bindings b;
    b.Add("lookback", scheduler.lookback, "duration", "sliding window over which use is counted");
    b.Add("cap", cap, "duration", "longest minimum runtime of training, serving and sessions");
    b.Add("lane_permille", scheduler.lane_permille, "number",
          "part of the nodes kept for short and unfunded work, in thousandths");
    b.Add("express", scheduler.express, "switch", "debug work is first in its leaf");
    b.Add("retry", scheduler.retry, "duration", "blocked work is tried again at the latest then");
    b.Add("grace", scheduler.grace, "duration", "time a stopped run may use to save its work");
    b.Add("tick", scheduler.tick, "duration", "a hold outlives the grace of its victims by this");
    b.Add("refuse_livelock", scheduler.contract.refuse_livelock, "switch",
          "refuse a minimum that ends before the first checkpoint");
    b.Add("preemption_rate", scheduler.preemption_rate, "number",
          "funded runs that may be stopped for others in an hour; 0: no limit");
    b.Add("preemption_burst", scheduler.preemption_burst, "number",
          "how many of them at once, if they were not used before");
    b.Add("idle_cap", scheduler.idle_cap, "number",
          "GPUs of a leaf's idle sessions, in thousandths of its entitlement: those beyond are "
          "suspended while anything waits");
    b.Add("session_cap", scheduler.session_cap, "number",
          "GPUs of a leaf's interactive sessions while it asks for more than it is offered, in "
          "thousandths of its entitlement; 0: no cap");
    b.Add("debug_cap", scheduler.debug_cap, "number", "the same for its debug work");
    b.Add("serving_cap", scheduler.serving_cap, "number",
          "the same for its services, but always; those within it are never stopped for others");
    b.Add("borrowed_cap", borrowed_cap, "duration",
          "longest minimum runtime of what a team starts beyond its entitlement");
    b.Add("user_debug_gpus", UserGpus(WorkloadClass::kDebug), "number",
          "GPUs of debug work that a user may have at once; 0: no cap");
    b.Add("user_session_gpus", UserGpus(WorkloadClass::kInteractive), "number",
          "the same for interactive sessions");
    b.Add("user_training_gpus", UserGpus(WorkloadClass::kTraining), "number",
          "the same for training");
    b.Add("user_serving_gpus", UserGpus(WorkloadClass::kServing), "number",
          "the same for services");
    b.Add("search_trials", scheduler.search.trials, "number",
          "plans tried in a pass to pack more or stop less; 0: no search");
    b.Add("search_backend", scheduler.search.backend, "back end",
          "where they are tried: off, cpu, cuda or auto; the decisions are the same");
    b.Add("search_seed", scheduler.search.seed, "number", "of the variations that are tried");
    b.Add("search_threads", scheduler.search.threads, "number", "of the cpu back end");
    b.Add("search_tolerance", scheduler.search_tolerance, "duration",
          "plans may change the order of teams whose keys differ by no more than this");
    if (ai2) return b;
    b.Add("level_by_level", scheduler.ranking.level_by_level, "switch",
          "compare keys at the children of the lowest common ancestor");
    if (!budget.lag) {  // whose key is an integral already
      b.Add("gain", scheduler.ranking.gain, "duration",
            "key difference to the siblings' mean that doubles a weight; 0: no controller");
      b.Add("limit", scheduler.ranking.limit, "number", "largest change of a weight, either way");
      b.Add("nominal_permille", scheduler.ranking.nominal_permille, "number",
            "part of its own claim that a leaf keeps whatever its siblings do, in thousandths");
    }
    b.Add("big_gap", budget.big_gap, "duration",
          "key gap beyond which a leaf that has nothing placed may stop outside the entitlements");
    b.Add("quantum", budget.quantum, "duration", "a run is left alone this long after its minimum");
    b.Add("session_permille", budget.session_permille, "number",
          "part of its entitlement in which a leaf's sessions are not stopped, in thousandths");
    b.Add("backoff", budget.backoff, "number", "the quantum doubles at most this often");
    b.Add("gang", scheduler.reservation.gang, "number",
          "workloads of at least this many GPUs get reservations; 0: none do");
    b.Add("first_credit", scheduler.reservation.first_credit, "duration",
          "hours of its share a leaf must be behind to reserve a first run (gang eagerness)");
    b.Add("restart_credit", scheduler.reservation.restart_credit, "duration",
          "the same for a further run, beyond its whole minimum");
    b.Add("block", scheduler.reservation.block, "number",
          "smaller workloads of at least this many GPUs may get reservations, too; 0: none do");
    b.Add("block_credit", scheduler.reservation.block_credit, "duration",
          "hours of its share a leaf must be behind to reserve for one of those");
    b.Add("checkpoint_wait", budget.checkpoint_wait, "duration",
          "a run that will write a checkpoint within this is left alone");
    return b;
  }
};

inline Preset MakePreset(const std::string& policy) {
  Preset p;
  if (policy == "ai2") {
    p.ai2 = true;
    p.scheduler.ranking.level_by_level = true;
    p.scheduler.ranking.fluid = false;
    p.scheduler.lane_permille = 0;
    p.scheduler.idle_cap = kNoIdleCap;
    p.scheduler.session_cap = 0;
    p.scheduler.debug_cap = 0;
    p.scheduler.serving_cap = 0;
    p.scheduler.reservation.gang = GpuCount(0);
    p.scheduler.express = false;
  } else if (policy == "hier") {
    p.scheduler.ranking.level_by_level = true;
    p.scheduler.ranking.nominal_permille = 0;
  } else if (policy == "responsive") {
    p.scheduler.lookback = std::chrono::hours(72);
  } else if (policy == "lag") {
    p.budget.lag = true;
    p.scheduler.ranking.gain = Duration(0);
  }
  return p;
}

// The presets: `budget`, the default; `ai2`, as published; `hier`, budget with keys compared level
// by level; `responsive`, which forgets in days what budget forgets in a week; `lag`, which ranks
// by how far a team is behind what a fluid would have given it.
inline constexpr std::array<const char*, 5> kPresetNames = {"ai2", "budget", "hier", "responsive",
                                                            "lag"};

inline bool IsPreset(const std::string& policy) {
  return std::find(kPresetNames.begin(), kPresetNames.end(), policy) != kPresetNames.end();
}

}  // namespace tenure

#endif  // TENURE_PRESETS_H_
