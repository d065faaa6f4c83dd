// SPDX-License-Identifier: Apache-2.0
//
// The events of the Scheduler: what is reported changes the state here, and only here and in the
// pass. Included by scheduler.h; not for direct use. Every function checks everything before it
// changes anything.
#ifndef TENURE_SCHEDULER_EVENTS_H_
#define TENURE_SCHEDULER_EVENTS_H_

#include "tenure/scheduler.h"

namespace tenure {

template <class Policy>
absl::Status Scheduler<Policy>::CheckOptions(const SchedulerOptions& o) {
  const auto bad = [](auto&&... what) {
    return absl::InvalidArgumentError(absl::StrCat("option ", what...));
  };
  if (o.lookback <= Duration(0) || o.lookback > kMaxLookback) {
    return bad("lookback is ", o.lookback.count(), " us, must be in (0, ", kMaxLookback.count(),
               "]");
  }
  for (Duration cap : o.contract.cap) {
    if (cap < Duration(0) || cap > kMaxLookback) return bad("cap is ", cap.count(), " us");
  }
  if (o.grace < Duration(0)) return bad("grace is ", o.grace.count(), " us");
  if (o.tick < Duration(0)) return bad("tick is ", o.tick.count(), " us");
  if (o.retry <= Duration(0)) return bad("retry is ", o.retry.count(), " us");
  if (o.lane_permille < 0 || o.lane_permille > 1000) {
    return bad("lane_permille is ", o.lane_permille);
  }
  if (o.ranking.limit < 1 || o.ranking.limit > 1000) return bad("limit is ", o.ranking.limit);
  if (o.ranking.gain < Duration(0) || o.ranking.gain > kMaxLookback) {
    return bad("gain is ", o.ranking.gain.count(), " us");
  }
  if (o.ranking.nominal_permille < 0 || o.ranking.nominal_permille > 1000) {
    return bad("nominal_permille is ", o.ranking.nominal_permille);
  }
  return absl::OkStatus();
}

template <class Policy>
absl::Status Scheduler<Policy>::CheckTime(TimePoint now) const {
  if (now.time_since_epoch() > kTimeLimit || now.time_since_epoch() < -kTimeLimit) {
    return absl::InvalidArgumentError(
        absl::StrCat("time ", now.time_since_epoch().count(), " us is out of range"));
  }
  if (started_ && now < now_) {
    return absl::OutOfRangeError(
        absl::StrCat("time went backwards: ", now.time_since_epoch().count(), " us after ",
                     now_.time_since_epoch().count(), " us"));
  }
  return absl::OkStatus();
}

template <class Policy>
absl::Status Scheduler<Policy>::CheckEventTime(const char* what, TimePoint at,
                                               TimePoint now) const {
  if (at <= now && at.time_since_epoch() >= -kTimeLimit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " at ", at.time_since_epoch().count(),
                                                 " us, reported at ",
                                                 now.time_since_epoch().count(), " us"));
}

template <class Policy>
absl::StatusOr<RunSlot> Scheduler<Policy>::FindRun(WorkloadId id, RunNumber run) const {
  const RunSlot slot = table_.Find(id);
  if (slot == kNoSlot) {
    return absl::NotFoundError(absl::StrCat("workload ", id.value(), " is unknown"));
  }
  if (table_.workload(slot).run != run) {
    return absl::FailedPreconditionError(absl::StrCat("workload ", id.value(), " is at run ",
                                                      table_.workload(slot).run.value(), ", not ",
                                                      run.value()));
  }
  return slot;
}

template <class Policy>
absl::Status Scheduler<Policy>::WrongState(RunSlot slot, RunNumber run, const char* what) const {
  return absl::FailedPreconditionError(
      absl::StrCat("run ", run.value(), " of workload ", table_.run(slot).id.value(), " is ",
                   ToString(table_.run(slot).state), ", cannot be ", what));
}

// --- Budgets -------------------------------------------------------------------------------------

