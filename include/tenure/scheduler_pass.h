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

namespace internal {

template <class Policy>
struct PolicyScore {
  static constexpr bool kNone = false;
  const Policy& policy;
  const Shape& shape;
  std::int64_t operator()(const Node& n) const { return policy.NodeScore(n, shape); }
};

}  // namespace internal

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
  if (waiting_funded_ > 0 || Reserves()) {
    ranking_.Refresh(tree_, ledger_, Capacity(), now_, KeyFn());
  }
  if (Reserves()) {
    credit_.Set(now_, ranking_.naturals());
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
  std::vector<MilliGpu> entitlements;
  tree_.Entitlements(Capacity(), entitlements);
  AllocationId leaf = kRootAllocation;
  std::int64_t kept = 0;  // charge of those of `leaf` that stay
  for (RunSlot slot : idle) {
    const Run& run = table_.run(slot);
    if (run.leaf != leaf) kept = 0;
    leaf = run.leaf;
    kept += run.charge().value();
    if (!run.resumable || kept * 1000 <= entitlements[leaf.value()].value() * options_.idle_cap) {
      continue;
    }
    kept -= run.charge().value();
    StopRun(slot, StopReason::kIdle, WorkloadId(0));
    look_again_ = true;  // a hold may wait for its GPUs, and others take what that had claimed
  }
}

// --- Holds ---------------------------------------------------------------------------------------

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
    const TimePoint ends = shapes_[w.shape].EndsBy(now_);
    if (std::any_of(w.nodes.begin(), w.nodes.end(),
                    [&](NodeId id) { return !cluster_.node(id).Admits(ends); })) {
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
  const Run& run = table_.run(slot);
  Workload& w = table_.workload(slot);
  for (NodeId n : w.nodes) cluster_.Unclaim(n, slot, run.gpus_per_node);
  w.nodes.clear();
  RemoveFromList(holds_, slot);
  Uncommit(slot);
  Place(run, -1);
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
  Place(run, +1);
  Commit(slot, now_ + options_.contract.Protection(w.spec));
  decisions_.holds.push_back({run.id, Record(w), GpuCount(run.gpus_per_node), w.deadline});
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
    Place(run, +1);
    Commit(slot, now_ + options_.contract.Protection(w.spec));
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
    Place(run, -1);
    Queue(run, +1);
    // One that waits for the cap of its class may start elsewhere; a leaf that has nothing left may
    // stop more.
    if (ClassCap(run.workload_class) > 0 ||
        (Policy::kFirstStopsMore && ledger_.placed_charge(run.leaf) == MilliGpu(0))) {
      look_again_ = true;
    }
  }
}

// --- Serving -------------------------------------------------------------------------------------

template <class Policy>
bool Scheduler<Policy>::KnownToFail(const Requester& requester, ShapeId id) {
  const Shape& shape = shapes_[id];
  Verdict& verdict = verdicts_[id];
  if (verdict.round != round_) verdict = {.round = round_};
  for (std::size_t of = StopsMore<Policy>(requester); of < failures_.size(); ++of) {
    std::size_t& compared = verdict.compared[of];
    for (; !verdict.fails[of] && compared < failures_[of].size(); ++compared) {
      verdict.fails[of] = shape.Dominates(failures_[of][compared]);
    }
    if (verdict.fails[of]) return true;
  }
  return std::any_of(leaf_failures_.begin(), leaf_failures_.end(), [&](const LeafFailure& f) {
    return f.leaf == requester.leaf && shape.Dominates(f.shape);
  });
}

template <class Policy>
void Scheduler<Policy>::Serve() {
  if (waiting_funded_ > 0) {
    for (int tier = 1; tier <= Policy::kTiers; ++tier) ServeTier(tier);
  }
  FillUnfunded();
}

template <class Policy>
void Scheduler<Policy>::BeginRound() {
  ++round_;
  for (std::vector<Shape>& failures : failures_) failures.clear();
  leaf_failures_.clear();
  if (verdicts_.size() < shapes_.size()) verdicts_.resize(shapes_.size());
  search_.BeginRound();
}

