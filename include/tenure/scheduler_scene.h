// SPDX-License-Identifier: Apache-2.0
//
// Scheduler: what a plan search is told about a pass. Included by scheduler.h; not for direct use.
//
// Nodes in topological order, in groups of one domain; runs that somebody may stop, with what the
// policy says they cost and who may stop them; requests that could be placed at all, in the order
// the pass would serve them if all of them were.
#ifndef TENURE_SCHEDULER_SCENE_H_
#define TENURE_SCHEDULER_SCENE_H_

#include "tenure/scheduler.h"

namespace tenure {

// --- The world -----------------------------------------------------------------------------------

template <class Policy>
void Scheduler<Policy>::DescribeNodes(internal::SearchScene& scene) const {
  plan::WorldData& d = scene.data;
  scene.index.assign(cluster_.size(), 0);
  d.level_begin.assign(1, 0);
  std::vector<std::uint32_t> first_node;  // by pool
  for (std::size_t p = 0; p < cluster_.pools().size(); ++p) {
    first_node.push_back(static_cast<std::uint32_t>(scene.node.size()));
    const Node* before = nullptr;
    for (NodeId id : cluster_.pools()[p].nodes) {
      const Node& n = cluster_.node(id);
      if (before == nullptr || n.domain != before->domain || n.lane != before->lane ||
          d.gpus.size() - d.group_begin.back() == plan::kMaxGroup) {
        if (!d.gpus.empty()) d.group_begin.push_back(static_cast<std::uint32_t>(d.gpus.size()));
        d.group_pool.push_back(static_cast<std::uint16_t>(p));
        d.group_lane.push_back(n.lane);
      }
      before = &n;
      const bool usable = n.up() && n.gpus <= int{plan::kMaxGpus};
      scene.index[id.value()] = static_cast<std::uint32_t>(scene.node.size());
      scene.node.push_back(id);
      d.node_group.push_back(static_cast<std::uint32_t>(d.group_pool.size() - 1));
      d.gpus.push_back(static_cast<std::uint8_t>(usable ? n.gpus : 0));
      d.idle.push_back(static_cast<std::uint8_t>(usable ? n.gpus - n.occupied : 0));
      d.soon.push_back(static_cast<std::uint8_t>(usable ? std::max(0, n.soon()) : 0));
      d.sessions.push_back(static_cast<std::uint8_t>(std::min(255, n.sessions)));
      const bool reserved = n.reserved_for != kNoSlot;
      d.node_flags.push_back(static_cast<std::uint8_t>((n.lane ? plan::kLaneNode : 0) |
                                                       (reserved ? plan::kReservedNode : 0)));
      if (reserved) d.reserved_node.push_back(scene.index[id.value()]);
      d.admit.push_back(reserved ? internal::Minutes16((n.reserved_at - now_).count() / 60'000'000)
                                 : std::uint16_t{0xffff});
      TimePoint until = InterruptibleAt(n, table_, now_);
      for (const Occupant& h : n.holds) until = std::max(until, table_.run(h.run).protected_until);
      d.release.push_back(internal::Minutes16(internal::MinutesUp(until - now_)));
    }
  }
  d.group_begin.push_back(static_cast<std::uint32_t>(d.gpus.size()));
  for (std::uint8_t level = 0; level <= cluster_.depth(); ++level) {
    for (std::size_t p = 0; p < cluster_.pools().size(); ++p) {
      for (DomainId id : cluster_.DomainsAt(level)) {
        const auto [begin, end] = cluster_.pools()[p].range[id.value()];
        if (begin == end) continue;
        d.domain.push_back({d.node_group[first_node[p] + begin],
                            d.node_group[first_node[p] + end - 1] + 1,
                            static_cast<std::uint32_t>(p)});
      }
    }
    d.level_begin.push_back(static_cast<std::uint32_t>(d.domain.size()));
  }
}

// Who may be stopped by somebody, and what that costs.
template <class Policy>
void Scheduler<Policy>::DescribeVictims(internal::SearchScene& scene) const {
  plan::WorldData& d = scene.data;
  std::vector<AllocationId> leaves(tree_.leaves().begin(), tree_.leaves().end());
  std::sort(leaves.begin(), leaves.end(),
            [&](AllocationId a, AllocationId b) { return ranking_.Before(tree_, a, b); });
  scene.loss_class.assign(tree_.size(), 0);
  scene.account.assign(tree_.size(), plan::kNoAccount);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const std::size_t a = leaves[i].value();
    const std::size_t spread = std::max<std::size_t>(leaves.size(), plan::kUnfundedLoss);
    scene.loss_class[a] = static_cast<std::uint8_t>(i * plan::kUnfundedLoss / spread);
    if (leaves.size() >= plan::kNoAccount) continue;
    scene.account[a] = static_cast<std::uint16_t>(i);
    const std::int64_t floor = options_.ranking.fluid ? ranking_.fluid(leaves[i]).value() : 0;
    d.spare.push_back(static_cast<int>(std::clamp<std::int64_t>(
        ledger_.placed_charge(leaves[i]).value() - floor, -1'000'000'000, 1'000'000'000)));
  }
  std::vector<bool> seen(table_.slots());
  const PolicyContext context = Context();
  for (NodeId id : scene.node) {
    for (const Occupant& o : cluster_.node(id).runs) {
      if (seen[o.run]) continue;
      seen[o.run] = true;
      const Run& run = table_.run(o.run);
      if (run.state != WorkloadState::kRunning) continue;
      if (run.funded && (now_ < run.protected_until || leaves.size() >= plan::kNoAccount)) continue;
      plan::Victim v{};
      v.first = static_cast<std::uint32_t>(d.victim_node.size());
      for (NodeId n : table_.workload(o.run).nodes) {
        const std::uint32_t at = scene.index[n.value()];
        if (d.gpus[at] == 0) continue;  // not in the search
        d.victim_node.push_back({at, static_cast<std::uint32_t>(run.gpus_per_node)});
      }
      v.count = static_cast<std::uint32_t>(d.victim_node.size()) - v.first;
      if (v.count == 0) continue;
      std::sort(d.victim_node.begin() + v.first, d.victim_node.end(),
                [](const plan::Part& a, const plan::Part& b) { return a.id < b.id; });
      const std::int64_t choice = policy_.VictimCost(context, run) >> plan::kChoiceShift;
      v.choice =
          static_cast<std::uint64_t>(std::clamp<std::int64_t>(choice, 0, std::int64_t{1} << 43));
      v.lost = static_cast<std::uint32_t>(std::min<std::int64_t>(
          run.gpus().value() * internal::MinutesUp(run.LostIfStopped(now_)), 0xffffffff));
      v.charge = static_cast<std::uint32_t>(std::min<std::int64_t>(run.charge().value(), 1 << 30));
      v.funded = run.funded;
      v.account = run.funded ? scene.account[run.leaf.value()] : plan::kNoAccount;
      v.loss_class =
          run.funded ? scene.loss_class[run.leaf.value()] : std::uint8_t{plan::kUnfundedLoss};
      d.victim.push_back(v);
      scene.victim.push_back(o.run);
    }
  }
  d.ListOccupants();
}

