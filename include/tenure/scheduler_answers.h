// SPDX-License-Identifier: Apache-2.0
//
// Scheduler: answers about the state, and its restoration. Included by
// scheduler.h; not for direct use. Every function checks everything before it changes anything.
#ifndef TENURE_SCHEDULER_ANSWERS_H_
#define TENURE_SCHEDULER_ANSWERS_H_

#include "tenure/scheduler.h"

namespace tenure {

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
    fresh.draining_ += n.leaving();
  }
  for (std::uint32_t n = 0; n < fresh.cluster_.size(); ++n) {
    if (fresh.cluster_.node(NodeId(n)).closes_at != kNever) fresh.in_calendar_.push_back(NodeId(n));
  }
  for (RunSlot s = 0; s < fresh.table_.slots(); ++s) {
    const Run& run = fresh.table_.run(s);
    Workload& w = fresh.table_.workload(s);
    if (run.state == WorkloadState::kFree) continue;
    w.shape = fresh.Intern(fresh.ShapeOf(run, w.spec));
    if (w.ahead) fresh.protections_.push_back({run.protected_until, s, run.id});
    const bool placed = run.state == WorkloadState::kHeld ||
                        run.state == WorkloadState::kStarting ||
                        run.state == WorkloadState::kRunning;
    if (run.funded && (placed || run.state == WorkloadState::kReserved)) fresh.CountForUser(s, +1);
    if (run.state == WorkloadState::kPending) {
      const bool dirty = fresh.dirty_;
      fresh.Enqueue(s, false);
      fresh.dirty_ = dirty;
    }
  }
  fresh.stoppable_.Rebuild(policy_, fresh.cluster_, fresh.table_, fresh.now_);
  std::make_heap(fresh.protections_.begin(), fresh.protections_.end());
  *this = std::move(fresh);
  return absl::OkStatus();
}

template <class Policy>
absl::StatusOr<std::string_view> Scheduler<Policy>::ResumeHint(WorkloadId id) const {
  if (table_.Find(id) == kNoSlot) {
    return absl::NotFoundError(absl::StrCat("workload ", id.value(), " is unknown"));
  }
  return table_.Hint(id);
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
  Ledger ledger = LedgerAt(now_);
  Ranking ranking = ranking_;
  ranking.Refresh(tree_, ledger, Capacity(), now_, KeyFn(), policy_.CountsOwed());
  e.entitlement = ranking.entitlement(run.leaf);
  e.fluid = ranking.fluid(run.leaf);
  e.used = ranking.used(run.leaf);
  e.key = ranking.key(run.leaf);
  e.tier = policy_.Tier(PolicyContext{tree_, ranking, now_},
                        Requester{run.leaf, run.workload_class, run.gpus(), run.charge(),
                                  ledger_.placed_charge(run.leaf), 1});
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
    case WorkloadState::kSuspended:
      e.reason = WaitReason::kSuspended;
      break;
    case WorkloadState::kHeld:
      e.reason = WaitReason::kWaitsForStop;
      break;
    case WorkloadState::kReserved:
      e.reason = WaitReason::kReserved;
      e.promised_start = w.promised;
      break;
    case WorkloadState::kPending: {
      const QueueKey key = KeyOf(slot);
      const PendingQueue& queue = run.funded ? queues_[run.leaf.value()] : unfunded_;
      for (const auto& b : queue.buckets()) {
        e.requests_ahead +=
            static_cast<std::size_t>(std::distance(b.waiting.begin(), b.waiting.lower_bound(key)));
      }
      e.reason =
          dirty_ && w.queued_since >= last_pass_ ? WaitReason::kNotConsidered
          : run.funded && ClassCapReached(run.leaf, run.workload_class, run.charge(), ranking)
              ? CapReason(run.workload_class)
          : run.funded && UserCapReached(shapes_[w.shape]) ? WaitReason::kUserCap
          : WaitsForMaintenance(slot)                      ? WaitReason::kMaintenance
          : run.funded                                     ? WaitReason::kNoCapacity
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
  Ledger ledger = LedgerAt(now);
  Ranking ranking = ranking_;
  ranking.Refresh(tree_, ledger, Capacity(), now, KeyFn(), policy_.CountsOwed());
  AllocationStanding s;
  s.allocation = id;
  s.entitlement = ranking.entitlement(id);
  s.natural = ranking.natural(id);
  s.fluid = ranking.fluid(id);
  s.used_in_window = ledger.Use(id, now);
  s.used_rest = ledger.UseRestAt(id, now);
  s.committed_ahead = std::max(GpuTime(0), ledger.Ahead(id, now));
  s.unfunded_in_window = ledger.UnfundedUseAt(id, now);
  s.key = ranking.key(id);
  s.placed = ledger.placed(id);
  s.queued = ledger.queued(id);
  s.unfunded = ledger.unfunded_now(id);
  return s;
}

}  // namespace tenure

#endif  // TENURE_SCHEDULER_ANSWERS_H_
