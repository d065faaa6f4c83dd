// SPDX-License-Identifier: Apache-2.0
//
// What the simulator drives: the Scheduler itself (through SchedulerEngine) or a baseline. Times
// never decrease from call to call.
#ifndef TENURE_SIM_ENGINE_H_
#define TENURE_SIM_ENGINE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenure/answers.h"
#include "tenure/cluster.h"
#include "tenure/contract.h"
#include "tenure/decisions.h"
#include "tenure/forecast.h"
#include "tenure/types.h"

namespace tenure::sim {

class Engine {
 public:
  virtual ~Engine() = default;

  // `limit` is the requested wall time (0 = none); the budget policies ignore it.
  virtual absl::Status Submit(const WorkloadSpec& spec, Duration limit, TimePoint now) = 0;
  virtual absl::Status Cancel(WorkloadId id, TimePoint now) = 0;
  virtual absl::Status ReportStarted(WorkloadId id, RunNumber run, TimePoint now) = 0;
  virtual absl::Status ReportEnded(WorkloadId id, RunNumber run, TimePoint now) = 0;
  // The run is gone after a stop. Resumable workloads are back in the queue with their original
  // queue time, others are finished (failed by preemption).
  virtual absl::Status ReportStopped(WorkloadId id, RunNumber run, TimePoint now) = 0;
  virtual absl::Status ReportIdle(WorkloadId id, bool idle, TimePoint now) = 0;

  // Nodes are numbered from 0 in the order of the world. kDraining: nothing new starts there, and
  // whatever the engine may stop it stops. kDown: every run there was lost at `since`; resumable
  // ones wait again, others are finished. An engine that leaves this out cannot meet faults.
  virtual absl::Status SetNode(NodeId /*node*/, NodeHealth /*health*/, TimePoint /*since*/,
                               TimePoint /*now*/) {
    return absl::UnimplementedError("this engine does not know the health of nodes");
  }
  // Whether it plans ahead of announced maintenance, so that nodes may stay in use until then.
  virtual bool PlansMaintenance() const { return false; }
  // The node will be down in [from, until). Only for engines that plan.
  virtual absl::Status AnnounceMaintenance(NodeId /*node*/, TimePoint /*from*/, TimePoint /*until*/,
                                           TimePoint /*now*/) {
    return absl::UnimplementedError("this engine does not plan ahead of maintenance");
  }
  // Whether no run is left on the node.
  virtual bool NodeEmpty(NodeId /*node*/) const { return false; }
  // No run is protected longer than this from its start; 0: protection, if there is any, may last
  // as long as the run.
  virtual Duration LongestProtection() const { return Duration(0); }

  // When a workload that waits will start, as far as the engine can say (forecast.h). `limits`:
  // runs are taken to last as long as was requested, not only as long as they are protected.
  virtual absl::StatusOr<ForecastResult> Forecast(WorkloadId /*id*/, bool /*limits*/) const {
    return absl::UnimplementedError("this engine makes no forecasts");
  }

  // Why a workload waits or runs, with the numbers.
  virtual absl::StatusOr<Explanation> Explain(WorkloadId /*id*/) const {
    return absl::UnimplementedError("this engine explains nothing");
  }

  // True if Decide could answer something new because of what was reported since the last call.
  virtual bool Dirty() const = 0;
  // Valid until the next call.
  virtual absl::StatusOr<const Decisions*> Decide(TimePoint now) = 0;
};

}  // namespace tenure::sim

#endif  // TENURE_SIM_ENGINE_H_