template <class Policy>
absl::StatusOr<AllocationId> Scheduler<Policy>::AddAllocation(std::string name, AllocationId parent,
                                                              Weight weight, TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  absl::StatusOr<AllocationId> id = tree_.Add(std::move(name), parent, weight);
  if (!id.ok()) return id;
  Advance(now);
  ledger_.Open(tree_);
  queues_.resize(tree_.size());
  ranking_.Invalidate();
  Reconsider();
  return id;
}

template <class Policy>
absl::Status Scheduler<Policy>::SetWeight(AllocationId id, Weight weight, TimePoint effective,
                                          std::string author, std::string reason, TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  if (absl::Status s = tree_.ScheduleWeight(id, weight, std::max(effective, now), std::move(author),
                                            std::move(reason));
      !s.ok()) {
    return s;
  }
  Advance(now);
  dirty_ = true;
  return absl::OkStatus();
}

template <class Policy>
absl::Status Scheduler<Policy>::CloseAllocation(AllocationId id, TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  if (absl::Status s = tree_.Close(id); !s.ok()) return s;
  Advance(now);
  ranking_.Invalidate();
  Reconsider();
  return absl::OkStatus();
}

// --- Nodes ---------------------------------------------------------------------------------------

template <class Policy>
absl::StatusOr<NodeId> Scheduler<Policy>::AddNode(std::string name, GpuCount gpus, GpuTypeId type,
                                                  DomainId domain, TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  absl::StatusOr<NodeId> id = cluster_.AddNode(std::move(name), gpus, type, domain);
  if (!id.ok()) return id;
  Advance(now);
  if (!parked_.empty()) Reconsider();
  dirty_ = true;
  return id;
}

template <class Policy>
absl::Status Scheduler<Policy>::SetNode(NodeId id, NodeHealth health, TimePoint since,
                                        TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  if (!cluster_.contains(id)) {
    return absl::NotFoundError(absl::StrCat("node ", id.value(), " is unknown"));
  }
  if (absl::Status s = CheckEventTime("node change", since, now); !s.ok()) return s;
  Advance(now);
  cluster_.Reindex();
  const NodeHealth before = cluster_.node(id).health;
  if (before == health) return absl::OkStatus();
  cluster_.SetHealth(id, health);
  draining_ += health == NodeHealth::kDraining;
  draining_ -= before == NodeHealth::kDraining;
  if (health != NodeHealth::kUp) {
    while (!cluster_.node(id).holds.empty()) ReleaseHold(cluster_.node(id).holds.back().run);
  }
  if (health == NodeHealth::kDown) {
    while (!cluster_.node(id).runs.empty()) Lose(cluster_.node(id).runs.back().run, since, false);
  }
  dirty_ = true;
  return absl::OkStatus();
}

// --- Queues --------------------------------------------------------------------------------------

// A workload is charged and protected if it asks for it and its allocation is entitled to anything.
template <class Policy>
bool Scheduler<Policy>::Funded(const WorkloadSpec& spec) const {
  if (options_.contract.Protection(spec) <= Duration(0)) return false;
  for (AllocationId a = spec.allocation; a != kRootAllocation; a = tree_.parent(a)) {
    if (tree_.units(a) == 0) return false;
  }
  return true;
}

template <class Policy>
Shape Scheduler<Policy>::ShapeOf(const Run& run, const WorkloadSpec& spec) const {
  Shape s;
  s.nodes = run.node_count;
  s.gpus = run.gpus_per_node;
  s.type = spec.gpu_type;
  if (s.nodes > 1) {
    s.rule = spec.topology_rule;
    s.level = spec.topology_level;
  }
  s.workload_class = run.workload_class;
  s.funded = run.funded;
  s.lane = s.nodes == 1 &&
           (!run.funded || (run.gpus() <= options_.lane_gpus &&
                            options_.contract.Protection(spec) <= options_.lane_minimum));
  return s;
}

