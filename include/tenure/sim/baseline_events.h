// SPDX-License-Identifier: Apache-2.0
//
// BaselineEngine: what is reported, and the queues. Included by baselines.h; not for direct use.
#ifndef TENURE_SIM_BASELINE_EVENTS_H_
#define TENURE_SIM_BASELINE_EVENTS_H_

#include "tenure/sim/baselines.h"

namespace tenure::sim {

inline absl::Status BaselineEngine::Submit(const WorkloadSpec& spec, Duration limit,
                                           TimePoint now) {
  const auto name = [&] { return absl::StrCat("workload ", spec.id.value(), ": "); };
  if (absl::Status s = ContractRules{}.Check(spec); !s.ok()) return s;
  if (limit < Duration(0)) {
    return absl::InvalidArgumentError(absl::StrCat(name(), "limit is ", limit.count(), " us"));
  }
  if (!tree_.contains(spec.allocation) || !tree_.is_leaf(spec.allocation) ||
      spec.allocation == kRootAllocation) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), "allocation ", spec.allocation.value(), " is no leaf"));
  }
  if (tree_.closed(spec.allocation)) {
    return absl::FailedPreconditionError(
        absl::StrCat(name(), "allocation ", tree_.path(spec.allocation), " is closed"));
  }
  if (slots_.contains(spec.id)) {
    return absl::AlreadyExistsError(absl::StrCat(name(), "already waits or runs"));
  }
  if (absl::Status s = CheckTime(now); !s.ok()) return s;

  RunSlot slot;
  if (free_slots_.empty()) {
    slot = static_cast<RunSlot>(records_.size());
    records_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  slots_.emplace(spec.id, slot);
  Record& r = records_[slot];
  r = Record{};
  r.spec = spec;
  r.limit = limit;
  r.since = now;
  Shape shape;
  shape.nodes = static_cast<std::int32_t>(spec.nodes);
  shape.gpus = r.per_node();
  shape.type = spec.gpu_type;
  if (spec.nodes > 1) {
    shape.rule = spec.topology_rule;
    shape.level = spec.topology_level;
  }
  if (!EverFits(cluster_, shape)) {
    r.state = State::kUnplaceable;
    return absl::OkStatus();
  }
  // Whose it is matters only where teams differ: one queue for all needs far fewer streams.
  const bool by_leaf = !easy() || Ranked(spec.funded());
  const AllocationId leaf = by_leaf ? spec.allocation : kRootAllocation;
  const auto [it, inserted] = stream_of_.try_emplace({leaf, shape, spec.funded()}, streams_.size());
  if (inserted) {
    streams_.push_back({.leaf = leaf, .shape = shape, .funded = spec.funded(), .waiting = {}});
  }
  r.stream = it->second;
  Enqueue(slot);
  return absl::OkStatus();
}

inline absl::Status BaselineEngine::Cancel(WorkloadId id, TimePoint now) {
  const auto it = slots_.find(id);
  if (it == slots_.end()) {
    return absl::NotFoundError(absl::StrCat("workload ", id.value(), " is unknown"));
  }
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  const RunSlot slot = it->second;
  Record& r = records_[slot];
  switch (r.state) {
    case State::kQueued:
      Dequeue(slot);
      Remove(slot);
      break;
    case State::kHeld:
      for (NodeId n : r.nodes) cluster_.Unclaim(n, slot, r.per_node());
      Account(r, -1);
      held_.erase(std::find(held_.begin(), held_.end(), slot));
      Remove(slot);
      dirty_ = true;
      break;
    case State::kStarting:
    case State::kRunning:
      if (!r.cancelled) to_cancel_.push_back(slot);
      r.cancelled = true;
      dirty_ = true;
      break;
    case State::kStopping:
      r.cancelled = true;
      break;
    case State::kFree:
    case State::kUnplaceable:
      Remove(slot);
      break;
  }
  return absl::OkStatus();
}

inline absl::StatusOr<RunSlot> BaselineEngine::FindRun(WorkloadId id, RunNumber run,
                                                       std::initializer_list<State> states) const {
  const auto it = slots_.find(id);
  if (it == slots_.end()) {
    return absl::NotFoundError(absl::StrCat("workload ", id.value(), " is unknown"));
  }
  const Record& r = records_[it->second];
  if (r.run != run || std::find(states.begin(), states.end(), r.state) == states.end()) {
    return absl::FailedPreconditionError(absl::StrCat("workload ", id.value(), ": run ",
                                                      run.value(), " is not in this state, run ",
                                                      r.run.value(), " is the last"));
  }
  return it->second;
}

inline absl::Status BaselineEngine::ReportStarted(WorkloadId id, RunNumber run, TimePoint now) {
  // A run that is stopped before its start was confirmed goes on stopping.
  absl::StatusOr<RunSlot> slot = FindRun(id, run, {State::kStarting, State::kStopping});
  if (!slot.ok()) return slot.status();
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  Record& r = records_[*slot];
  if (r.state == State::kStarting) {
    r.state = State::kRunning;
    CountStoppable(r, +1);
    dirty_ = dirty_ || draining_ > 0;  // only now can it be stopped
  }
  r.start = now;
  r.expected_end = ExpectedEnd(r);
  return absl::OkStatus();
}

