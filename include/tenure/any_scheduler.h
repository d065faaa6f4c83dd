// SPDX-License-Identifier: Apache-2.0
//
// A Scheduler whose policy is chosen at run time, by name: what the C API, the Python package and
// scenario files use.
//
//   auto s = tenure::MakeScheduler("budget", {{"grace", "2m"}}).value();
//   auto type = s->InternGpuType("h100");
//   s->AddNode("n1", tenure::GpuCount(8), type, tenure::kRootDomain, t0).value();
//   ...
//   const tenure::Decisions* d = s->Decide(t0).value();
//
// Every function is that of Scheduler (scheduler.h) or forecast.h, where its contract is written.
// A call costs one indirection more; a pass is compiled whole for its policy.
#ifndef TENURE_ANY_SCHEDULER_H_
#define TENURE_ANY_SCHEDULER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tenure/answers.h"
#include "tenure/budget_tree.h"
#include "tenure/cluster.h"
#include "tenure/contract.h"
#include "tenure/decisions.h"
#include "tenure/forecast.h"
#include "tenure/maintenance.h"
#include "tenure/policy.h"
#include "tenure/presets.h"
#include "tenure/scheduler.h"
#include "tenure/types.h"
#include "tenure/workload_table.h"

namespace tenure {

class AnyScheduler {
 public:
  virtual ~AnyScheduler() = default;
  AnyScheduler(const AnyScheduler&) = delete;
  AnyScheduler& operator=(const AnyScheduler&) = delete;

  virtual std::unique_ptr<AnyScheduler> Clone() const = 0;
  virtual const BudgetTree& tree() const = 0;
  virtual const Cluster& cluster() const = 0;
  virtual const WorkloadTable& table() const = 0;
  virtual const SchedulerOptions& options() const = 0;
  virtual std::size_t workloads() const = 0;
  virtual bool dirty() const = 0;
  virtual TimePoint now() const = 0;

  virtual absl::StatusOr<AllocationId> AddAllocation(std::string name, AllocationId parent,
                                                     Weight weight, TimePoint now) = 0;
  virtual absl::Status SetWeight(AllocationId id, Weight weight, TimePoint effective,
                                 std::string author, std::string reason, TimePoint now) = 0;
  virtual absl::Status Boost(AllocationId id, Weight weight, TimePoint from, TimePoint until,
                             std::string author, std::string reason, TimePoint now) = 0;
  virtual absl::Status MoveAllocation(AllocationId id, AllocationId new_parent, TimePoint now,
                                      std::string author, std::string reason) = 0;
  virtual absl::Status CloseAllocation(AllocationId id, TimePoint now) = 0;

  virtual GpuTypeId InternGpuType(const std::string& name) = 0;
  virtual absl::StatusOr<DomainId> AddDomain(std::string name, DomainId parent) = 0;
  virtual absl::StatusOr<NodeId> AddNode(std::string name, GpuCount gpus, GpuTypeId type,
                                         DomainId domain, TimePoint now) = 0;
  virtual absl::StatusOr<NodeReport> SetNode(NodeId id, NodeHealth health, TimePoint since,
                                             TimePoint now) = 0;
  virtual bool Drained(NodeId id) const = 0;
  virtual absl::StatusOr<MaintenanceId> AnnounceMaintenance(std::vector<NodeId> nodes,
                                                            TimePoint from, TimePoint until,
                                                            std::string author, std::string reason,
                                                            TimePoint now) = 0;
  virtual absl::Status CancelMaintenance(MaintenanceId id, TimePoint now) = 0;
  virtual std::span<const MaintenanceWindow> maintenance() const = 0;
  virtual absl::Status SetChargeRate(GpuTypeId type, std::int32_t permille, TimePoint now) = 0;
  virtual std::int32_t charge_rate(GpuTypeId type) const = 0;
  virtual MilliGpu Capacity() const = 0;

  virtual absl::Status Submit(const WorkloadSpec& spec, TimePoint now) = 0;
  virtual absl::Status Cancel(WorkloadId id, TimePoint now) = 0;
  virtual absl::Status ReportStarted(WorkloadId id, RunNumber run, TimePoint started,
                                     TimePoint now) = 0;
  virtual absl::Status ReportStartFailed(WorkloadId id, RunNumber run, TimePoint now) = 0;
  virtual absl::Status ReportEnded(WorkloadId id, RunNumber run, TimePoint ended,
                                   TimePoint now) = 0;
  virtual absl::StatusOr<LossOutcome> ReportStopped(WorkloadId id, RunNumber run, TimePoint stopped,
                                                    TimePoint now) = 0;
  virtual absl::Status ReportStopFailed(WorkloadId id, RunNumber run, TimePoint now) = 0;
  virtual absl::Status ReportCheckpoint(WorkloadId id, RunNumber run, TimePoint at,
                                        TimePoint now) = 0;
  virtual absl::Status ReportIdle(WorkloadId id, bool idle, TimePoint now) = 0;
  virtual absl::Status SetResumeHint(WorkloadId id, std::string hint, TimePoint now) = 0;
  virtual absl::StatusOr<std::string_view> ResumeHint(WorkloadId id) const = 0;
  virtual absl::StatusOr<ReconcileReport> Reconcile(std::span<const RunRef> running,
                                                    TimePoint now) = 0;