template <class Policy>
ShapeId Scheduler<Policy>::Intern(const Shape& shape) {
  const auto [it, added] = shape_ids_.emplace(shape, static_cast<ShapeId>(shapes_.size()));
  if (added) shapes_.push_back(shape);
  return it->second;
}

template <class Policy>
QueueKey Scheduler<Policy>::KeyOf(RunSlot slot) const {
  const Run& run = table_.run(slot);
  const Workload& w = table_.workload(slot);
  QueueKey key;
  key.ordinary = !(options_.express && run.funded && run.workload_class == WorkloadClass::kDebug);
  // Priority exists only inside a team; unfunded work of all teams shares one queue.
  if (run.funded) key.yield = w.spec.priority == INT32_MIN ? INT32_MAX : -w.spec.priority;
  key.since = w.queued_since;
  key.id = run.id;
  key.slot = slot;
  return key;
}

// Puts a waiting workload where it belongs: its queue, or aside while nothing could place it.
template <class Policy>
void Scheduler<Policy>::Admit(RunSlot slot) {
  Run& run = table_.run(slot);
  Workload& w = table_.workload(slot);
  run.funded = Funded(w.spec);
  const Shape shape = ShapeOf(run, w.spec);
  cluster_.Reindex();
  if (tree_.closed(run.leaf) || !EverFits(cluster_, shape)) {
    run.state = WorkloadState::kUnplaceable;
    parked_.push_back(slot);
    return;
  }
  w.shape = Intern(shape);
  Enqueue(slot, true);
}

template <class Policy>
void Scheduler<Policy>::Enqueue(RunSlot slot, bool count_demand) {
  Run& run = table_.run(slot);
  run.state = WorkloadState::kPending;
  const ShapeId shape = table_.workload(slot).shape;
  if (run.funded) {
    queues_[run.leaf.value()].Insert(shape, KeyOf(slot));
    ++waiting_funded_;
    if (count_demand) ledger_.AddQueued(tree_, run.leaf, run.gpus());
    dirty_ = true;
  } else {
    unfunded_.Insert(shape, KeyOf(slot));
    if (cluster_.free() >= run.gpus()) dirty_ = true;
  }
}

template <class Policy>
void Scheduler<Policy>::Dequeue(RunSlot slot) {
  Run& run = table_.run(slot);
  const ShapeId shape = table_.workload(slot).shape;
  if (run.funded) {
    queues_[run.leaf.value()].Erase(shape, KeyOf(slot));
    --waiting_funded_;
    ledger_.AddQueued(tree_, run.leaf, -run.gpus());
  } else {
    unfunded_.Erase(shape, KeyOf(slot));
  }
}

// The tree or the nodes changed: every waiting workload is admitted anew.
template <class Policy>
void Scheduler<Policy>::Reconsider() {
  dirty_ = true;
  std::vector<RunSlot> waiting = std::move(parked_);
  parked_.clear();
  for (RunSlot s = 0; s < table_.slots(); ++s) {
    const Run& run = table_.run(s);
    if (run.state != WorkloadState::kPending) continue;
    if (Funded(table_.workload(s).spec) == run.funded && !tree_.closed(run.leaf)) continue;
    Dequeue(s);
    waiting.push_back(s);
  }
  for (RunSlot s : waiting) Admit(s);
}