template <class Policy>
void Scheduler<Policy>::ServeTier(int tier) {
  BeginRound();
  active_.clear();
  for (AllocationId leaf : tree_.leaves()) {
    if (!queues_[leaf.value()].empty()) active_.push_back(leaf);
  }
  const auto before = [&](AllocationId a, AllocationId b) { return ranking_.Before(tree_, a, b); };
  if (ranking_.options().level_by_level) {
    // A start moves the keys of all ancestors, so every choice looks at all leaves.
    while (!active_.empty()) {
      const auto first = std::min_element(active_.begin(), active_.end(), before);
      if (!ServeLeaf(*first, tier)) active_.erase(first);
    }
    return;
  }
  // Most leaves are asked once and place nothing: those that do go on in a heap.
  std::sort(active_.begin(), active_.end(), before);
  const auto after = [&](AllocationId a, AllocationId b) { return before(b, a); };
  again_.clear();
  for (std::size_t next = 0; next < active_.size() || !again_.empty();) {
    AllocationId leaf;
    if (!again_.empty() && (next == active_.size() || before(again_.front(), active_[next]))) {
      std::pop_heap(again_.begin(), again_.end(), after);
      leaf = again_.back();
      again_.pop_back();
    } else {
      leaf = active_[next++];
    }
    if (!ServeLeaf(leaf, tier)) continue;
    again_.push_back(leaf);  // with its new key
    std::push_heap(again_.begin(), again_.end(), after);
  }
}

template <class Policy>
bool Scheduler<Policy>::ClassCapReached(AllocationId leaf, WorkloadClass workload_class,
                                        MilliGpu charge, const Ranking& ranking) const {
  const std::int64_t cap = ClassCap(workload_class);
  if (cap == 0) return false;
  const bool session = workload_class == WorkloadClass::kInteractive;
  const MilliGpu placed = session ? ledger_.sessions(leaf) : ledger_.debug(leaf);
  return placed > MilliGpu(0) &&
         (placed + charge).value() * 1000 > ranking.entitlement(leaf).value() * cap &&
         ranking.natural(leaf) < ranking.demand(leaf);
}

// Tries requests of `leaf` until one is placed (true) or none is left for this tier (false).
template <class Policy>
bool Scheduler<Policy>::ServeLeaf(AllocationId leaf, int tier) {
  PendingQueue& queue = queues_[leaf.value()];
  Requester requester;
  requester.leaf = leaf;
  requester.tier = tier;
  requester.leaf_charge = ledger_.placed_charge(leaf);
  bool credit_known = false, credit = false;  // whether any request may have a reservation
  for (std::size_t next = 0; next < queue.buckets().size();) {
    PendingQueue::Bucket& bucket = queue.InOrder(next++);
    if (bucket.skipped == round_) continue;
    const Shape& shape = shapes_[bucket.shape];
    requester.workload_class = shape.workload_class;
    requester.gpus = shape.total();
    requester.charge = MilliGpu(requester.gpus.value() * RateOf(shape.type));
    if (tier < Policy::kTiers && policy_.Tier(Context(), requester) != tier) continue;
    if (ClassCapReached(leaf, shape.workload_class, requester.charge, ranking_)) continue;
    if (!KnownToFail(requester, bucket.shape)) {
      for (const QueueKey& key : bucket.waiting) {
        const bool avoids = Avoids(key.slot);
        if (TryPlace(key.slot, shape, requester)) {
          ranking_.Recharge(tree_, ledger_, leaf, now_, KeyFn());
          search_.BeginRound();  // keys and floors have moved
          return true;
        }
        if (!avoids) break;  // one that avoids a node says nothing about the others
      }
    }
    bucket.skipped = round_;
    if (!Reserves() || !MayReserve(shape)) continue;
    if (!credit_known) credit = HasSomeCredit(leaf);
    credit_known = true;
    if (!credit) continue;
    if (const RunSlot slot = FirstWithCredit(bucket); slot != kNoSlot && Reserve(slot)) {
      next = 0;  // the queue has changed, and what the leaf has placed and used may have
      requester.leaf_charge = ledger_.placed_charge(leaf);
      credit_known = false;
    }
  }
  return false;
}