  virtual absl::StatusOr<const Decisions*> Decide(TimePoint now) = 0;
  virtual absl::StatusOr<Explanation> Explain(WorkloadId id) const = 0;
  virtual absl::StatusOr<AllocationStanding> Standing(AllocationId id, TimePoint now) const = 0;
  // Those of forecast.h.
  virtual absl::StatusOr<ForecastResult> Forecast(WorkloadId id,
                                                  const ForecastOptions& options) const = 0;
  virtual absl::StatusOr<WhatIfResult> WhatIf(const WorkloadSpec& spec, TimePoint now) const = 0;

  virtual std::string Snapshot() const = 0;
  virtual absl::Status Restore(const std::string& snapshot) = 0;
  virtual std::uint64_t Digest() const = 0;

 protected:
  AnyScheduler() = default;
};

// The adaptor. Also for policies that are not in the library.
template <class Policy>
class SchedulerOf final : public AnyScheduler {
 public:
  explicit SchedulerOf(Scheduler<Policy> scheduler) : s_(std::move(scheduler)) {}

  std::unique_ptr<AnyScheduler> Clone() const override {
    return std::make_unique<SchedulerOf>(s_.Clone());
  }
  const BudgetTree& tree() const override { return s_.tree(); }
  const Cluster& cluster() const override { return s_.cluster(); }
  const WorkloadTable& table() const override { return s_.table(); }
  const SchedulerOptions& options() const override { return s_.options(); }
  std::size_t workloads() const override { return s_.workloads(); }
  bool dirty() const override { return s_.dirty(); }
  TimePoint now() const override { return s_.now(); }

  absl::StatusOr<AllocationId> AddAllocation(std::string name, AllocationId parent, Weight weight,
                                             TimePoint now) override {
    return s_.AddAllocation(std::move(name), parent, weight, now);
  }
  absl::Status SetWeight(AllocationId id, Weight weight, TimePoint effective, std::string author,
                         std::string reason, TimePoint now) override {
    return s_.SetWeight(id, weight, effective, std::move(author), std::move(reason), now);
  }
  absl::Status Boost(AllocationId id, Weight weight, TimePoint from, TimePoint until,
                     std::string author, std::string reason, TimePoint now) override {
    return s_.Boost(id, weight, from, until, std::move(author), std::move(reason), now);
  }
  absl::Status MoveAllocation(AllocationId id, AllocationId new_parent, TimePoint now,
                              std::string author, std::string reason) override {
    return s_.MoveAllocation(id, new_parent, now, std::move(author), std::move(reason));
  }
  absl::Status CloseAllocation(AllocationId id, TimePoint now) override {
    return s_.CloseAllocation(id, now);
  }

  GpuTypeId InternGpuType(const std::string& name) override { return s_.InternGpuType(name); }
  absl::StatusOr<DomainId> AddDomain(std::string name, DomainId parent) override {
    return s_.AddDomain(std::move(name), parent);
  }
  absl::StatusOr<NodeId> AddNode(std::string name, GpuCount gpus, GpuTypeId type, DomainId domain,
                                 TimePoint now) override {
    return s_.AddNode(std::move(name), gpus, type, domain, now);
  }
  absl::StatusOr<NodeReport> SetNode(NodeId id, NodeHealth health, TimePoint since,
                                     TimePoint now) override {
    return s_.SetNode(id, health, since, now);
  }
  bool Drained(NodeId id) const override { return s_.Drained(id); }
  absl::StatusOr<MaintenanceId> AnnounceMaintenance(std::vector<NodeId> nodes, TimePoint from,
                                                    TimePoint until, std::string author,
                                                    std::string reason, TimePoint now) override {
    return s_.AnnounceMaintenance(std::move(nodes), from, until, std::move(author),
                                  std::move(reason), now);
  }
  absl::Status CancelMaintenance(MaintenanceId id, TimePoint now) override {
    return s_.CancelMaintenance(id, now);
  }
  std::span<const MaintenanceWindow> maintenance() const override { return s_.maintenance(); }
  absl::Status SetChargeRate(GpuTypeId type, std::int32_t permille, TimePoint now) override {
    return s_.SetChargeRate(type, permille, now);
  }
  std::int32_t charge_rate(GpuTypeId type) const override { return s_.charge_rate(type); }
  MilliGpu Capacity() const override { return s_.Capacity(); }