template <class Policy>
absl::Status Scheduler<Policy>::Submit(const WorkloadSpec& spec, TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  if (absl::Status s = options_.contract.Check(spec); !s.ok()) return s;
  if (table_.Find(spec.id) != kNoSlot) {
    return absl::AlreadyExistsError(absl::StrCat("workload ", spec.id.value(), " exists"));
  }
  if (!tree_.contains(spec.allocation)) {
    return absl::NotFoundError(absl::StrCat("workload ", spec.id.value(), ": allocation ",
                                            spec.allocation.value(), " is unknown"));
  }
  if (tree_.closed(spec.allocation)) {
    return absl::FailedPreconditionError(absl::StrCat("workload ", spec.id.value(),
                                                      ": allocation '", tree_.path(spec.allocation),
                                                      "' is closed"));
  }
  if (!tree_.is_leaf(spec.allocation) || spec.allocation == kRootAllocation) {
    return absl::FailedPreconditionError(absl::StrCat("workload ", spec.id.value(),
                                                      ": allocation '", tree_.path(spec.allocation),
                                                      "' is not a leaf"));
  }
  if (spec.gpu_type != kAnyGpuType && spec.gpu_type.value() >= cluster_.gpu_types().size()) {
    return absl::NotFoundError(absl::StrCat("workload ", spec.id.value(), ": GPU type ",
                                            spec.gpu_type.value(), " is unknown"));
  }
  Advance(now);
  tree_.MarkCharged(spec.allocation);
  Admit(table_.Add(spec, now));
  return absl::OkStatus();
}

template <class Policy>
absl::Status Scheduler<Policy>::Cancel(WorkloadId id, TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  const RunSlot slot = table_.Find(id);
  if (slot == kNoSlot) {
    return absl::NotFoundError(absl::StrCat("workload ", id.value(), " is unknown"));
  }
  Advance(now);
  Workload& w = table_.workload(slot);
  switch (table_.run(slot).state) {
    case WorkloadState::kHeld:
      ReleaseHold(slot);
      [[fallthrough]];
    case WorkloadState::kPending:
      Dequeue(slot);
      Forget(slot);
      break;
    case WorkloadState::kUnplaceable:
      RemoveFromList(parked_, slot);
      Forget(slot);
      break;
    case WorkloadState::kStarting:
    case WorkloadState::kRunning:
      if (!w.cancel_requested) cancels_.push_back(slot);
      [[fallthrough]];
    case WorkloadState::kStopping:
      w.cancel_requested = true;
      break;
    case WorkloadState::kFree:
      break;
  }
  dirty_ = true;
  return absl::OkStatus();
}

// --- Runs ----------------------------------------------------------------------------------------

template <class Policy>
void Scheduler<Policy>::Commit(RunSlot slot, TimePoint until) {
  Run& run = table_.run(slot);
  run.protected_until = until;
  if (!run.funded || until <= now_) return;
  table_.workload(slot).ahead = true;
  ledger_.Commit(tree_, run.leaf, run.gpus(), until);
  protections_.push_back({until, slot, run.id});
  std::push_heap(protections_.begin(), protections_.end());
}

template <class Policy>
void Scheduler<Policy>::Uncommit(RunSlot slot) {
  Workload& w = table_.workload(slot);
  if (!w.ahead) return;
  const Run& run = table_.run(slot);
  ledger_.Uncommit(tree_, run.leaf, run.gpus(), run.protected_until);
  w.ahead = false;
}

template <class Policy>
void Scheduler<Policy>::EndCharge(RunSlot slot, TimePoint at) {
  Workload& w = table_.workload(slot);
  if (!w.charged) return;
  const Run& run = table_.run(slot);
  if (run.funded) {
    ledger_.Charge(tree_, run.leaf, at, -run.gpus());
  } else {
    ledger_.ChargeUnfunded(tree_, run.leaf, at, -run.gpus());
  }
  w.charged = false;
}

// Gives the nodes of a placed run back. The state must still say whether it was being stopped.
template <class Policy>
void Scheduler<Policy>::LeaveNodes(RunSlot slot) {
  Run& run = table_.run(slot);
  Workload& w = table_.workload(slot);
  const bool session = run.funded && run.workload_class == WorkloadClass::kInteractive;
  for (NodeId n : w.nodes) {
    cluster_.Vacate(n, slot, run.gpus_per_node, session, run.state == WorkloadState::kStopping);
  }
  w.nodes.clear();
}