template <class Policy>
Requester Scheduler<Policy>::RequesterFor(AllocationId leaf, const Shape& shape,
                                          MilliGpu leaf_charge) const {
  Requester r;
  r.leaf = leaf;
  r.workload_class = shape.workload_class;
  r.gpus = shape.total();
  r.charge = MilliGpu(r.gpus.value() * RateOf(shape.type));
  r.leaf_charge = leaf_charge;
  r.tier = policy_.Tier(Context(), r);
  return r;
}

// Appends a request of `shape`. False: it is not for a search.
template <class Policy>
bool Scheduler<Policy>::DescribeJob(internal::SearchScene& scene, internal::SearchKinds& kinds,
                                    const Requester& r, ShapeId id, Duration protection,
                                    std::uint16_t band) const {
  plan::WorldData& d = scene.data;
  const Shape& shape = shapes_[id];
  if (shape.gpus > int{plan::kMaxGpus}) return false;
  plan::Job q{};
  q.weight = static_cast<std::uint32_t>(r.gpus.value());
  q.charge = static_cast<std::uint32_t>(std::min<std::int64_t>(r.charge.value(), 1 << 30));
  q.nodes = static_cast<std::uint32_t>(shape.nodes);
  q.gpus = static_cast<std::uint8_t>(shape.gpus);
  q.band = band;
  q.account = scene.account[r.leaf.value()];
  q.protect = internal::Minutes16(internal::MinutesUp(protection));
  q.ends = Reserves() ? internal::Minutes16(internal::MinutesUp(BandLimit(shape.band))) : q.protect;
  if (shape.stays()) q.ends = 0xffff;
  q.pool = plan::kAnyPool;
  if (shape.type != kAnyGpuType) {
    for (std::size_t p = 0; p < cluster_.pools().size(); ++p) {
      if (cluster_.pools()[p].type == shape.type) q.pool = static_cast<std::uint16_t>(p);
    }
    if (q.pool == plan::kAnyPool) return false;
  }
  if (shape.nodes > 1) {
    const auto at = std::find(d.width_gpus.begin(), d.width_gpus.end(), q.gpus);
    if (at == d.width_gpus.end() && d.width_gpus.size() == plan::kMaxWidths) return false;
    q.width = static_cast<std::uint8_t>(at - d.width_gpus.begin());
    if (at == d.width_gpus.end()) d.width_gpus.push_back(q.gpus);
    q.level = internal::EffectiveLevel(cluster_, shape);
    if (shape.rule == TopologyRule::kRequired) q.flags |= plan::kInsideOne;
  }
  const bool debug = shape.workload_class == WorkloadClass::kDebug;
  if (shape.lane) q.flags |= plan::kMayUseLane | (debug ? plan::kLaneFirst : 0);
  if (shape.workload_class == WorkloadClass::kInteractive) q.flags |= plan::kSession;

  const bool stops_more = StopsMore<Policy>(r);
  const auto [row, new_row] =
      kinds.rows.try_emplace({r.leaf, r.tier, shape.workload_class, stops_more}, d.rows);
  if (new_row) {
    ++d.rows;
    const PolicyContext context = Context();
    for (RunSlot slot : scene.victim) {
      const Run& run = table_.run(slot);
      Victim v{run, cluster_.node(table_.workload(slot).nodes[0]).lane,
               ledger_.placed_charge(run.leaf), ledger_.sessions(run.leaf),
               ledger_.serving(run.leaf)};
      std::uint8_t right = policy_.MayPreempt(context, r, v) ? plan::kAlways : plan::kNever;
      if (right != plan::kNever && run.funded) {
        v.leaf_charge = MilliGpu(0);
        if (!policy_.MayPreempt(context, r, v)) right = plan::kWithinSpare;
      }
      d.rights.push_back(right);
    }
  }
  q.row = row->second;
  const auto [kind, new_kind] = kinds.kinds.try_emplace({id, q.row}, d.kinds);
  if (new_kind && d.kinds < plan::kMaxKinds) {
    ++d.kinds;
    kinds.list.push_back({shape, q.row, debug, stops_more});
  }
  // All that are too many share the last kind, which nothing is concluded from.
  q.kind = static_cast<std::uint16_t>(std::min(kind->second, plan::kMaxKinds - 1));
  d.job.push_back(q);
  return true;
}

