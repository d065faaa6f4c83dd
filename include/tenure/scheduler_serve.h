// SPDX-License-Identifier: Apache-2.0
//
// Scheduler: whose request a pass places next, and where. Included by scheduler.h; not for direct
// use.
#ifndef TENURE_SCHEDULER_SERVE_H_
#define TENURE_SCHEDULER_SERVE_H_

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
  const bool serving = workload_class == WorkloadClass::kServing;
  const MilliGpu placed = serving                                         ? ledger_.serving(leaf)
                          : workload_class == WorkloadClass::kInteractive ? ledger_.sessions(leaf)
                                                                          : ledger_.debug(leaf);
  return placed > MilliGpu(0) &&
         (placed + charge).value() * 1000 > ranking.entitlement(leaf).value() * cap &&
         (serving || ranking.natural(leaf) < ranking.demand(leaf));
}

// Whether the user of such a request has too much of its class to have this, too.
template <class Policy>
bool Scheduler<Policy>::UserCapReached(const Shape& shape) const {
  if (shape.user == kNoUser) return false;
  const auto it = user_gpus_.find({shape.user, shape.workload_class});
  return it != user_gpus_.end() &&
         it->second + shape.total() > options_.contract.UserGpus(shape.workload_class);
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
    if (UserCapReached(shape)) continue;
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

}  // namespace tenure

#endif  // TENURE_SCHEDULER_SERVE_H_
