// SPDX-License-Identifier: Apache-2.0
//
// Scheduler: reservations with a promised start. Included by scheduler.h; not for direct use.
#ifndef TENURE_SCHEDULER_PROMISES_H_
#define TENURE_SCHEDULER_PROMISES_H_

#include "tenure/scheduler.h"

namespace tenure {

template <class Policy>
typename Scheduler<Policy>::Credit Scheduler<Policy>::CreditOf(AllocationId leaf) const {
  const ReservationOptions& o = options_.reservation;
  Credit credit;
  credit.gangs = Reserves();
  credit.blocks = credit.gangs && o.block > GpuCount(0);
  for (RunSlot other : reservations_) {
    if (table_.run(other).leaf != leaf) continue;
    (table_.run(other).gpus() >= o.gang ? credit.gangs : credit.blocks) = false;
  }
  if (!credit.gangs && !credit.blocks) return credit;
  credit.behind = credit_.Owed(leaf) - ranking_.used(leaf);
  Duration least = Duration::max();
  if (credit.gangs) least = std::min(o.first_credit, o.restart_credit);
  if (credit.blocks) least = std::min(least, o.block_credit);
  credit.some = credit.behind > GpuTime(0) &&
                internal::HoursAtLeast(credit.behind, ranking_.entitlement(leaf), least);
  return credit;
}

// A first run of a gang needs some credit; a further one must have saved its whole minimum and
// more.
template <class Policy>
bool Scheduler<Policy>::Suffices(const Credit& credit, RunSlot slot) const {
  const Run& run = table_.run(slot);
  const ReservationOptions& o = options_.reservation;
  const bool gang = run.gpus() >= o.gang;
  if (!(gang ? credit.gangs : credit.blocks)) return false;
  GpuTime behind = credit.behind;
  Duration needed = gang ? o.first_credit : o.block_credit;
  if (gang && run.stops > 0) {
    const Duration protection = options_.contract.Protection(table_.workload(slot).spec);
    behind -= GpuTime(internal::MulDivFloor(run.charge().value(), protection.count(), 1000));
    needed = o.restart_credit;
  }
  return behind > GpuTime(0) &&
         internal::HoursAtLeast(behind, ranking_.entitlement(run.leaf), needed);
}

// The first request of a bucket that may have a reservation now, or kNoSlot. A gang that was
// stopped needs more credit than one that never ran: while its leaf saves that up, the gangs behind
// it have their turn. Otherwise all of a bucket need the same.
template <class Policy>
RunSlot Scheduler<Policy>::FirstWith(const Credit& credit,
                                     const PendingQueue::Bucket& bucket) const {
  for (const QueueKey& key : bucket.waiting) {
    if (!Avoids(key.slot) && Suffices(credit, key.slot)) return key.slot;
    const Run& run = table_.run(key.slot);
    if (run.stops == 0 || run.gpus() < options_.reservation.gang) break;
  }
  return kNoSlot;
}

template <class Policy>
bool Scheduler<Policy>::Reserve(RunSlot slot) {
  const Shape shape = shapes_[table_.workload(slot).shape];
  const PolicyContext context = Context();
  const VictimEnv env{cluster_,   table_,  ledger_,
                      stoppable_, context, options_.grace + options_.tick};
  reservation_search_.Update(cluster_, table_);
  if (!reservation_search_.Find(env, policy_, shape, reservation_plan_)) return false;
  Dequeue(slot);
  Run& run = table_.run(slot);
  Workload& w = table_.workload(slot);
  Queue(run, +1);  // it still waits
  CountForUser(slot, +1);
  run.state = WorkloadState::kReserved;
  w.nodes.assign(reservation_plan_.nodes.begin(), reservation_plan_.nodes.end());
  w.deadline = reservation_plan_.at;
  w.promised = reservation_plan_.at + options_.grace;
  for (NodeId n : w.nodes) cluster_.Reserve(n, slot, w.deadline);
  reservations_.push_back(slot);
  decisions_.promises.push_back({run.id, Record(w), w.promised});
  if (w.deadline <= now_ && Fire(slot)) look_again_ = true;
  return true;
}

// Back into the queue; its nodes are ordinary again.
template <class Policy>
void Scheduler<Policy>::ReleaseReservation(RunSlot slot) {
  const Run& run = table_.run(slot);
  Workload& w = table_.workload(slot);
  for (NodeId n : w.nodes) cluster_.Unreserve(n);
  w.nodes.clear();
  RemoveFromList(reservations_, slot);
  CountForUser(slot, -1);
  Queue(run, -1);
  Enqueue(slot, true);
}

template <class Policy>
void Scheduler<Policy>::RenewReservations() {
  const std::vector<RunSlot> renewals = std::move(renewals_);
  renewals_.clear();
  for (RunSlot slot : renewals) {
    const Run& run = table_.run(slot);
    if (run.state == WorkloadState::kPending && run.funded) Reserve(slot);
  }
}

template <class Policy>
void Scheduler<Policy>::FireReservations() {
  // What one leaves of its nodes may be enough for another.
  for (bool again = true; again;) {
    again = false;
    const std::vector<RunSlot> reservations = reservations_;
    for (RunSlot slot : reservations) {
      again = StartEarly(slot) || (table_.workload(slot).deadline <= now_ && Fire(slot)) || again;
    }
  }
}

// A reserved gang that fits on free GPUs, its own nodes or others, need not wait for its time.
template <class Policy>
bool Scheduler<Policy>::StartEarly(RunSlot slot) {
  const Workload& w = table_.workload(slot);
  const Shape shape = shapes_[w.shape];
  if (cluster_.free() < shape.total()) return false;
  for (NodeId n : w.nodes) cluster_.Unreserve(n);
  const bool fits = FindFree(slot, shape);
  for (NodeId n : w.nodes) cluster_.Reserve(n, slot, w.deadline);
  if (!fits) return false;
  ReleaseReservation(slot);
  StartOn(slot, scratch_nodes_);
  ranking_.Recharge(tree_, ledger_, table_.run(slot).leaf, now_, KeyFn());
  return true;
}

// Takes the reserved nodes. False while a start on them is not confirmed or, because it was
// confirmed late, still protected.
template <class Policy>
bool Scheduler<Policy>::Fire(RunSlot slot) {
  Workload& w = table_.workload(slot);
  if (!KeepsPromise(slot, now_)) {  // it was late, and its nodes are about to close
    RestatePromise(slot);
    look_again_ = true;
    return false;
  }
  plan_.Clear();
  plan_.nodes.assign(w.nodes.begin(), w.nodes.end());
  for (NodeId id : plan_.nodes) {
    for (const Occupant& o : cluster_.node(id).runs) {
      const Run& run = table_.run(o.run);
      if (run.state == WorkloadState::kStopping) continue;
      if (run.state == WorkloadState::kStarting || (run.funded && run.protected_until > now_)) {
        return false;
      }
      if (std::find(plan_.victims.begin(), plan_.victims.end(), o.run) == plan_.victims.end()) {
        plan_.victims.push_back(o.run);
      }
    }
  }
  ReleaseReservation(slot);
  const std::int32_t gpus = table_.run(slot).gpus_per_node;
  const auto left = [&](NodeId id) {  // once the victims are gone
    std::int32_t available = cluster_.node(id).soon();
    for (const Occupant& o : cluster_.node(id).runs) {
      if (std::find(plan_.victims.begin(), plan_.victims.end(), o.run) != plan_.victims.end()) {
        available += o.gpus;
      }
    }
    return available;
  };
  for (NodeId id : plan_.nodes) {
    while (left(id) < gpus && !cluster_.node(id).holds.empty()) {
      ReleaseHold(cluster_.node(id).holds.back().run);
    }
  }
  // Whoever fits beside the gang stays, the dearest first.
  const PolicyContext context = Context();
  std::vector<std::pair<std::int64_t, RunSlot>> order;
  for (RunSlot v : plan_.victims) {
    order.emplace_back(policy_.VictimCost(context, table_.run(v)), v);
  }
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first
                              : table_.run(a.second).id > table_.run(b.second).id;
  });
  for (const auto& [cost, v] : order) {
    RemoveFromList(plan_.victims, v);
    const bool needed = std::any_of(plan_.nodes.begin(), plan_.nodes.end(),
                                    [&](NodeId id) { return left(id) < gpus; });
    if (needed) plan_.victims.push_back(v);
  }
  if (std::all_of(plan_.nodes.begin(), plan_.nodes.end(),
                  [&](NodeId id) { return cluster_.node(id).free() >= gpus; })) {
    StartOn(slot, plan_.nodes);
  } else {
    HoldFor(slot, plan_);
    for (RunSlot v : plan_.victims) StopRun(v, StopReason::kPromise, table_.run(slot).id);
  }
  ranking_.Recharge(tree_, ledger_, table_.run(slot).leaf, now_, KeyFn());
  ForgetSurvey();
  return true;
}

}  // namespace tenure

#endif  // TENURE_SCHEDULER_PROMISES_H_