// A run that was being stopped counts as waiting demand; everything else placed does not.
template <class Policy>
void Scheduler<Policy>::LeaveStopping(RunSlot slot) {
  const Run& run = table_.run(slot);
  if (!run.funded) return;
  if (run.state == WorkloadState::kStopping) {
    ledger_.AddQueued(tree_, run.leaf, -run.gpus());
  } else {
    ledger_.AddPlaced(tree_, run.leaf, -run.gpus());
  }
}

template <class Policy>
LossOutcome Scheduler<Policy>::Lose(RunSlot slot, TimePoint at, bool preempted) {
  Run& run = table_.run(slot);
  Workload& w = table_.workload(slot);
  EndCharge(slot, std::max(at, run.start));
  Uncommit(slot);
  LeaveStopping(slot);
  LeaveNodes(slot);
  RemoveFromList(cancels_, slot);
  dirty_ = dirty_ || AnythingWaits();
  if (w.cancel_requested || !run.resumable) {
    const LossOutcome outcome =
        w.cancel_requested ? LossOutcome::kCancelled : LossOutcome::kFailedByPreemption;
    Forget(slot);
    return outcome;
  }
  run.stops += preempted;
  run.idle = false;
  run.state = WorkloadState::kPending;
  Admit(slot);
  return LossOutcome::kRequeued;
}

template <class Policy>
absl::Status Scheduler<Policy>::ReportStarted(WorkloadId id, RunNumber run_number,
                                              TimePoint started, TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  if (absl::Status s = CheckEventTime("start", started, now); !s.ok()) return s;
  absl::StatusOr<RunSlot> slot = FindRun(id, run_number);
  if (!slot.ok()) return slot.status();
  Run& run = table_.run(*slot);
  if (run.state != WorkloadState::kStarting) return WrongState(*slot, run_number, "started");
  if (started < run.start) {
    return absl::InvalidArgumentError(
        absl::StrCat("run ", run_number.value(), " of workload ", id.value(), " started at ",
                     started.time_since_epoch().count(), " us, before it was decided at ",
                     run.start.time_since_epoch().count(), " us"));
  }
  Advance(now);
  Workload& w = table_.workload(*slot);
  Uncommit(*slot);
  run.state = WorkloadState::kRunning;
  run.start = started;
  run.progress_since = started + (run.stops > 0 ? run.restart_overhead : Duration(0));
  w.last_seen = now;
  w.charged = true;
  if (run.funded) {
    ledger_.Charge(tree_, run.leaf, started, run.gpus());
    Commit(*slot, started + options_.contract.Protection(w.spec));
  } else {
    ledger_.ChargeUnfunded(tree_, run.leaf, started, run.gpus());
    run.protected_until = started;
  }
  return absl::OkStatus();
}

template <class Policy>
absl::Status Scheduler<Policy>::ReportStartFailed(WorkloadId id, RunNumber run_number,
                                                  TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  absl::StatusOr<RunSlot> slot = FindRun(id, run_number);
  if (!slot.ok()) return slot.status();
  const Run& run = table_.run(*slot);
  if (run.state != WorkloadState::kStarting) return WrongState(*slot, run_number, "refused");
  Advance(now);
  Workload& w = table_.workload(*slot);
  if (w.nodes.size() == 1) {
    w.avoid = w.nodes[0];
    w.avoid_until = now + options_.tick;
  }
  // A workload that has never run is not failed by a refused launch.
  Run& mutable_run = table_.run(*slot);
  const bool resumable = mutable_run.resumable;
  mutable_run.resumable = true;
  if (Lose(*slot, now, false) == LossOutcome::kRequeued) mutable_run.resumable = resumable;
  return absl::OkStatus();
}

