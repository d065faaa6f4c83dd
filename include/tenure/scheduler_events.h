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
  const auto within = [](Duration d) { return d >= Duration(0) && d <= kMaxLookback; };
  for (Duration cap : o.contract.cap) {
    if (!within(cap)) return bad("cap is ", cap.count(), " us");
  }
  if (!within(o.grace)) return bad("grace is ", o.grace.count(), " us");
  if (!within(o.tick)) return bad("tick is ", o.tick.count(), " us");
  if (!within(o.retry) || o.retry == Duration(0)) return bad("retry is ", o.retry.count(), " us");
  if (!within(o.lane_minimum)) return bad("lane_minimum is ", o.lane_minimum.count(), " us");
  if (!within(o.idle_after)) return bad("idle_after is ", o.idle_after.count(), " us");
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
  const auto tokens = [](std::int64_t n) { return n >= 0 && n <= TokenBucket::kMaxTokens; };
  if (!tokens(o.preemption_rate)) return bad("preemption_rate is ", o.preemption_rate);
  if (!tokens(o.preemption_burst) || o.preemption_burst == 0) {
    return bad("preemption_burst is ", o.preemption_burst);
  }
  if (o.session_cap < 0 || o.session_cap > 1'000'000) {
    return bad("session_cap is ", o.session_cap);
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

template <class Policy>
absl::Status Scheduler<Policy>::CheckAfterStart(RunSlot slot, const char* what,
                                                TimePoint at) const {
  const Run& run = table_.run(slot);
  if (at >= run.start) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("run ", table_.workload(slot).run.value(), " of workload ", run.id.value(), " ",
                   what, " at ", at.time_since_epoch().count(), " us, before its start at ",
                   run.start.time_since_epoch().count(), " us"));
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
absl::Status Scheduler<Policy>::Boost(AllocationId id, Weight weight, TimePoint from,
                                      TimePoint until, std::string author, std::string reason,
                                      TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  if (absl::Status s = tree_.ScheduleBoost(id, weight, std::max(from, now), until,
                                           std::move(author), std::move(reason));
      !s.ok()) {
    return s;
  }
  Advance(now);
  dirty_ = true;
  return absl::OkStatus();
}

template <class Policy>
absl::Status Scheduler<Policy>::MoveAllocation(AllocationId id, AllocationId new_parent,
                                               TimePoint now, std::string author,
                                               std::string reason) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  const AllocationId from = tree_.contains(id) ? tree_.parent(id) : kRootAllocation;
  if (absl::Status s = tree_.Move(id, new_parent, now, std::move(author), std::move(reason));
      !s.ok()) {
    return s;
  }
  Advance(now);
  ledger_.Move(tree_, id, from);
  if (tree_.is_leaf(from)) credit_.Forgive(from);
  ranking_.Invalidate();
  Reconsider();
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
  MilliGpu weighted;
  if (!rates_.standard() && gpus >= GpuCount(1) && gpus <= GpuCount(kMaxGpusPerNode)) {
    weighted =
        WeightedDeclared(type, rates_.rate(type)) + MilliGpu(gpus.value() * rates_.rate(type));
    if (absl::Status s = CheckCountable(weighted, ledger_.unit()); !s.ok()) return s;
  }
  absl::StatusOr<NodeId> id = cluster_.AddNode(std::move(name), gpus, type, domain);
  if (!id.ok()) return id;
  Advance(now);
  peak_ = std::max(peak_, weighted);
  // Another node may make room for what was too large, and it moves the lane.
  if (table_.size() > 0) Reconsider();
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
    if (const RunSlot gang = cluster_.node(id).reserved_for; gang != kNoSlot) {
      ReleaseReservation(gang);
      renewals_.push_back(gang);
    }
  }
  if (health == NodeHealth::kDown) {
    while (!cluster_.node(id).runs.empty()) Lose(cluster_.node(id).runs.back().run, since, false);
  }
  dirty_ = true;
  return absl::OkStatus();
}

template <class Policy>
MilliGpu Scheduler<Policy>::Capacity() const {
  if (rates_.standard()) return ToMilli(cluster_.healthy());
  MilliGpu sum;
  for (const Node& n : cluster_.nodes()) {
    if (n.health == NodeHealth::kUp) sum += MilliGpu(std::int64_t{n.gpus} * rates_.rate(n.type));
  }
  return sum;
}

// All nodes, were the rate of `type` `permille`.
template <class Policy>
MilliGpu Scheduler<Policy>::WeightedDeclared(GpuTypeId type, std::int32_t permille) const {
  MilliGpu sum;
  for (const Node& n : cluster_.nodes()) {
    sum += MilliGpu(std::int64_t{n.gpus} * (n.type == type ? permille : rates_.rate(n.type)));
  }
  return sum;
}

// Whether use of a cluster of this weight, and of any there was, fits into 64 bits.
template <class Policy>
absl::Status Scheduler<Policy>::CheckCountable(MilliGpu declared, std::int64_t unit) const {
  const absl::int128 most = std::max(declared, peak_).value();
  const absl::int128 limit = absl::int128(kMaxClusterGpus) * kMaxLookback.count();
  if (most <= absl::int128(kMaxClusterGpus) * 1000 &&
      most * unit / 1000 * options_.lookback.count() <= limit) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "the cluster weighs ", static_cast<std::int64_t>(most), " thousandths of a GPU, too many to ",
      "be counted exactly in units of 1/", unit, " GPU over ", options_.lookback.count(), " us"));
}

