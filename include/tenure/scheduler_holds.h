// SPDX-License-Identifier: Apache-2.0
//
// Scheduler: starts, stops, and the holds between them. Included by scheduler.h; not for direct
// use.
//
// A hold claims the GPUs of victims for the request they were stopped for, until they are gone or
// their grace is over; it is placed, and charged, like a run.
#ifndef TENURE_SCHEDULER_HOLDS_H_
#define TENURE_SCHEDULER_HOLDS_H_

#include "tenure/scheduler.h"

namespace tenure {

template <class Policy>
void Scheduler<Policy>::StartReadyHolds() {
  const std::vector<RunSlot> holds = holds_;
  for (RunSlot slot : holds) {
    const Run& run = table_.run(slot);
    const Workload& w = table_.workload(slot);
    const bool ready = std::all_of(w.nodes.begin(), w.nodes.end(), [&](NodeId id) {
      const Node& n = cluster_.node(id);
      std::int32_t left = n.gpus - n.occupied;
      for (const Occupant& h : n.holds) {
        if (h.run == slot) break;
        left -= h.gpus;  // earlier holds come first
      }
      return left >= run.gpus_per_node;
    });
    if (!ready) continue;
    // It may have waited so long that it would still be protected when a promised start is due.
    const Shape& shape = shapes_[w.shape];
    if (std::any_of(w.nodes.begin(), w.nodes.end(), [&](NodeId id) {
          return !cluster_.node(id).Admits(shape.EndsBy(now_), shape.stays());
        })) {
      ReleaseHold(slot);
      continue;
    }
    scratch_nodes_.assign(w.nodes.begin(), w.nodes.end());
    ReleaseHold(slot);
    StartOn(slot, scratch_nodes_);
  }
}

template <class Policy>
bool Scheduler<Policy>::ExpireHolds() {
  const std::vector<RunSlot> holds = holds_;
  for (RunSlot slot : holds) {
    if (table_.workload(slot).deadline <= now_) ReleaseHold(slot);
  }
  return holds.size() != holds_.size();
}

// Back into the queue; what was claimed is free for others.
template <class Policy>
void Scheduler<Policy>::ReleaseHold(RunSlot slot) {
  Workload& w = table_.workload(slot);
  for (NodeId n : w.nodes) cluster_.Unclaim(n, slot, table_.run(slot).gpus_per_node);
  w.nodes.clear();
  RemoveFromList(holds_, slot);
  Uncommit(slot);
  Place(slot, -1);
  Enqueue(slot, true);
}

template <class Policy>
void Scheduler<Policy>::HoldFor(RunSlot slot, const Plan& plan) {
  Dequeue(slot);
  Run& run = table_.run(slot);
  Workload& w = table_.workload(slot);
  run.state = WorkloadState::kHeld;
  w.nodes.assign(plan.nodes.begin(), plan.nodes.end());
  w.deadline = now_ + options_.grace + options_.tick;
  for (NodeId n : plan.nodes) cluster_.Claim(n, slot, run.gpus_per_node);
  holds_.push_back(slot);
  run.rate = rates_.rate(TypeOf(w));
  Place(slot, +1);
  Commit(slot, now_ + Granted(slot));
  decisions_.holds.push_back({run.id, Record(w), GpuCount(run.gpus_per_node), w.deadline});
}

// The protection of a funded run that has just been placed.
template <class Policy>
Duration Scheduler<Policy>::Granted(RunSlot slot) const {
  const Run& run = table_.run(slot);
  const Duration protection = options_.contract.Protection(table_.workload(slot).spec);
  const Duration borrowed = options_.contract.BorrowedCap(run.workload_class);
  if (protection <= borrowed) return protection;
  return ledger_.placed_charge(run.leaf) > EntitlementNow(run.leaf) ? borrowed : protection;
}

// Before the standings of the pass are known, too.
template <class Policy>
MilliGpu Scheduler<Policy>::EntitlementNow(AllocationId leaf) const {
  return tree_.Entitlement(Capacity(), leaf);
}

template <class Policy>
NodeList Scheduler<Policy>::Record(const Workload& w) {
  NodeList list{static_cast<std::uint32_t>(decisions_.node_pool.size()),
                static_cast<std::uint32_t>(w.nodes.size())};
  decisions_.node_pool.insert(decisions_.node_pool.end(), w.nodes.begin(), w.nodes.end());
  return list;
}

template <class Policy>
void Scheduler<Policy>::StartOn(RunSlot slot, const std::vector<NodeId>& nodes) {
  Dequeue(slot);
  Run& run = table_.run(slot);
  Workload& w = table_.workload(slot);
  run.state = WorkloadState::kStarting;
  run.start = now_;
  run.progress_since = now_;
  w.run = RunNumber(w.run.value() + 1);
  w.nodes.assign(nodes.begin(), nodes.end());
  const bool session = run.funded && run.workload_class == WorkloadClass::kInteractive;
  for (NodeId n : nodes) cluster_.Occupy(n, slot, run.gpus_per_node, session);
  run.rate = rates_.rate(TypeOf(w));
  if (run.funded) {
    Place(slot, +1);
    Commit(slot, now_ + Granted(slot));
  }
  decisions_.starts.push_back({run.id, w.run, Record(w), GpuCount(run.gpus_per_node)});
}

template <class Policy>
void Scheduler<Policy>::StopRun(RunSlot slot, StopReason reason, WorkloadId beneficiary) {
  Run& run = table_.run(slot);
  Workload& w = table_.workload(slot);
  Stop stop;
  stop.workload = run.id;
  stop.run = w.run;
  stop.reason = reason;
  stop.beneficiary = beneficiary;
  stop.grace = options_.grace;
  stop.lost_work = run.gpus() * run.LostIfStopped(now_);
  decisions_.stops.push_back(stop);
  w.stop_reason = reason;
  Uncommit(slot);
  run.state = WorkloadState::kStopping;
  Restock(slot);
  for (NodeId n : w.nodes) cluster_.MarkStopping(n, run.gpus_per_node);
  if (run.funded) {
    Place(slot, -1);
    Queue(run, +1);
    // One that waits for the cap of its class or of its user may start elsewhere; a leaf that has
    // nothing left may stop more.
    if (ClassCap(run.workload_class) > 0 ||
        options_.contract.UserGpus(run.workload_class) > GpuCount(0) ||
        (Policy::kFirstStopsMore && ledger_.placed_charge(run.leaf) == MilliGpu(0))) {
      look_again_ = true;
    }
  }
}

}  // namespace tenure

#endif  // TENURE_SCHEDULER_HOLDS_H_