template <class Policy>
absl::Status Scheduler<Policy>::ReportEnded(WorkloadId id, RunNumber run_number, TimePoint ended,
                                            TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  if (absl::Status s = CheckEventTime("end", ended, now); !s.ok()) return s;
  absl::StatusOr<RunSlot> slot = FindRun(id, run_number);
  if (!slot.ok()) {
    for (auto it = inferred_.begin(); it != inferred_.end(); ++it) {
      if (it->workload != id || it->run != run_number || ended < it->start) continue;
      // The end was lost and inferred; now it is known.
      Advance(now);
      const auto charge = [&](TimePoint at, GpuCount delta) {
        if (it->funded) {
          ledger_.Charge(tree_, it->leaf, at, delta);
        } else {
          ledger_.ChargeUnfunded(tree_, it->leaf, at, delta);
        }
      };
      charge(it->end, it->gpus);
      charge(ended, -it->gpus);
      inferred_.erase(it);
      return absl::OkStatus();
    }
    return slot.status();
  }
  const Run& run = table_.run(*slot);
  if (run.state != WorkloadState::kRunning && run.state != WorkloadState::kStopping) {
    return WrongState(*slot, run_number, "ended");
  }
  if (ended < run.start) {
    return absl::InvalidArgumentError(
        absl::StrCat("run ", run_number.value(), " of workload ", id.value(), " ended at ",
                     ended.time_since_epoch().count(), " us, before its start at ",
                     run.start.time_since_epoch().count(), " us"));
  }
  Advance(now);
  table_.workload(*slot).cancel_requested = true;  // over, whatever it was
  Lose(*slot, ended, false);
  return absl::OkStatus();
}

template <class Policy>
absl::StatusOr<LossOutcome> Scheduler<Policy>::ReportStopped(WorkloadId id, RunNumber run_number,
                                                             TimePoint stopped, TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  if (absl::Status s = CheckEventTime("stop", stopped, now); !s.ok()) return s;
  absl::StatusOr<RunSlot> slot = FindRun(id, run_number);
  if (!slot.ok()) return slot.status();
  if (table_.run(*slot).state != WorkloadState::kStopping) {
    return WrongState(*slot, run_number, "stopped");
  }
  Advance(now);
  const bool preempted = table_.workload(*slot).stop_reason == StopReason::kPreempted;
  return Lose(*slot, stopped, preempted);
}

template <class Policy>
absl::Status Scheduler<Policy>::ReportStopFailed(WorkloadId id, RunNumber run_number,
                                                 TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  absl::StatusOr<RunSlot> slot = FindRun(id, run_number);
  if (!slot.ok()) return slot.status();
  Run& run = table_.run(*slot);
  if (run.state != WorkloadState::kStopping) {
    return WrongState(*slot, run_number, "reported as not stopped");
  }
  Advance(now);
  if (run.funded) {
    ledger_.AddQueued(tree_, run.leaf, -run.gpus());
    ledger_.AddPlaced(tree_, run.leaf, run.gpus());
  }
  run.state = WorkloadState::kRunning;
  for (NodeId n : table_.workload(*slot).nodes) {
    cluster_.UnmarkStopping(n, run.gpus_per_node);
    // The latest holds counted on these GPUs.
    while (cluster_.node(n).soon() < 0) ReleaseHold(cluster_.node(n).holds.back().run);
  }
  if (table_.workload(*slot).cancel_requested) cancels_.push_back(*slot);
  dirty_ = true;
  return absl::OkStatus();
}

template <class Policy>
absl::Status Scheduler<Policy>::ReportCheckpoint(WorkloadId id, RunNumber run_number, TimePoint at,
                                                 TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  if (absl::Status s = CheckEventTime("checkpoint", at, now); !s.ok()) return s;
  absl::StatusOr<RunSlot> slot = FindRun(id, run_number);
  if (!slot.ok()) return slot.status();
  Run& run = table_.run(*slot);
  if (run.state != WorkloadState::kRunning && run.state != WorkloadState::kStopping) {
    return WrongState(*slot, run_number, "checkpointed");
  }
  Advance(now);
  run.progress_since = std::max(run.progress_since, at);
  return absl::OkStatus();
}

