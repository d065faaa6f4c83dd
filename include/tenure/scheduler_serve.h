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

// Whether the failures of a leaf count for others.
template <class Policy>
bool Scheduler<Policy>::SharesFailures(const Shape& shape) {
  return Policy::kSharedFailures && shape.workload_class != WorkloadClass::kDebug;
}

template <class Policy>
bool Scheduler<Policy>::KnownToFail(const Requester& requester, ShapeId id) {
  const Shape& shape = shapes_[id];
  return SharesFailures(shape) ? failures_.Know(id, shape, StopsMore<Policy>(requester))
                               : failures_.KnowOf(requester.leaf, shape);
}

// Whether the survey of the round says that it would fail now.
template <class Policy>
bool Scheduler<Policy>::RuledOut(const Requester& requester, ShapeId id) {
  return search_.template RulesOut<Policy>(cluster_, requester, shapes_[id]);
}

// Keys and floors have moved. What was asked for and has failed stays so in this round.
template <class Policy>
void Scheduler<Policy>::ForgetSurvey() {
  failures_.Settle(shapes_);
  search_.BeginRound();
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
  failures_.Begin();
  search_.BeginRound();
}

template <class Policy>
void Scheduler<Policy>::ServeTier(int tier) {
  BeginRound();
  const auto waits = [&](AllocationId leaf) { return !queues_[leaf.value()].empty(); };
  for (order_.Begin(tree_, ranking_, waits); !order_.empty();) {
    const bool placed = ServeLeaf(order_.first(), tier);
    order_.Served(tree_, ranking_, placed);
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

template <class Policy>
const PendingQueue::Summary& Scheduler<Policy>::SummaryOf(PendingQueue& queue) const {
  return queue.summary([&](PendingQueue::Summary& s, std::span<const PendingQueue::Place> order) {
    for (const PendingQueue::Place& place : order) {
      const Shape& shape = shapes_[place.shape];
      const ShapeFacts& facts = shape_facts_[place.shape];
      s.capped = s.capped || facts.capped;
      if (s.fewest == GpuCount(0) || facts.gpus < s.fewest) s.fewest = facts.gpus;
      if (std::any_of(s.least.begin(), s.least.end(),
                      [&](ShapeId least) { return shape.Dominates(shapes_[least]); })) {
        continue;
      }
      std::erase_if(s.least, [&](ShapeId least) { return shapes_[least].Dominates(shape); });
      s.least.push_back(place.shape);
    }
  });
}

// False: no request of the queue is of the requester's tier, as far as one look can tell.
template <class Policy>
bool Scheduler<Policy>::MayBeOfTier(const PendingQueue::Summary& all, Requester requester) const {
  if (!Policy::kTierGrowsWithCharge || !rates_.standard()) return true;
  requester.gpus = all.fewest;
  requester.charge = ToMilli(all.fewest);
  return policy_.Tier(Context(), requester) <= requester.tier;
}

// In the last tier everything is asked for that no cap keeps back.
template <class Policy>
bool Scheduler<Policy>::AsksForAll(const PendingQueue::Summary& all, const Requester& requester) {
  return requester.tier == Policy::kTiers && !all.capped;
}

// Whether every request of the queue is known to fail. As if none had been asked for.
template <class Policy>
bool Scheduler<Policy>::NothingFits(const PendingQueue::Summary& all, const Requester& requester) {
  for (ShapeId id : all.least) {
    if (!KnownToFail(requester, id) && !(AsksForAll(all, requester) && RuledOut(requester, id))) {
      return false;
    }
  }
  return true;
}

// All of a queue of which NothingFits has been asked for.
template <class Policy>
void Scheduler<Policy>::FailAll(const PendingQueue::Summary& all, const Requester& requester) {
  if (!AsksForAll(all, requester)) return;  // they were known to fail
  for (ShapeId id : all.least) failures_.AddRuledOut(id, StopsMore<Policy>(requester));
}

// Tries requests of `leaf` until one is placed (true) or none is left for this tier (false).
template <class Policy>
bool Scheduler<Policy>::ServeLeaf(AllocationId leaf, int tier) {
  PendingQueue& queue = queues_[leaf.value()];
  Requester requester;
  requester.leaf = leaf;
  requester.tier = tier;
  requester.leaf_charge = ledger_.placed_charge(leaf);
  Credit credit;
  bool credit_known = false;
  const PendingQueue::Summary& all = SummaryOf(queue);
  if (!MayBeOfTier(all, requester)) return false;
  if (NothingFits(all, requester)) {
    credit = CreditOf(leaf);
    credit_known = true;
    if (!credit.some) {
      FailAll(all, requester);
      return false;
    }
  }
  for (std::size_t next = 0; next < queue.order().size();) {
    PendingQueue::Place& place = queue.order()[next++];
    if (place.skipped == failures_.round()) continue;
    const Shape& shape = shapes_[place.shape];
    const ShapeFacts& facts = shape_facts_[place.shape];
    requester.workload_class = shape.workload_class;
    requester.gpus = facts.gpus;
    requester.charge = MilliGpu(requester.gpus.value() * RateOf(shape.type));
    if (tier < Policy::kTiers && policy_.Tier(Context(), requester) != tier) continue;
    if (facts.capped && (ClassCapReached(leaf, shape.workload_class, requester.charge, ranking_) ||
                         UserCapReached(shape))) {
      continue;
    }
    const PendingQueue::Bucket& bucket = queue.bucket(place);
    if (KnownToFail(requester, place.shape)) {
      // not asked for again
    } else if (RuledOut(requester, place.shape)) {
      failures_.AddRuledOut(place.shape, StopsMore<Policy>(requester));
    } else {
      for (const QueueKey& key : bucket.waiting) {
        const bool avoids = Avoids(key.slot);
        if (TryPlace(key.slot, place.shape, requester)) {
          ranking_.Recharge(tree_, ledger_, leaf, now_, KeyFn());
          ForgetSurvey();
          return true;
        }
        if (!avoids) break;  // one that avoids a node says nothing about the others
      }
    }
    place.skipped = failures_.round();
    if (!facts.reserves) continue;
    if (!credit_known) credit = CreditOf(leaf);
    credit_known = true;
    if (!credit.some) continue;
    if (const RunSlot slot = FirstWith(credit, bucket); slot != kNoSlot && Reserve(slot)) {
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
bool Scheduler<Policy>::TryPlace(RunSlot slot, ShapeId id, const Requester& requester) {
  const Shape& shape = shapes_[id];
  if (PlaceOnFree(slot, shape) || PlaceByStopping(slot, shape, requester)) return true;
  if (Avoids(slot)) return false;
  if (SharesFailures(shape)) {
    failures_.Add(id, shape, StopsMore<Policy>(requester));
  } else {
    failures_.AddOf(requester.leaf, shape);
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
  while (cluster_.free() > GpuCount(0)) {
    // The largest shape first; equal sizes in queue order.
    PendingQueue::Place* best = nullptr;
    GpuCount most;
    for (PendingQueue::Place& place : unfunded_.order()) {
      if (place.skipped == failures_.round()) continue;
      const Shape& shape = shapes_[place.shape];
      if (shape.total() > cluster_.free() || failures_.Know(place.shape, shape, false)) {
        place.skipped = failures_.round();
      } else if (shape.total() > most) {
        best = &place;
        most = shape.total();
      }
    }
    if (best == nullptr) return;
    const Shape shape = shapes_[best->shape];
    bool placed = false, avoids = true;
    for (const QueueKey& key : unfunded_.bucket(*best).waiting) {
      avoids = Avoids(key.slot);
      placed = PlaceOnFree(key.slot, shape);
      if (placed || !avoids) break;
    }
    if (placed) continue;
    best->skipped = failures_.round();
    if (!avoids) failures_.Add(best->shape, shape, false);
  }
}

}  // namespace tenure

#endif  // TENURE_SCHEDULER_SERVE_H_