  absl::Status Submit(const WorkloadSpec& spec, TimePoint now) override {
    return s_.Submit(spec, now);
  }
  absl::Status Cancel(WorkloadId id, TimePoint now) override { return s_.Cancel(id, now); }
  absl::Status ReportStarted(WorkloadId id, RunNumber run, TimePoint started,
                             TimePoint now) override {
    return s_.ReportStarted(id, run, started, now);
  }
  absl::Status ReportStartFailed(WorkloadId id, RunNumber run, TimePoint now) override {
    return s_.ReportStartFailed(id, run, now);
  }
  absl::Status ReportEnded(WorkloadId id, RunNumber run, TimePoint ended, TimePoint now) override {
    return s_.ReportEnded(id, run, ended, now);
  }
  absl::StatusOr<LossOutcome> ReportStopped(WorkloadId id, RunNumber run, TimePoint stopped,
                                            TimePoint now) override {
    return s_.ReportStopped(id, run, stopped, now);
  }
  absl::Status ReportStopFailed(WorkloadId id, RunNumber run, TimePoint now) override {
    return s_.ReportStopFailed(id, run, now);
  }
  absl::Status ReportCheckpoint(WorkloadId id, RunNumber run, TimePoint at,
                                TimePoint now) override {
    return s_.ReportCheckpoint(id, run, at, now);
  }
  absl::Status ReportIdle(WorkloadId id, bool idle, TimePoint now) override {
    return s_.ReportIdle(id, idle, now);
  }
  absl::Status SetResumeHint(WorkloadId id, std::string hint, TimePoint now) override {
    return s_.SetResumeHint(id, std::move(hint), now);
  }
  absl::StatusOr<std::string_view> ResumeHint(WorkloadId id) const override {
    return s_.ResumeHint(id);
  }
  absl::StatusOr<ReconcileReport> Reconcile(std::span<const RunRef> running,
                                            TimePoint now) override {
    return s_.Reconcile(running, now);
  }

  absl::StatusOr<const Decisions*> Decide(TimePoint now) override { return s_.Decide(now); }
  absl::StatusOr<Explanation> Explain(WorkloadId id) const override { return s_.Explain(id); }
  absl::StatusOr<AllocationStanding> Standing(AllocationId id, TimePoint now) const override {
    return s_.Standing(id, now);
  }
  absl::StatusOr<ForecastResult> Forecast(WorkloadId id,
                                          const ForecastOptions& options) const override {
    return tenure::Forecast(s_, id, options);
  }
  absl::StatusOr<WhatIfResult> WhatIf(const WorkloadSpec& spec, TimePoint now) const override {
    return tenure::WhatIf(s_, spec, now);
  }

  std::string Snapshot() const override { return s_.Snapshot(); }
  absl::Status Restore(const std::string& snapshot) override { return s_.Restore(snapshot); }
  std::uint64_t Digest() const override { return s_.Digest(); }

  const Scheduler<Policy>& scheduler() const { return s_; }

 private:
  Scheduler<Policy> s_;
};

// InvalidArgument if an option is out of range.
template <class Policy>
absl::StatusOr<std::unique_ptr<AnyScheduler>> MakeScheduler(const SchedulerOptions& options,
                                                            Policy policy) {
  if (absl::Status s = Scheduler<Policy>::CheckOptions(options); !s.ok()) return s;
  return std::make_unique<SchedulerOf<Policy>>(Scheduler<Policy>(options, std::move(policy)));
}

// A scheduler with the preset `policy`, one of kPresetNames. `overrides`: options to start
// from instead of the preset's; `parameters` (presets.h) are applied after that. InvalidArgument
// naming the policy, the parameter and the value.
inline absl::StatusOr<std::unique_ptr<AnyScheduler>> MakeScheduler(
    const std::string& policy, const Parameters& parameters = {},
    const SchedulerOptions* overrides = nullptr) {
  if (!IsPreset(policy)) {
    return absl::InvalidArgumentError(absl::StrCat("no scheduler policy '", policy, "'; there are ",
                                                   absl::StrJoin(kPresetNames, ", ")));
  }
  Preset preset = MakePreset(policy);
  if (overrides != nullptr) preset.scheduler = *overrides;
  if (absl::Status s = preset.Set(policy, parameters); !s.ok()) return s;
  if (preset.ai2) return MakeScheduler(preset.scheduler, Ai2Policy());
  return MakeScheduler(preset.scheduler, BudgetPolicy(preset.budget));
}

}  // namespace tenure

#ifdef TENURE_PRESETS_ARE_COMPILED  // elsewhere: CMake target tenure::presets
namespace tenure {
extern template class SchedulerOf<Ai2Policy>;
extern template class SchedulerOf<BudgetPolicy>;
}  // namespace tenure
#endif

#endif  // TENURE_ANY_SCHEDULER_H_