template <class Policy>
absl::Status Scheduler<Policy>::ReportIdle(WorkloadId id, bool idle, TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  const RunSlot slot = table_.Find(id);
  if (slot == kNoSlot) {
    return absl::NotFoundError(absl::StrCat("workload ", id.value(), " is unknown"));
  }
  Run& run = table_.run(slot);
  if (run.state != WorkloadState::kRunning || run.workload_class != WorkloadClass::kInteractive) {
    return WrongState(slot, table_.workload(slot).run, "idle");
  }
  Advance(now);
  run.idle = idle;
  const TimePoint until = std::max(now, run.start + options_.idle_after);
  if (idle && until < run.protected_until) {
    Uncommit(slot);
    Commit(slot, until);
  }
  dirty_ = true;
  return absl::OkStatus();
}

template <class Policy>
absl::StatusOr<ReconcileReport> Scheduler<Policy>::Reconcile(std::span<const RunRef> running,
                                                             TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  Advance(now);
  ReconcileReport report;
  std::vector<bool> seen(table_.slots(), false);
  for (const RunRef& r : running) {
    const RunSlot slot = table_.Find(r.workload);
    const bool known = slot != kNoSlot && table_.workload(slot).run == r.run &&
                       (table_.run(slot).state == WorkloadState::kRunning ||
                        table_.run(slot).state == WorkloadState::kStopping);
    if (!known) {
      report.unknown.push_back(r);
      continue;
    }
    seen[slot] = true;
    table_.workload(slot).last_seen = now;
  }
  for (RunSlot slot = 0; slot < seen.size(); ++slot) {
    const Run& run = table_.run(slot);
    Workload& w = table_.workload(slot);
    if (seen[slot] ||
        (run.state != WorkloadState::kRunning && run.state != WorkloadState::kStopping)) {
      continue;
    }
    report.ended.push_back({run.id, w.run});
    const TimePoint end = std::max(run.start, w.last_seen);
    inferred_.push_back({run.id, w.run, run.leaf, run.gpus(), run.funded, run.start, end});
    w.cancel_requested = true;
    Lose(slot, end, false);
  }
  const auto by_id = [](const RunRef& a, const RunRef& b) { return a.workload < b.workload; };
  std::sort(report.ended.begin(), report.ended.end(), by_id);
  // A record later than the window could not change a charge any more.
  inferred_.erase(
      std::remove_if(inferred_.begin(), inferred_.end(),
                     [&](const Inferred& i) { return i.end + options_.lookback < now; }),
      inferred_.end());
  return report;
}

// --- State ---------------------------------------------------------------------------------------

template <class Policy>
absl::Status Scheduler<Policy>::Restore(const std::string& snapshot) {
  Scheduler fresh(options_, policy_);
  if (absl::Status s = internal::Unpack(snapshot, fresh); !s.ok()) return s;
  internal::ArchiveWriter theirs, ours;
  theirs(fresh.options_);
  ours(options_);
  if (theirs.out() != ours.out()) {
    return absl::FailedPreconditionError("snapshot was taken with other options");
  }
  fresh.cluster_.SetLane(options_.lane_permille);
  fresh.cluster_.Reindex();
  fresh.queues_.resize(fresh.tree_.size());
  for (const Node& n : fresh.cluster_.nodes()) {
    fresh.draining_ += n.health == NodeHealth::kDraining;
  }
  for (RunSlot s = 0; s < fresh.table_.slots(); ++s) {
    const Run& run = fresh.table_.run(s);
    Workload& w = fresh.table_.workload(s);
    if (run.state == WorkloadState::kFree) continue;
    w.shape = fresh.Intern(fresh.ShapeOf(run, w.spec));
    if (w.ahead) fresh.protections_.push_back({run.protected_until, s, run.id});
    if (run.state == WorkloadState::kPending) {
      const bool dirty = fresh.dirty_;
      fresh.Enqueue(s, false);
      fresh.dirty_ = dirty;
    }
  }
  std::make_heap(fresh.protections_.begin(), fresh.protections_.end());
  *this = std::move(fresh);
  return absl::OkStatus();
}

