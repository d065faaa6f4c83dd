// SPDX-License-Identifier: Apache-2.0
//
// Scheduler: submission, cancellation and the queues. Included by
// scheduler.h; not for direct use. Every function checks everything before it changes anything.
#ifndef TENURE_SCHEDULER_QUEUES_H_
#define TENURE_SCHEDULER_QUEUES_H_

#include "tenure/scheduler.h"

namespace tenure {

// A workload is charged and protected if it asks for it and its allocation is entitled to anything.
template <class Policy>
bool Scheduler<Policy>::Funded(const WorkloadSpec& spec) const {
  if (options_.contract.Protection(spec) <= Duration(0)) return false;
  for (AllocationId a = spec.allocation; a != kRootAllocation; a = tree_.parent(a)) {
    if (tree_.units(a) == 0) return false;
  }
  return true;
}

// The charge rate a waiting workload is measured by: if it does not care for the type, it may get
// the dearest.
template <class Policy>
std::int32_t Scheduler<Policy>::RateOf(GpuTypeId type) const {
  if (rates_.standard()) return kStandardRate;
  if (type != kAnyGpuType) return rates_.rate(type);
  std::int32_t dearest = 0;
  for (std::uint16_t t = 0; t < cluster_.gpu_types().size(); ++t) {
    dearest = std::max(dearest, rates_.rate(GpuTypeId(t)));
  }
  return dearest;
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
  if (s.funded && options_.contract.UserGpus(s.workload_class) > GpuCount(0)) s.user = spec.user;
  if (s.funded && Banded()) s.band = BandOf(options_.contract.Protection(spec));
  s.lane = s.nodes == 1 &&
           (!run.funded || (run.gpus() <= options_.lane_gpus && !s.stays() &&
                            options_.contract.Protection(spec) <= options_.lane_minimum));
  return s;
}

template <class Policy>
ShapeId Scheduler<Policy>::Intern(const Shape& shape) {
  const auto [it, added] = shape_ids_.emplace(shape, static_cast<ShapeId>(shapes_.size()));
  if (added) {
    shapes_.push_back(shape);
    ShapeFacts& facts = shape_facts_.emplace_back();
    facts.gpus = shape.total();
    facts.capped = ClassCap(shape.workload_class) > 0 || shape.user != kNoUser;
    facts.reserves = MayReserve(shape);
  }
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
    order_.Add(run.leaf);
    ++waiting_funded_;
    if (count_demand) {
      run.rate = RateOf(table_.workload(slot).spec.gpu_type);
      Queue(run, +1);
    }
    dirty_ = true;
  } else {
    unfunded_.Insert(shape, KeyOf(slot));
    // It fits, or idle sessions may not stay any more.
    dirty_ = dirty_ || cluster_.free() >= run.gpus() || stoppable_.idle() > 0 ||
             (!looks_.empty() && looks_.front() <= now_);
  }
}

template <class Policy>
void Scheduler<Policy>::Dequeue(RunSlot slot) {
  Run& run = table_.run(slot);
  const ShapeId shape = table_.workload(slot).shape;
  if (run.funded) {
    queues_[run.leaf.value()].Erase(shape, KeyOf(slot));
    --waiting_funded_;
    Queue(run, -1);
  } else {
    unfunded_.Erase(shape, KeyOf(slot));
  }
}

// The tree or the nodes changed: every waiting workload is admitted anew.
template <class Policy>
void Scheduler<Policy>::Reconsider() {
  dirty_ = true;
  cluster_.Reindex();
  std::vector<RunSlot> waiting = std::move(parked_);
  parked_.clear();
  for (RunSlot s = 0; s < table_.slots(); ++s) {
    const Run& run = table_.run(s);
    if (run.state == WorkloadState::kHeld || run.state == WorkloadState::kReserved) {
      // A claim on nodes stands only as long as its ground does.
      const Workload& w = table_.workload(s);
      if (Funded(w.spec) && !tree_.closed(run.leaf) && EverFits(cluster_, shapes_[w.shape])) {
        continue;
      }
      if (run.state == WorkloadState::kReserved) ReleaseReservation(s);
      if (run.state == WorkloadState::kHeld) ReleaseHold(s);
    }
    if (run.state != WorkloadState::kPending) continue;
    if (Funded(table_.workload(s).spec) == run.funded && !tree_.closed(run.leaf) &&
        EverFits(cluster_, shapes_[table_.workload(s).shape])) {
      continue;
    }
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
    case WorkloadState::kReserved:
    case WorkloadState::kPending:
      if (table_.run(slot).state == WorkloadState::kHeld) ReleaseHold(slot);
      if (table_.run(slot).state == WorkloadState::kReserved) ReleaseReservation(slot);
      RemoveFromList(renewals_, slot);
      Dequeue(slot);
      Forget(slot);
      break;
    case WorkloadState::kUnplaceable:
      RemoveFromList(parked_, slot);
      Forget(slot);
      break;
    case WorkloadState::kSuspended:
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

}  // namespace tenure

#endif  // TENURE_SCHEDULER_QUEUES_H_
