// SPDX-License-Identifier: Apache-2.0
//
// The Scheduler behind the simulator's Engine interface, set up for a World: the decisions of a
// simulation come from the very class that a resource manager links.
#ifndef TENURE_SIM_SCHEDULER_ENGINE_H_
#define TENURE_SIM_SCHEDULER_ENGINE_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenure/forecast.h"
#include "tenure/scheduler.h"
#include "tenure/sim/engine.h"
#include "tenure/sim/setup.h"
#include "tenure/sim/workload.h"

namespace tenure::sim {

template <class Policy>
class SchedulerEngine : public Engine {
 public:
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const World& world,
                                                        const SchedulerOptions& options,
                                                        Policy policy) {
    if (absl::Status s = Scheduler<Policy>::CheckOptions(options); !s.ok()) return s;
    auto engine = std::make_unique<SchedulerEngine>(options, std::move(policy));
    Scheduler<Policy>& s = engine->scheduler_;
    const TimePoint start{};
    const absl::StatusOr<std::vector<AllocationId>> ids =
        AddLeaves(world, [&](const std::string& name, AllocationId parent, Weight weight) {
          return s.AddAllocation(name, parent, weight, start);
        });
    if (!ids.ok()) return ids.status();
    const GpuTypeId type = s.InternGpuType("gpu");
    if (absl::Status status = AddNodes(
            world.cluster, [&](const std::string& name) { return s.AddDomain(name, kRootDomain); },
            [&](const std::string& name, GpuCount gpus, DomainId rack) {
              return s.AddNode(name, gpus, type, rack, start);
            });
        !status.ok()) {
      return status;
    }
    return std::unique_ptr<Engine>(std::move(engine));
  }

  SchedulerEngine(const SchedulerOptions& options, Policy policy)
      : scheduler_(options, std::move(policy)) {}

  absl::Status Submit(const WorkloadSpec& spec, Duration limit, TimePoint now) override {
    if (limits_.size() > most_limits_) ForgetLimits();
    if (limit > Duration(0)) limits_[spec.id] = limit;
    return scheduler_.Submit(spec, now);
  }
  absl::Status Cancel(WorkloadId id, TimePoint now) override { return scheduler_.Cancel(id, now); }
  absl::Status ReportStarted(WorkloadId id, RunNumber run, TimePoint now) override {
    return scheduler_.ReportStarted(id, run, now);
  }
  absl::Status ReportEnded(WorkloadId id, RunNumber run, TimePoint now) override {
    return scheduler_.ReportEnded(id, run, now);
  }
  absl::Status ReportStopped(WorkloadId id, RunNumber run, TimePoint now) override {
    return scheduler_.ReportStopped(id, run, now).status();
  }
  absl::Status ReportIdle(WorkloadId id, bool idle, TimePoint now) override {
    // A session that waits for GPUs has no utilisation to report.
    const RunSlot slot = scheduler_.table().Find(id);
    if (slot != kNoSlot) {
      const WorkloadState state = scheduler_.table().run(slot).state;
      if (state != WorkloadState::kRunning && state != WorkloadState::kSuspended) {
        return absl::OkStatus();
      }
    }
    return scheduler_.ReportIdle(id, idle, now);
  }
  absl::Status SetNode(NodeId node, NodeHealth health, TimePoint since, TimePoint now) override {
    return scheduler_.SetNode(node, health, since, now).status();
  }
  bool PlansMaintenance() const override { return true; }
  absl::Status AnnounceMaintenance(NodeId node, TimePoint from, TimePoint until,
                                   TimePoint now) override {
    return scheduler_.AnnounceMaintenance({node}, from, until, "simulator", "maintenance", now)
        .status();
  }
  bool NodeEmpty(NodeId node) const override {
    return scheduler_.cluster().node(node).runs.empty();
  }
  Duration LongestProtection() const override {
    const auto& cap = scheduler_.options().contract.cap;
    return *std::max_element(cap.begin(), cap.end());
  }
  absl::StatusOr<ForecastResult> Forecast(WorkloadId id, bool limits) const override {
    ForecastOptions options;
    if (limits) {
      options.limit = [this](const WorkloadSpec& spec) {
        const auto it = limits_.find(spec.id);
        return it == limits_.end() ? Duration(0) : it->second;
      };
    }
    return tenure::Forecast(scheduler_, id, options);
  }
  absl::StatusOr<Explanation> Explain(WorkloadId id) const override {
    return scheduler_.Explain(id);
  }
  bool Dirty() const override { return scheduler_.dirty(); }
  absl::StatusOr<const Decisions*> Decide(TimePoint now) override { return scheduler_.Decide(now); }

  const Scheduler<Policy>& scheduler() const { return scheduler_; }

 private:
  Scheduler<Policy> scheduler_;
  // Of workloads that are over. O(1) amortised.
  void ForgetLimits() {
    absl::erase_if(limits_, [&](const auto& entry) {
      return scheduler_.table().Find(entry.first) == kNoSlot;
    });
    most_limits_ = 2 * limits_.size() + 1024;
  }

  absl::flat_hash_map<WorkloadId, Duration> limits_;  // requested wall times, for forecasts only
  std::size_t most_limits_ = 1024;
};

}  // namespace tenure::sim

#ifdef TENURE_PRESETS_ARE_COMPILED  // elsewhere: CMake target tenure::presets
namespace tenure::sim {
extern template class SchedulerEngine<Ai2Policy>;
extern template class SchedulerEngine<BudgetPolicy>;
}  // namespace tenure::sim
#endif

#endif  // TENURE_SIM_SCHEDULER_ENGINE_H_