template <class Policy>
absl::StatusOr<Explanation> Scheduler<Policy>::Explain(WorkloadId id) const {
  const RunSlot slot = table_.Find(id);
  if (slot == kNoSlot) {
    return absl::NotFoundError(absl::StrCat("workload ", id.value(), " is unknown"));
  }
  const Run& run = table_.run(slot);
  const Workload& w = table_.workload(slot);
  Explanation e;
  e.workload = id;
  e.state = run.state;
  e.allocation = run.leaf;
  e.placed = ledger_.placed(run.leaf);
  e.queued = ledger_.queued(run.leaf);
  e.stops = run.stops;
  if (run.state == WorkloadState::kRunning || run.state == WorkloadState::kStopping) {
    e.protected_until = run.protected_until;
  }
  for (RunSlot s = 0; s < table_.slots(); ++s) {
    if (table_.run(s).state == WorkloadState::kRunning && table_.run(s).protected_until > now_) {
      e.next_protection_end = std::min(e.next_protection_end, table_.run(s).protected_until);
    }
  }
  // Standings as of now, on a copy: asking changes nothing.
  Ledger ledger = ledger_;
  Ranking ranking = ranking_;
  ranking.Refresh(tree_, ledger, cluster_.healthy(), now_, KeyFn());
  e.entitlement = ranking.entitlement(run.leaf);
  e.fluid = ranking.fluid(run.leaf);
  e.used = ranking.used(run.leaf);
  e.key = ranking.key(run.leaf);
  e.tier = policy_.Tier(PolicyContext{tree_, ranking, now_},
                        Requester{run.leaf, run.workload_class, run.gpus(), e.placed, 1});
  for (AllocationId leaf : tree_.leaves()) {
    if (leaf != run.leaf && !queues_[leaf.value()].empty() &&
        ranking.Before(tree_, leaf, run.leaf)) {
      ++e.leaves_ahead;
    }
  }
  switch (run.state) {
    case WorkloadState::kUnplaceable:
      e.reason = tree_.closed(run.leaf) ? WaitReason::kClosed : WaitReason::kNeverFits;
      break;
    case WorkloadState::kHeld:
      e.reason = WaitReason::kWaitsForStop;
      break;
    case WorkloadState::kPending: {
      const QueueKey key = KeyOf(slot);
      const PendingQueue& queue = run.funded ? queues_[run.leaf.value()] : unfunded_;
      for (const auto& b : queue.buckets()) {
        e.requests_ahead +=
            static_cast<std::size_t>(std::distance(b.waiting.begin(), b.waiting.lower_bound(key)));
      }
      e.reason = dirty_ && w.queued_since >= last_pass_ ? WaitReason::kNotConsidered
                 : run.funded                           ? WaitReason::kNoCapacity
                                                        : WaitReason::kUnfundedWaits;
      break;
    }
    default:
      break;
  }
  return e;
}

template <class Policy>
absl::StatusOr<AllocationStanding> Scheduler<Policy>::Standing(AllocationId id,
                                                               TimePoint now) const {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  if (!tree_.contains(id)) {
    return absl::NotFoundError(absl::StrCat("allocation ", id.value(), " is unknown"));
  }
  Ledger ledger = ledger_;
  Ranking ranking = ranking_;
  ranking.Refresh(tree_, ledger, cluster_.healthy(), now, KeyFn());
  AllocationStanding s;
  s.allocation = id;
  s.entitlement = ranking.entitlement(id);
  s.natural = ranking.natural(id);
  s.fluid = ranking.fluid(id);
  s.used_in_window = ledger.Use(id, now);
  s.committed_ahead = std::max(GpuTime(0), ledger.Ahead(id, now));
  s.unfunded_in_window = ledger.UnfundedUseAt(id, now);
  s.key = ranking.key(id);
  s.placed = ledger.placed(id);
  s.queued = ledger.queued(id);
  s.unfunded = ledger.unfunded_now(id);
  return s;
}

}  // namespace tenure

#endif  // TENURE_SCHEDULER_EVENTS_H_
