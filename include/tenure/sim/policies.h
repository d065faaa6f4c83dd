// SPDX-License-Identifier: Apache-2.0
//
// The policies a simulation can run, by name, with their parameters as text.
//
//   auto engine = tenure::sim::MakeEngine("budget", {{"big_gap", "12h"}}, world, grace);
#ifndef TENURE_SIM_POLICIES_H_
#define TENURE_SIM_POLICIES_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tenure/presets.h"
#include "tenure/sim/baselines.h"
#include "tenure/sim/engine.h"
#include "tenure/sim/scheduler_engine.h"
#include "tenure/sim/setup.h"
#include "tenure/sim/workload.h"

namespace tenure::sim {

namespace internal {

inline bool ParseBaseline(const std::string& policy, BaselineOptions& options) {
  for (std::size_t i = 0; i < kBaselineNames.size(); ++i) {
    if (policy != kBaselineNames[i]) continue;
    options.mode = static_cast<BaselineMode>(i);
    return true;
  }
  return false;
}

inline Bindings BindBaseline(BaselineOptions& options) {
  Bindings b;
  b.Add("depth", options.depth, "number", "workloads looked at in one pass");
  if (options.mode == BaselineMode::kPriority || options.mode == BaselineMode::kFifoEasy) {
    b.Add("sweeps_high", options.sweeps_high, "switch", "unfunded work queues like any other");
  } else {
    b.Add("half_life", options.half_life, "duration", "of past usage");
  }
  return b;
}

inline absl::StatusOr<std::unique_ptr<Engine>> MakeBaseline(const World& world,
                                                            const BaselineOptions& options) {
  Cluster cluster;
  BudgetTree tree;
  const auto ids = AddLeaves(world, [&](const std::string& name, AllocationId parent, Weight w) {
    return tree.Add(name, parent, w);
  });
  if (!ids.ok()) return ids.status();
  const GpuTypeId type = cluster.InternGpuType("gpu");
  if (absl::Status s = AddNodes(
          world.cluster,
          [&](const std::string& name) { return cluster.AddDomain(name, kRootDomain); },
          [&](const std::string& name, GpuCount gpus, DomainId rack) {
            return cluster.AddNode(name, gpus, type, rack);
          });
      !s.ok()) {
    return s;
  }
  return std::make_unique<BaselineEngine>(std::move(cluster), std::move(tree), options);
}

}  // namespace internal

// Every policy name, baselines first.
inline std::vector<std::string> PolicyNames() {
  std::vector<std::string> names(kBaselineNames.begin(), kBaselineNames.end());
  names.insert(names.end(), kPresetNames.begin(), kPresetNames.end());
  return names;
}

inline absl::Status UnknownPolicy(const std::string& policy) {
  return absl::InvalidArgumentError(
      absl::StrCat("no policy '", policy, "'; there are ", absl::StrJoin(PolicyNames(), ", ")));
}

// The parameters of a policy with their defaults; empty for an unknown one.
inline std::vector<PolicyParameter> PolicyParameters(const std::string& policy) {
  if (IsPreset(policy)) {
    Preset preset = MakePreset(policy);
    return preset.Bind().Describe();
  }
  BaselineOptions options;
  if (!internal::ParseBaseline(policy, options)) return {};
  return internal::BindBaseline(options).Describe();
}

// An engine for `world` with empty queues. InvalidArgument names the policy, parameter and value.
inline absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const std::string& policy,
                                                          const Parameters& parameters,
                                                          const World& world, Duration grace) {
  if (IsPreset(policy)) {
    Preset p = MakePreset(policy);
    p.scheduler.grace = grace;
    if (absl::Status s = p.Set(policy, parameters); !s.ok()) return s;
    if (p.ai2) return SchedulerEngine<Ai2Policy>::Create(world, p.scheduler, Ai2Policy());
    return SchedulerEngine<BudgetPolicy>::Create(world, p.scheduler, BudgetPolicy(p.budget));
  }
  BaselineOptions options;
  if (!internal::ParseBaseline(policy, options)) return UnknownPolicy(policy);
  if (absl::Status s = internal::BindBaseline(options).Apply(policy, parameters); !s.ok()) return s;
  options.grace = grace;
  return internal::MakeBaseline(world, options);
}

}  // namespace tenure::sim

#endif  // TENURE_SIM_POLICIES_H_