inline absl::Status BaselineEngine::ReportEnded(WorkloadId id, RunNumber run, TimePoint now) {
  absl::StatusOr<RunSlot> slot =
      FindRun(id, run, {State::kStarting, State::kRunning, State::kStopping});
  if (!slot.ok()) return slot.status();
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  CountStoppable(records_[*slot], -1);
  Vacate(*slot, records_[*slot].state == State::kStopping);
  Remove(*slot);
  return absl::OkStatus();
}

inline absl::Status BaselineEngine::ReportStopped(WorkloadId id, RunNumber run, TimePoint now) {
  absl::StatusOr<RunSlot> slot = FindRun(id, run, {State::kStopping});
  if (!slot.ok()) return slot.status();
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  Vacate(*slot, true);
  const Record& r = records_[*slot];
  if (r.cancelled || !r.spec.resumable) {
    Remove(*slot);
  } else {
    Enqueue(*slot);
  }
  return absl::OkStatus();
}

inline absl::Status BaselineEngine::SetNode(NodeId node, NodeHealth health, TimePoint /*since*/,
                                            TimePoint now) {
  if (!cluster_.contains(node)) {
    return absl::NotFoundError(absl::StrCat("node ", node.value(), " is unknown"));
  }
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  const NodeHealth before = cluster_.node(node).health;
  if (before == health) return absl::OkStatus();
  cluster_.SetHealth(node, health);
  tree_.Entitlements(ToMilli(cluster_.healthy()), entitlements_);
  draining_ += health == NodeHealth::kDraining;
  draining_ -= before == NodeHealth::kDraining;
  dirty_ = true;
  if (health == NodeHealth::kUp) return absl::OkStatus();
  while (!cluster_.node(node).holds.empty()) ReleaseHold(cluster_.node(node).holds.back().run);
  while (health == NodeHealth::kDown && !cluster_.node(node).runs.empty()) {
    const RunSlot slot = cluster_.node(node).runs.back().run;
    const Record& r = records_[slot];
    CountStoppable(r, -1);
    Vacate(slot, r.state == State::kStopping);
    if (r.cancelled || !r.spec.resumable) {
      Remove(slot);
    } else {
      Enqueue(slot);
    }
  }
  return absl::OkStatus();
}

// Back into the queue; what was claimed is free for others.
inline void BaselineEngine::ReleaseHold(RunSlot slot) {
  Record& r = records_[slot];
  for (NodeId n : r.nodes) cluster_.Unclaim(n, slot, r.per_node());
  Account(r, -1);
  r.is_protected = false;
  std::erase(held_, slot);
  Enqueue(slot);
}

inline void BaselineEngine::Enqueue(RunSlot slot) {
  Record& r = records_[slot];
  r.state = State::kQueued;
  r.nodes.clear();
  const std::int64_t priority = Ranked(r.spec.funded()) ? r.spec.priority : 0;
  streams_[r.stream].waiting.insert({-priority, r.since, r.spec.id, slot});
  ++queued_;
  if (r.spec.funded()) {
    for (AllocationId a = r.spec.allocation;; a = tree_.parent(a)) {
      ++waiting_[a.value()];
      if (a == kRootAllocation) break;
    }
  }
  dirty_ = true;
}

inline void BaselineEngine::Dequeue(RunSlot slot) {
  const Record& r = records_[slot];
  const std::int64_t priority = Ranked(r.spec.funded()) ? r.spec.priority : 0;
  streams_[r.stream].waiting.erase({-priority, r.since, r.spec.id, slot});
  --queued_;
  if (r.spec.funded()) {
    for (AllocationId a = r.spec.allocation;; a = tree_.parent(a)) {
      --waiting_[a.value()];
      if (a == kRootAllocation) break;
    }
  }
}

inline void BaselineEngine::Remove(RunSlot slot) {
  slots_.erase(records_[slot].spec.id);
  std::erase(to_cancel_, slot);
  records_[slot] = Record{};
  free_slots_.push_back(slot);
}

// A placement begins (+1, before the run starts or is held) or ends (-1).
inline void BaselineEngine::Account(const Record& r, std::int64_t sign) {
  const GpuCount gpus(sign * r.spec.gpus().value());
  if (r.is_protected) protected_gpus_[r.spec.allocation.value()] += gpus;
  if (Stoppable(r)) stoppable_ += gpus;
  if (fair_tree() && r.spec.funded()) {
    for (AllocationId a = r.spec.allocation;; a = tree_.parent(a)) {
      usage_[a.value()].Change(now_, gpus);
      if (a == kRootAllocation) break;
    }
  }
}

inline void BaselineEngine::Vacate(RunSlot slot, bool was_stopping) {
  Record& r = records_[slot];
  for (NodeId n : r.nodes) cluster_.Vacate(n, slot, r.per_node(), false, was_stopping);
  if (was_stopping && Stoppable(r)) stoppable_ += r.spec.gpus();  // Stop took them off already
  Account(r, -1);
  r.is_protected = false;
  dirty_ = true;
}

}  // namespace tenure::sim

#endif  // TENURE_SIM_BASELINE_EVENTS_H_