template <class Policy>
absl::Status Scheduler<Policy>::SetChargeRate(GpuTypeId type, std::int32_t permille,
                                              TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  if (type.value() >= cluster_.gpu_types().size()) {
    return absl::NotFoundError(absl::StrCat("GPU type ", type.value(), " is unknown"));
  }
  if (permille < 1 || permille > kMaxChargeRate) {
    return absl::InvalidArgumentError(absl::StrCat("charge rate of GPU type ", type.value(), " is ",
                                                   permille, ", must be in [1, ", kMaxChargeRate,
                                                   "]"));
  }
  const std::int64_t unit =
      std::lcm(ledger_.unit(), std::int64_t{kStandardRate} / std::gcd(kStandardRate, permille));
  MilliGpu weighted = WeightedDeclared(type, permille);
  weighted = std::max(weighted, WeightedDeclared(type, rates_.rate(type)));
  if (absl::Status s = CheckCountable(weighted, unit); !s.ok()) return s;
  Advance(now);
  if (unit != ledger_.unit()) ledger_.Refine(unit);
  peak_ = std::max(peak_, weighted);
  rates_.Set(type, permille, now, now - options_.lookback);
  for (RunSlot slot = 0; slot < table_.slots(); ++slot) Rerate(slot, now);
  ranking_.Invalidate();
  dirty_ = true;
  return absl::OkStatus();
}

// Brings a workload to the rates in force from `now` on.
template <class Policy>
void Scheduler<Policy>::Rerate(RunSlot slot, TimePoint now) {
  Run& run = table_.run(slot);
  const Workload& w = table_.workload(slot);
  if (run.state == WorkloadState::kFree || run.state == WorkloadState::kUnplaceable ||
      run.state == WorkloadState::kSuspended) {
    return;
  }
  const bool waits = run.state == WorkloadState::kPending || run.state == WorkloadState::kReserved;
  const std::int32_t rate = waits ? RateOf(w.spec.gpu_type) : rates_.rate(TypeOf(w));
  if (rate == run.rate) return;
  const auto count = [&](std::int64_t sign) {
    if (waits || run.state == WorkloadState::kStopping) {
      Queue(run, sign);
    } else {
      Place(run, sign);
    }
    if (w.ahead) {
      ledger_.Commit(tree_, run.leaf, MilliGpu(sign * run.charge().value()), run.protected_until);
    }
    if (w.charged) {
      ledger_.Charge(tree_, run.leaf, now, MilliGpu(sign * run.charge().value()));
    }
  };
  if (run.funded) count(-1);
  run.rate = rate;
  if (run.funded) count(+1);
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
  if (s.funded && Reserves()) s.band = BandOf(options_.contract.Protection(spec));
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
    if (count_demand) {
      run.rate = RateOf(table_.workload(slot).spec.gpu_type);
      Queue(run, +1);
    }
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

// --- Runs ----------------------------------------------------------------------------------------

template <class Policy>
void Scheduler<Policy>::Commit(RunSlot slot, TimePoint until) {
  Run& run = table_.run(slot);
  run.protected_until = until;
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
void Scheduler<Policy>::Place(const Run& run, std::int64_t sign) {
  const MilliGpu charge(run.charge().value() * sign);
  ledger_.AddPlaced(tree_, run.leaf, GpuCount(run.gpus().value() * sign), charge);
  if (run.workload_class == WorkloadClass::kInteractive) {
    ledger_.AddSessions(tree_, run.leaf, charge);
  }
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
    Place(run, -1);
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
  Uncommit(*slot);
  run.state = WorkloadState::kRunning;
  run.start = started;
  run.progress_since = started + (run.stops > 0 ? run.restart_overhead : Duration(0));
  w.last_seen = now;
  w.charged = true;
  if (run.funded) {
    Charge(run.leaf, TypeOf(w), started, run.gpus());
    Commit(*slot, started + options_.contract.Protection(w.spec));
  } else {
    ledger_.ChargeUnfunded(tree_, run.leaf, started, run.gpus());
    run.protected_until = started;
  }
  // Only now can it be stopped.
  dirty_ = dirty_ || w.cancel_requested || draining_ > 0;
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
    refusals_.push_back(w.avoid_until);
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
  if (absl::Status s = CheckAfterStart(*slot, "stopped", stopped); !s.ok()) return s;
  Advance(now);
  const StopReason reason = table_.workload(*slot).stop_reason;
  const bool preempted = reason == StopReason::kPreempted || reason == StopReason::kPromise;
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
    Queue(run, -1);
    Place(run, +1);
  }
  run.state = WorkloadState::kRunning;
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
    inferred_.push_back(
        {run.id, w.run, run.leaf, TypeOf(w), run.gpus(), run.funded, run.start, end});
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
  Ledger ledger = LedgerAt(now_);
  Ranking ranking = ranking_;
  ranking.Refresh(tree_, ledger, Capacity(), now_, KeyFn());
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
      e.reason = dirty_ && w.queued_since >= last_pass_ ? WaitReason::kNotConsidered
                 : !run.funded                          ? WaitReason::kUnfundedWaits
                 : SessionCapReached(run.leaf, run.workload_class, run.charge(), ranking)
                     ? WaitReason::kSessionCap
                     : WaitReason::kNoCapacity;
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
  ranking.Refresh(tree_, ledger, Capacity(), now, KeyFn());
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

#endif  // TENURE_SCHEDULER_EVENTS_H_