// Which kinds fail where another did.
template <class Policy>
void Scheduler<Policy>::DescribeKinds(internal::SearchScene& scene,
                                      const internal::SearchKinds& kinds) const {
  plan::WorldData& d = scene.data;
  d.implies.assign(std::size_t{d.kinds} * plan::kKindWords, 0);
  const std::size_t known = std::min<std::size_t>(d.kinds, plan::kMaxKinds - 1);
  for (std::size_t k = 0; k < known; ++k) {
    for (std::size_t o = k; o < known; ++o) {
      const auto &failed = kinds.list[k], &other = kinds.list[o];
      const bool rights =
          failed.row == other.row || (Policy::kSharedFailures && !failed.debug && !other.debug &&
                                      (failed.stops_more || !other.stops_more));
      if (rights && other.shape.Dominates(failed.shape)) {
        d.implies[k * plan::kKindWords + o / 64] |= std::uint64_t{1} << (o % 64);
      }
    }
  }
}

// Requests that could be placed, in the order of service. False: there are none.
template <class Policy>
bool Scheduler<Policy>::DescribeRequests(internal::SearchScene& scene) {
  plan::WorldData& d = scene.data;
  struct Candidate {
    AllocationId leaf;
    const PendingQueue::Bucket* bucket;
    Requester requester;
  };
  std::vector<AllocationId> leaves;
  for (AllocationId leaf : tree_.leaves()) {
    if (!queues_[leaf.value()].empty()) leaves.push_back(leaf);
  }
  const auto before = [&](AllocationId a, AllocationId b) { return ranking_.Before(tree_, a, b); };
  std::sort(leaves.begin(), leaves.end(), before);
  std::vector<Candidate> candidates;
  for (AllocationId leaf : leaves) {
    const std::size_t begin = candidates.size();
    for (const PendingQueue::Bucket& bucket : queues_[leaf.value()].buckets()) {
      const Shape& shape = shapes_[bucket.shape];
      const Requester r = RequesterFor(leaf, shape, ledger_.placed_charge(leaf));
      if (ClassCapReached(leaf, shape.workload_class, r.charge, ranking_)) continue;
      if (UserCapReached(shape)) continue;
      candidates.push_back({leaf, &bucket, r});
    }
    std::sort(
        candidates.begin() + static_cast<std::ptrdiff_t>(begin), candidates.end(),
        [](const Candidate& a, const Candidate& b) { return a.bucket->first < b.bucket->first; });
  }
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const Candidate& a, const Candidate& b) { return a.requester.tier < b.requester.tier; });
  std::vector<Candidate> described;
  internal::SearchKinds kinds;
  d.bands = 1;
  for (const Candidate& c : candidates) {
    const Duration protection =
        options_.contract.Protection(table_.workload(c.bucket->first.slot).spec);
    if (DescribeJob(scene, kinds, c.requester, c.bucket->shape, protection, 0)) {
      described.push_back(c);
    }
  }
  DescribeKinds(scene, kinds);
  if (d.job.empty() || !plan::CheckWorld(d).ok()) return false;
  std::vector<std::uint8_t> possible;
  plan_search_.Probe(d, possible);
  d.job.clear();
  absl::btree_map<AllocationId, std::vector<QueueKey>> waiting;  // by leaf, in its order
  for (std::size_t i = 0; i < described.size(); ++i) {
    if (!possible[i]) continue;
    std::vector<QueueKey>& keys = waiting[described[i].leaf];
    std::size_t n = 0;
    for (const QueueKey& key : described[i].bucket->waiting) {
      if (Avoids(key.slot)) continue;
      keys.push_back(key);
      if (++n == internal::kMaxPlanJobsOfShape) break;
    }
  }
  if (waiting.empty()) return false;
  for (auto& [leaf, keys] : waiting) std::sort(keys.begin(), keys.end());

  // The order of the pass, were all of them placed: a placement moves the keys of its leaf.
  d.kinds = d.rows = d.bands = 0;
  d.rights.clear();
  d.width_gpus.clear();
  kinds = {};
  Ranking order = ranking_;
  struct Band {
    int tier = 0;
    Duration key{0};
    AllocationId leaf;
    bool ordinary = true;
    std::int32_t yield = 0;
  } band;
  std::vector<MilliGpu> charge(tree_.size());
  for (const auto& [leaf, keys] : waiting) charge[leaf.value()] = ledger_.placed_charge(leaf);
  for (int tier = 1; tier <= Policy::kTiers; ++tier) {
    std::vector<AllocationId> active;
    for (const auto& [leaf, keys] : waiting) active.push_back(leaf);
    while (!active.empty() && d.job.size() < internal::kMaxPlanJobs) {
      const auto first = std::min_element(
          active.begin(), active.end(),
          [&](AllocationId a, AllocationId b) { return order.Before(tree_, a, b); });
      const AllocationId leaf = *first;
      std::vector<QueueKey>& keys = waiting[leaf];
      Requester r;
      const auto next = std::find_if(keys.begin(), keys.end(), [&](const QueueKey& key) {
        r = RequesterFor(leaf, shapes_[table_.workload(key.slot).shape], charge[leaf.value()]);
        return tier == Policy::kTiers || r.tier == tier;
      });
      if (next == keys.end()) {
        active.erase(first);
        continue;
      }
      r.tier = tier;
      const QueueKey key = *next;
      keys.erase(next);
      const Workload& w = table_.workload(key.slot);
      const Duration protection = options_.contract.Protection(w.spec);
      const bool near =
          !ranking_.options().level_by_level &&
          internal::Difference(order.key(leaf), band.key) <= options_.search_tolerance;
      if (d.bands == 0 || options_.search_tolerance == Duration(0) || tier != band.tier ||
          (leaf != band.leaf && !near) || key.ordinary != band.ordinary ||
          (leaf == band.leaf && key.yield != band.yield)) {
        band = {tier, order.key(leaf), leaf, key.ordinary, key.yield};
        ++d.bands;
      }
      band.leaf = leaf;
      band.yield = key.yield;
      if (!DescribeJob(scene, kinds, r, w.shape, protection,
                       static_cast<std::uint16_t>(d.bands - 1))) {
        continue;
      }
      scene.job.push_back(key.slot);
      charge[leaf.value()] += r.charge;
      order.Add(tree_, leaf,
                GpuTime(internal::MulDivFloor(r.charge.value(), protection.count(), 1000)),
                KeyFn());
    }
  }
  DescribeKinds(scene, kinds);
  return !scene.job.empty();
}

}  // namespace tenure

#endif  // TENURE_SCHEDULER_SCENE_H_
