// SPDX-License-Identifier: Apache-2.0
//
// One pass of the Scheduler. Included by scheduler.h; not for direct use.
//
//   1. what time alone changes: maintenance, budget edits, ends of protection, holds that are ready
//      or too old
//   2. stops asked for by owners and by draining nodes
//   3. standings for this instant
//   4. tier by tier, always the leaf that ranks first, its first request that is not known to fail:
//      on free GPUs, else by stopping victims (hold), else its shape is set aside for this round;
//      every placement is charged at once, so that the next choice sees it
//   5. unfunded work fills what is free, largest first
//   6. while anything still waits, idle sessions beyond their cap are suspended
#ifndef TENURE_SCHEDULER_PASS_H_
#define TENURE_SCHEDULER_PASS_H_

#include "tenure/scheduler.h"

namespace tenure {

template <class Policy>
absl::StatusOr<const Decisions*> Scheduler<Policy>::Decide(TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  Advance(now);
  last_pass_ = now;
  decisions_.Clear();
  look_again_ = false;
  cluster_.Reindex();
  ReviewMaintenance();
  if (tree_.ApplyEdits(now)) {
    ranking_.Invalidate();
    Reconsider();
  }
  dirty_ = false;
  ExpireProtections();
  stoppable_.Advance(policy_, cluster_, table_, now_);
  search_.BeginPass();
  StopCancelled();
  if (draining_ > 0) StopOnDrainingNodes();
  if (!holds_.empty()) {
    StartReadyHolds();
    if (ExpireHolds()) StartReadyHolds();  // a later one may have waited for it
  }
  if (CountsCredit()) credit_.Advance(now_);
  if (waiting_funded_ > 0 || CountsCredit()) {
    ranking_.Refresh(tree_, ledger_, Capacity(), now_, KeyFn(), policy_.CountsOwed());
  }
  if (CountsCredit()) {
    for (std::uint32_t i : ranking_.natural_moved()) {
      credit_.Set(AllocationId(i), ranking_.natural(AllocationId(i)));
    }
  }
  if (Reserves()) {
    RenewReservations();
    FireReservations();
  }
  if (options_.search.On() && waiting_funded_ > 0) {
    SearchAndServe();
  } else {
    Serve();
  }
  SuspendIdleSessions();
  dirty_ = look_again_;
  decisions_.next_wakeup = NextWakeup();
  return &decisions_;
}

template <class Policy>
void Scheduler<Policy>::ExpireProtections() {
  while (!protections_.empty() && protections_.front().until <= now_) {
    const Protection p = protections_.front();
    std::pop_heap(protections_.begin(), protections_.end());
    protections_.pop_back();
    if (table_.run(p.slot).id == p.id && table_.workload(p.slot).ahead &&
        table_.run(p.slot).protected_until == p.until) {
      Uncommit(p.slot);
    }
  }
}

template <class Policy>
void Scheduler<Policy>::StopCancelled() {
  std::vector<RunSlot> cancels = std::move(cancels_);
  cancels_.clear();
  for (RunSlot slot : cancels) {
    if (table_.run(slot).state == WorkloadState::kRunning) {
      StopRun(slot, StopReason::kCancelled, WorkloadId(0));
    } else {
      cancels_.push_back(slot);  // its start is not confirmed yet
    }
  }
}

template <class Policy>
void Scheduler<Policy>::StopOnDrainingNodes() {
  for (const Pool& pool : cluster_.pools()) {
    for (NodeId id : pool.nodes) {
      if (!cluster_.node(id).leaving()) continue;
      const auto runs = cluster_.node(id).runs;
      for (const Occupant& o : runs) {
        const Run& run = table_.run(o.run);
        if (run.state != WorkloadState::kRunning) continue;
        if (run.funded && now_ < run.protected_until) continue;
        StopRun(o.run, StopReason::kDrain, WorkloadId(0));
      }
    }
  }
}

// Nobody works in them, and others wait.
template <class Policy>
void Scheduler<Policy>::SuspendIdleSessions() {
  if (options_.idle_cap == kNoIdleCap || stoppable_.idle() == 0) return;
  if (waiting_funded_ == 0 && unfunded_.empty()) return;
  std::vector<RunSlot> idle;
  for (std::uint32_t g : stoppable_.occupied()) {
    if (!stoppable_.group(g).idle) continue;
    for (const StoppableRuns::Member& m : stoppable_.group(g).members) idle.push_back(m.slot);
  }
  std::sort(idle.begin(), idle.end(), [&](RunSlot a, RunSlot b) {
    const Run &x = table_.run(a), &y = table_.run(b);
    return std::tie(x.leaf, x.id) < std::tie(y.leaf, y.id);
  });
  AllocationId leaf = kRootAllocation;
  std::int64_t kept = 0;  // charge of those of `leaf` that stay
  for (RunSlot slot : idle) {
    const Run& run = table_.run(slot);
    if (run.leaf != leaf) kept = 0;
    leaf = run.leaf;
    kept += run.charge().value();
    if (!run.resumable || kept * 1000 <= EntitlementNow(leaf).value() * options_.idle_cap) {
      continue;
    }
    kept -= run.charge().value();
    StopRun(slot, StopReason::kIdle, WorkloadId(0));
    look_again_ = true;  // a hold may wait for its GPUs, and others take what that had claimed
  }
}

template <class Policy>
TimePoint Scheduler<Policy>::NextWakeup() {
  TimePoint wakeup = std::min(tree_.next_edit(), calendar_.NextChange(now_, Notice()));
  for (RunSlot slot : holds_) wakeup = std::min(wakeup, table_.workload(slot).deadline);
  for (RunSlot slot : reservations_) {
    // One that is due but waits for a confirmation is looked at again with the blocked work.
    const TimePoint due = table_.workload(slot).deadline;
    wakeup = std::min(wakeup, due > now_ ? due : now_ + options_.tick);
  }
  if (waiting_funded_ > 0 || draining_ > 0) {
    while (!protections_.empty()) {  // the first entry that still means something
      const Protection& p = protections_.front();
      if (table_.run(p.slot).id == p.id && table_.workload(p.slot).ahead &&
          table_.run(p.slot).protected_until == p.until) {
        wakeup = std::min(wakeup, p.until);
        break;
      }
      std::pop_heap(protections_.begin(), protections_.end());
      protections_.pop_back();
    }
  }
  if (waiting_funded_ > 0) wakeup = std::min(wakeup, now_ + options_.retry);
  if (waiting_funded_ > 0 && preemptions_.Available(now_) == 0) {
    wakeup = std::min(wakeup, std::max(preemptions_.NextToken(now_), now_ + options_.tick));
  }
  looks_.erase(looks_.begin(), std::upper_bound(looks_.begin(), looks_.end(), now_));
  if (!looks_.empty() && AnythingWaits()) wakeup = std::min(wakeup, looks_.front());
  return wakeup;
}

}  // namespace tenure

#endif  // TENURE_SCHEDULER_PASS_H_
