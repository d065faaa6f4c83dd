// SPDX-License-Identifier: Apache-2.0
//
// Scheduler: what is reported about runs, and their accounting. Included by
// scheduler.h; not for direct use. Every function checks everything before it changes anything.
#ifndef TENURE_SCHEDULER_RUNS_H_
#define TENURE_SCHEDULER_RUNS_H_

#include "tenure/scheduler.h"

namespace tenure {

template <class Policy>
void Scheduler<Policy>::Commit(RunSlot slot, TimePoint until) {
  Run& run = table_.run(slot);
  run.protected_until = until;
  for (NodeId n : table_.workload(slot).nodes) cluster_.Touch(n);
  if (!run.funded || until <= now_) return;
  table_.workload(slot).ahead = true;
  ledger_.Commit(tree_, run.leaf, run.charge(), until);
  protections_.push_back({until, slot, run.id});
  std::push_heap(protections_.begin(), protections_.end());
}

template <class Policy>
void Scheduler<Policy>::Uncommit(RunSlot slot) {
  Workload& w = table_.workload(slot);
  if (!w.ahead) return;
  const Run& run = table_.run(slot);
  ledger_.Uncommit(tree_, run.leaf, run.charge(), run.protected_until);
  w.ahead = false;
}

// The ledger as a pass at `now` would see it: protections that are over are withdrawn.
template <class Policy>
Ledger Scheduler<Policy>::LedgerAt(TimePoint now) const {
  Ledger ledger = ledger_;
  for (RunSlot s = 0; s < table_.slots(); ++s) {
    const Run& run = table_.run(s);
    if (table_.workload(s).ahead && run.protected_until <= now) {
      ledger.Uncommit(tree_, run.leaf, run.charge(), run.protected_until);
    }
  }
  return ledger;
}

// Counts a funded run as placed in its leaf (+1) or not any more (-1).
template <class Policy>
void Scheduler<Policy>::Place(RunSlot slot, std::int64_t sign) {
  const Run& run = table_.run(slot);
  const MilliGpu charge(run.charge().value() * sign);
  ledger_.AddPlaced(tree_, run.leaf, GpuCount(run.gpus().value() * sign), charge);
  if (run.workload_class == WorkloadClass::kInteractive) {
    ledger_.AddSessions(tree_, run.leaf, charge);
  } else if (run.workload_class == WorkloadClass::kDebug) {
    ledger_.AddDebug(tree_, run.leaf, charge);
  } else if (run.workload_class == WorkloadClass::kServing) {
    ledger_.AddServing(tree_, run.leaf, charge);
  }
  CountForUser(slot, sign);
}

// Counts a funded workload among those its user has placed or promised (+1) or not any more (-1).
template <class Policy>
void Scheduler<Policy>::CountForUser(RunSlot slot, std::int64_t sign) {
  const Run& run = table_.run(slot);
  const UserId user = table_.workload(slot).spec.user;
  if (options_.contract.UserGpus(run.workload_class) == GpuCount(0) || user == kNoUser) return;
  const auto it = user_gpus_.try_emplace({user, run.workload_class}).first;
  it->second += GpuCount(run.gpus().value() * sign);
  if (it->second == GpuCount(0)) user_gpus_.erase(it);
}

// Counts it as waiting demand of its leaf (+1) or not any more (-1).
template <class Policy>
void Scheduler<Policy>::Queue(const Run& run, std::int64_t sign) {
  ledger_.AddQueued(tree_, run.leaf, GpuCount(run.gpus().value() * sign),
                    MilliGpu(run.charge().value() * sign));
}

// From `at` on `delta` more funded GPUs of `type` are charged, at the rates of every time.
template <class Policy>
void Scheduler<Policy>::Charge(AllocationId leaf, GpuTypeId type, TimePoint at, GpuCount delta) {
  ledger_.Charge(tree_, leaf, at, MilliGpu(delta.value() * rates_.At(type, at)));
  for (const ChargeRates::Change& c : rates_.changes()) {
    if (c.type != type || c.at <= at) continue;
    ledger_.Charge(tree_, leaf, c.at, MilliGpu(delta.value() * (c.to - c.from)));
  }
}

template <class Policy>
void Scheduler<Policy>::EndCharge(RunSlot slot, TimePoint at) {
  Workload& w = table_.workload(slot);
  if (!w.charged) return;
  const Run& run = table_.run(slot);
  if (run.funded) {
    Charge(run.leaf, TypeOf(w), at, -run.gpus());
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
    Queue(run, -1);
  } else {
    Place(slot, -1);
  }
}

template <class Policy>
LossOutcome Scheduler<Policy>::Lose(RunSlot slot, TimePoint at, LossCause cause) {
  const bool preempted = cause == LossCause::kPreempted;
  Run& run = table_.run(slot);
  Workload& w = table_.workload(slot);
  EndCharge(slot, std::max(at, run.start));
  Uncommit(slot);
  LeaveStopping(slot);
  LeaveNodes(slot);
  stoppable_.Remove(slot);
  RemoveFromList(cancels_, slot);
  dirty_ = dirty_ || AnythingWaits();
  if (w.cancel_requested || !run.resumable) {
    const LossOutcome outcome = w.cancel_requested              ? LossOutcome::kCancelled
                                : cause == LossCause::kNodeDown ? LossOutcome::kFailedWithNode
                                                                : LossOutcome::kFailedByPreemption;
    Forget(slot);
    return outcome;
  }
  run.stops += preempted;
  if (preempted && run.idle && run.workload_class == WorkloadClass::kInteractive) {
    // Nobody waits in it, and holding GPUs idle must not pay: it does not compete for new ones.
    run.state = WorkloadState::kSuspended;
    return LossOutcome::kSuspended;
  }
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
  const TimePoint decided = run.start;
  const Duration granted = run.protected_until - decided;
  Uncommit(*slot);
  run.state = WorkloadState::kRunning;
  run.start = started;
  run.progress_since = started + (run.stops > 0 ? run.restart_overhead : Duration(0));
  w.last_seen = now;
  w.charged = true;
  if (run.funded) {
    Charge(run.leaf, TypeOf(w), started, run.gpus());
    Commit(*slot, started + granted);
  } else {
    ledger_.ChargeUnfunded(tree_, run.leaf, started, run.gpus());
    run.protected_until = started;
  }
  Restock(*slot);
  // Only now can it be stopped; a pass since it was decided had to leave it alone.
  dirty_ = dirty_ || w.cancel_requested || draining_ > 0 ||
           (decided < last_pass_ && run.protected_until <= now && waiting_funded_ > 0);
  for (NodeId n : w.nodes) {
    const Node& node = cluster_.node(n);
    dirty_ = dirty_ || (node.reserved_for != kNoSlot && node.reserved_at <= now);
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
    LookAgainAt(w.avoid_until);
  }
  // A workload that has never run is not failed by a refused launch.
  Run& mutable_run = table_.run(*slot);
  const bool resumable = mutable_run.resumable;
  mutable_run.resumable = true;
  if (Lose(*slot, now, LossCause::kOther) == LossOutcome::kRequeued)
    mutable_run.resumable = resumable;
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
          Charge(it->leaf, it->type, at, delta);
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
  if (absl::Status s = CheckAfterStart(*slot, "ended", ended); !s.ok()) return s;
  Advance(now);
  table_.workload(*slot).cancel_requested = true;  // over, whatever it was
  Lose(*slot, ended, LossCause::kOther);
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
  if (absl::Status s = CheckAfterStart(*slot, "stopped", stopped); !s.ok()) return s;
  Advance(now);
  const StopReason reason = table_.workload(*slot).stop_reason;
  const bool for_others = IsPreemption(reason) || reason == StopReason::kIdle;
  return Lose(*slot, stopped, for_others ? LossCause::kPreempted : LossCause::kOther);
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
    Queue(run, -1);
    Place(*slot, +1);
  }
  run.state = WorkloadState::kRunning;
  Restock(*slot);
  table_.workload(*slot).last_seen = now;
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
  if (absl::Status s = CheckAfterStart(*slot, "checkpointed", at); !s.ok()) return s;
  Advance(now);
  run.progress_since = std::max(run.progress_since, at);
  Workload& w = table_.workload(*slot);
  w.last_seen = std::max(w.last_seen, at);
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
  const bool suspended = run.state == WorkloadState::kSuspended;
  if ((run.state != WorkloadState::kRunning && !suspended) ||
      run.workload_class != WorkloadClass::kInteractive) {
    return WrongState(slot, table_.workload(slot).run, "idle");
  }
  Advance(now);
  run.idle = idle;
  if (suspended) {
    if (!idle) Admit(slot);
    return absl::OkStatus();
  }
  table_.workload(slot).last_seen = now;
  const TimePoint until = std::max(now, run.start + options_.idle_after);
  if (idle && until < run.protected_until) {
    Uncommit(slot);
    Commit(slot, until);
    LookAgainAt(until);
  }
  Restock(slot);
  dirty_ = true;
  return absl::OkStatus();
}

template <class Policy>
absl::Status Scheduler<Policy>::SetResumeHint(WorkloadId id, std::string hint, TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  if (table_.Find(id) == kNoSlot) {
    return absl::NotFoundError(absl::StrCat("workload ", id.value(), " is unknown"));
  }
  if (hint.size() > kMaxHintBytes) {
    return absl::InvalidArgumentError(absl::StrCat("resume hint of workload ", id.value(), ": ",
                                                   hint.size(), " bytes exceed ", kMaxHintBytes));
  }
  Advance(now);
  table_.SetHint(id, std::move(hint));
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
    inferred_.push_back(
        {run.id, w.run, run.leaf, TypeOf(w), run.gpus(), run.funded, run.start, end});
    w.cancel_requested = true;
    Lose(slot, end, LossCause::kOther);
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

}  // namespace tenure

#endif  // TENURE_SCHEDULER_RUNS_H_
