// SPDX-License-Identifier: Apache-2.0
//
// Scheduler: maintenance announced ahead. Included by scheduler.h; not for direct use.
//
// A window closes its nodes one grace and one tick before it begins, so that whatever may be
// stopped is gone when it does. What happens at a date happens in the first pass at or after it.
#ifndef TENURE_SCHEDULER_MAINTENANCE_H_
#define TENURE_SCHEDULER_MAINTENANCE_H_

#include "tenure/scheduler.h"

namespace tenure {

template <class Policy>
absl::StatusOr<MaintenanceId> Scheduler<Policy>::AnnounceMaintenance(
    std::vector<NodeId> nodes, TimePoint from, TimePoint until, std::string author,
    std::string reason, TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  if (nodes.empty()) return absl::InvalidArgumentError("maintenance of no nodes");
  for (NodeId id : nodes) {
    if (!cluster_.contains(id)) {
      return absl::NotFoundError(absl::StrCat("maintenance: node ", id.value(), " is unknown"));
    }
  }
  from = std::max(from, now);
  if (until <= from || until.time_since_epoch() > kTimeLimit) {
    return absl::InvalidArgumentError(absl::StrCat(
        "maintenance from ", from.time_since_epoch().count(), " us until ",
        until.time_since_epoch().count(), " us, announced at ", now.time_since_epoch().count(),
        " us: must end after its beginning and now, and in range"));
  }
  Advance(now);
  const bool banded = Banded();
  const MaintenanceId id =
      calendar_.Add(std::move(nodes), from, until, std::move(author), std::move(reason));
  if (!banded) Reshape();
  review_at_ = TimePoint(Duration::min());
  dirty_ = true;
  return id;
}

template <class Policy>
absl::Status Scheduler<Policy>::CancelMaintenance(MaintenanceId id, TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  if (absl::Status s = calendar_.Cancel(id); !s.ok()) return s;
  Advance(now);
  if (!Banded()) Reshape();
  review_at_ = TimePoint(Duration::min());
  dirty_ = true;
  return absl::OkStatus();
}

// What time makes of the windows: nodes close, and open again.
template <class Policy>
void Scheduler<Policy>::ReviewMaintenance() {
  if (now_ < review_at_) return;
  const bool banded = Banded();
  calendar_.Expire(now_);
  if (banded && !Banded()) Reshape();
  const auto beginnings = calendar_.Beginnings();
  auto next = beginnings.begin();
  for (NodeId id : in_calendar_) {  // ascending, too
    while (next != beginnings.end() && next->first < id) ++next;
    if (next == beginnings.end() || next->first != id) CloseNode(id, kNever);
  }
  in_calendar_.clear();
  for (const auto& [id, from] : beginnings) {
    in_calendar_.push_back(id);
    CloseNode(id, from - Notice());
  }
  review_at_ = std::min(calendar_.NextChange(now_, Notice()),
                        calendar_.NextChange(now_, Notice() + LongestProtection() - Duration(1)));
}

// From `at` on the node takes nothing, and nothing before whose protection would last longer.
template <class Policy>
void Scheduler<Policy>::CloseNode(NodeId id, TimePoint at) {
  const bool was_leaving = cluster_.node(id).leaving();
  const bool closed = at <= now_;
  cluster_.SetMaintenance(id, at, at != kNever && at - now_ < LongestProtection(), closed);
  const Node& node = cluster_.node(id);
  draining_ += node.leaving();
  draining_ -= was_leaving;
  if (closed) {
    LeaveService(id);
  } else if (node.reserved_for != kNoSlot &&
             !KeepsPromise(node.reserved_for, table_.workload(node.reserved_for).deadline)) {
    RestatePromise(node.reserved_for);
  }
}

// Nobody waits for the node any more.
template <class Policy>
void Scheduler<Policy>::LeaveService(NodeId id) {
  while (!cluster_.node(id).holds.empty()) ReleaseHold(cluster_.node(id).holds.back().run);
  if (const RunSlot gang = cluster_.node(id).reserved_for; gang != kNoSlot) RestatePromise(gang);
}

// Whether a reserved gang that takes its nodes from `start` on, at the latest once their runs have
// used up their grace, is past its protection when they close.
template <class Policy>
bool Scheduler<Policy>::KeepsPromise(RunSlot slot, TimePoint start) const {
  const Workload& w = table_.workload(slot);
  const TimePoint ends = shapes_[w.shape].EndsBy(start + Notice());
  return std::all_of(w.nodes.begin(), w.nodes.end(),
                     [&](NodeId id) { return cluster_.node(id).closes_at >= ends; });
}

template <class Policy>
void Scheduler<Policy>::RestatePromise(RunSlot slot) {
  ReleaseReservation(slot);
  renewals_.push_back(slot);
}

// Windows and reservations tell protections apart; shapes do only where there are any.
template <class Policy>
void Scheduler<Policy>::Reshape() {
  for (RunSlot slot = 0; slot < table_.slots(); ++slot) {
    const Run& run = table_.run(slot);
    Workload& w = table_.workload(slot);
    if (run.state == WorkloadState::kHeld || run.state == WorkloadState::kReserved) {
      w.shape = Intern(ShapeOf(run, w.spec));
    } else if (run.state == WorkloadState::kPending) {
      Dequeue(slot);
      w.shape = Intern(ShapeOf(run, w.spec));
      Enqueue(slot, true);
    }
  }
}

// No protection is longer than this, rounded up to its band.
template <class Policy>
Duration Scheduler<Policy>::LongestProtection() const {
  const auto& caps = options_.contract.cap;
  return BandLimit(BandOf(*std::max_element(caps.begin(), caps.end())));
}

// Whether it would start at once if no maintenance were announced.
template <class Policy>
bool Scheduler<Policy>::WaitsForMaintenance(RunSlot slot) const {
  if (in_calendar_.empty()) return false;
  Cluster cluster = cluster_;
  for (NodeId id : in_calendar_) cluster.SetMaintenance(id, kNever, false, false);
  std::vector<NodeId> nodes;
  const NodeId avoid = Avoids(slot) ? table_.workload(slot).avoid : kNoNode;
  return PlaceFree(cluster, shapes_[table_.workload(slot).shape], NoNodeScore{}, avoid, nodes,
                   now_);
}

}  // namespace tenure

#endif  // TENURE_SCHEDULER_MAINTENANCE_H_