// Where free GPUs hold it now, in scratch_nodes_.
template <class Policy>
bool Scheduler<Policy>::FindFree(RunSlot slot, const Shape& shape) {
  const NodeId avoid = Avoided(slot);
  scratch_nodes_.clear();
  if constexpr (Policy::kUsesNodeScore) {
    const internal::PolicyScore<Policy> score{policy_, shape};
    return PlaceFree(cluster_, shape, score, avoid, scratch_nodes_, now_);
  } else {
    return PlaceFree(cluster_, shape, NoNodeScore{}, avoid, scratch_nodes_, now_);
  }
}

template <class Policy>
bool Scheduler<Policy>::PlaceOnFree(RunSlot slot, const Shape& shape) {
  if (!FindFree(slot, shape)) return false;
  StartOn(slot, scratch_nodes_);
  return true;
}

template <class Policy>
bool Scheduler<Policy>::TryPlace(RunSlot slot, const Shape& shape, const Requester& requester) {
  if (!search_.template RulesOut<Policy>(cluster_, requester, shape) &&
      (PlaceOnFree(slot, shape) || PlaceByStopping(slot, shape, requester))) {
    return true;
  }
  if (Avoids(slot)) return false;
  if (Policy::kSharedFailures && shape.workload_class != WorkloadClass::kDebug) {
    failures_[StopsMore<Policy>(requester)].push_back(shape);
  } else {
    leaf_failures_.push_back({requester.leaf, shape});
  }
  return false;
}

template <class Policy>
bool Scheduler<Policy>::PlaceByStopping(RunSlot slot, const Shape& shape,
                                        const Requester& requester) {
  const PolicyContext context = Context();
  const std::int64_t allowed = preemptions_.Available(now_);
  const VictimEnv env{cluster_,    table_,
                      ledger_,     stoppable_,
                      context,     options_.grace + options_.tick,
                      allowed > 0, options_.preemption_rate == 0};
  if (!search_.Find(env, policy_, requester, shape, Avoided(slot), plan_) ||
      FundedVictims(plan_) > allowed) {
    return false;
  }
  const auto free_now = [&](NodeId n) { return cluster_.node(n).free() >= shape.gpus; };
  if (plan_.victims.empty() && std::all_of(plan_.nodes.begin(), plan_.nodes.end(), free_now)) {
    StartOn(slot, plan_.nodes);  // on nodes that are promised to a later start
    return true;
  }
  preemptions_.Take(now_, FundedVictims(plan_));
  HoldFor(slot, plan_);
  for (RunSlot v : plan_.victims) {
    StopRun(v, StopReason::kPreempted, table_.run(slot).id);
  }
  return true;
}

template <class Policy>
void Scheduler<Policy>::FillUnfunded() {
  if (unfunded_.empty() || cluster_.free() == GpuCount(0)) return;
  BeginRound();
  const Requester anybody{};
  while (cluster_.free() > GpuCount(0)) {
    // The largest shape first; equal sizes in queue order.
    PendingQueue::Bucket* best = nullptr;
    for (PendingQueue::Bucket& b : unfunded_.buckets()) {
      if (b.skipped == round_) continue;
      const GpuCount size = shapes_[b.shape].total();
      if (size > cluster_.free() || KnownToFail(anybody, b.shape)) {
        b.skipped = round_;
        continue;
      }
      if (best == nullptr || size > shapes_[best->shape].total() ||
          (size == shapes_[best->shape].total() && b.first < best->first)) {
        best = &b;
      }
    }
    if (best == nullptr) return;
    const Shape shape = shapes_[best->shape];
    bool placed = false, avoids = true;
    for (const QueueKey& key : best->waiting) {
      avoids = Avoids(key.slot);
      placed = PlaceOnFree(key.slot, shape);
      if (placed || !avoids) break;
    }
    if (placed) continue;
    best->skipped = round_;
    if (!avoids) failures_.back().push_back(shape);
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
