// SPDX-License-Identifier: Apache-2.0
//
// Scheduler: plan search in a pass. Included by scheduler.h; not for direct use.
//
//   1. The requests that could be placed at all, in the order the pass would serve them if all of
//      them were, in bands of requests that rank within `search_tolerance` of each other.
//   2. plan::PlanSearch tries plans for them (plan_search.h).
//   3. If one seems better, it is carried out on a copy of the scheduler, request by request, each
//      checked against cluster, contract and policy as they are then; the pass goes on from there.
//   4. The ordinary pass runs too. The plan is taken only if, by the decisions of both, no band has
//      more GPUs waiting, no prefix of the ranking loses more work, no more sessions are stopped,
//      no promise is later and the price is lower.
//
// So with a search a pass is never worse than without, whatever a back end answers.
#ifndef TENURE_SCHEDULER_SEARCH_H_
#define TENURE_SCHEDULER_SEARCH_H_

#include "tenure/scheduler.h"

namespace tenure {

// --- Carrying a plan out -------------------------------------------------------------------------

// Checks one placement against everything as it is now and carries it out. False: not allowed, and
// nothing was changed.
template <class Policy>
bool Scheduler<Policy>::CarryOut(const internal::SearchScene& scene, const plan::Placement& p) {
  const RunSlot slot = scene.job[p.job];
  const Run& run = table_.run(slot);
  const Workload& w = table_.workload(slot);
  const Shape shape = shapes_[w.shape];
  const AllocationId leaf = run.leaf;
  if (run.state != WorkloadState::kPending || !run.funded || Avoids(slot)) return false;
  const Requester r = RequesterFor(leaf, shape, ledger_.placed_charge(leaf));
  if (ClassCapReached(leaf, shape.workload_class, r.charge, ranking_)) return false;
  if (UserCapReached(shape)) return false;
  Plan plan;
  for (plan::u32 n : p.nodes) plan.nodes.push_back(scene.node[n]);
  for (plan::u32 v : p.victims) plan.victims.push_back(scene.victim[v]);
  if (p.start && !plan.victims.empty()) return false;

  const TimePoint ends = shape.EndsBy(p.start ? now_ : now_ + options_.grace + options_.tick);
  if (plan.nodes.size() != static_cast<std::size_t>(shape.nodes)) return false;
  std::vector<NodeId> sorted = plan.nodes;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return false;
  const GpuTypeId type = cluster_.node(plan.nodes[0]).type;
  const auto domain = [&](NodeId id) {  // of the level the gang must stay inside
    DomainId at = cluster_.node(id).domain;
    const std::uint8_t level = internal::EffectiveLevel(cluster_, shape);
    while (cluster_.level(at) > level) at = cluster_.parent(at);
    return cluster_.level(at) == level ? at : kRootDomain;
  };
  for (NodeId id : plan.nodes) {
    const Node& n = cluster_.node(id);
    if (!n.up() || (n.lane && !shape.lane) || !n.Admits(ends, shape.stays()) || n.type != type ||
        (shape.type != kAnyGpuType && shape.type != type)) {
      return false;
    }
    if (shape.nodes > 1 && shape.rule == TopologyRule::kRequired && cluster_.depth() > 0 &&
        shape.level > 0 && (domain(id) != domain(plan.nodes[0]) || domain(id) == kRootDomain)) {
      return false;
    }
    if (p.start && n.free() < shape.gpus) return false;
  }
  if (p.start) {
    StartOn(slot, plan.nodes);
  } else {
    if (!MayStopAll(r, shape, plan)) return false;
    preemptions_.Take(now_, FundedVictims(plan));
    HoldFor(slot, plan);
    for (RunSlot v : plan.victims) StopRun(v, StopReason::kPreempted, table_.run(slot).id);
  }
  ranking_.Recharge(tree_, ledger_, leaf, now_, KeyFn());
  ForgetSurvey();
  return true;
}

// Whether `r` may stop all victims of the plan, whether they suffice, and whether each is needed.
template <class Policy>
bool Scheduler<Policy>::MayStopAll(const Requester& r, const Shape& shape, const Plan& plan) const {
  if (FundedVictims(plan) > preemptions_.Available(now_)) return false;
  const PolicyContext context = Context();
  std::vector<MilliGpu> taken(tree_.size());
  const auto may = [&](RunSlot slot, bool at_floor) {
    const Run& run = table_.run(slot);
    const MilliGpu left =
        at_floor ? MilliGpu(0) : ledger_.placed_charge(run.leaf) - taken[run.leaf.value()];
    return policy_.MayPreempt(context, r,
                              Victim{run, cluster_.node(table_.workload(slot).nodes[0]).lane, left,
                                     ledger_.sessions(run.leaf), ledger_.serving(run.leaf)});
  };
  // Those that a floor protects come first: a floor counts what was taken before.
  for (const bool unconditional : {false, true}) {
    for (RunSlot slot : plan.victims) {
      const Run& run = table_.run(slot);
      if (may(slot, true) != unconditional) continue;
      if (run.state != WorkloadState::kRunning || (run.funded && now_ < run.protected_until) ||
          !may(slot, false)) {
        return false;
      }
      if (run.funded) taken[run.leaf.value()] += run.charge();
    }
  }
  const auto lacks = [&](RunSlot spared) {  // some node without `spared`
    return std::any_of(plan.nodes.begin(), plan.nodes.end(), [&](NodeId id) {
      std::int32_t available = cluster_.node(id).soon();
      for (const Occupant& o : cluster_.node(id).runs) {
        const bool stops = o.run != spared && std::find(plan.victims.begin(), plan.victims.end(),
                                                        o.run) != plan.victims.end();
        available += stops ? o.gpus : 0;
      }
      return available < shape.gpus;
    });
  };
  return !lacks(kNoSlot) && std::all_of(plan.victims.begin(), plan.victims.end(), lacks);
}

// --- Which pass is better ------------------------------------------------------------------------

template <class Policy>
internal::PassScore Scheduler<Policy>::Score(const internal::SearchScene& scene) const {
  const plan::WorldData& d = scene.data;
  internal::PassScore score;
  score.waiting.assign(d.bands, 0);
  score.lost.assign(plan::kUnfundedLoss, 0);
  std::uint64_t waiting = 0, lost = 0, delay = 0, fragments = 0, spans = 0;
  for (std::size_t j = 0; j < scene.job.size(); ++j) {
    const WorkloadState state = table_.run(scene.job[j]).state;
    if (state == WorkloadState::kStarting || state == WorkloadState::kHeld) continue;
    score.waiting[d.job[j].band] += d.job[j].weight;
    waiting += d.job[j].weight;
  }
  for (std::size_t i = scene.stops; i < decisions_.stops.size(); ++i) {
    const Stop& stop = decisions_.stops[i];
    const Run& run = table_.run(table_.Find(stop.workload));
    const auto minutes = static_cast<std::uint64_t>(stop.lost_work.value() / 60'000'000);
    lost += minutes;
    if (!run.funded) continue;
    score.lost[scene.loss_class[run.leaf.value()]] += minutes;
    score.sessions += run.workload_class == WorkloadClass::kInteractive && !run.idle;
  }
  std::vector<std::uint16_t> release = d.release;
  const auto place = [&](WorkloadId id, std::span<const NodeId> nodes) {
    const RunSlot slot = table_.Find(id);
    const Run& run = table_.run(slot);
    if (!run.funded) return;
    const Workload& w = table_.workload(slot);
    const std::uint16_t protect =
        internal::Minutes16(internal::MinutesUp(options_.contract.Protection(w.spec)));
    std::vector<DomainId> domains;
    for (NodeId n : nodes) {
      const std::uint32_t at = scene.index[n.value()];
      if (protect > release[at]) delay += std::uint64_t{d.gpus[at]} * (protect - release[at]);
      release[at] = std::max(release[at], protect);
      DomainId domain = cluster_.node(n).domain;
      while (cluster_.level(domain) > shapes_[w.shape].level) domain = cluster_.parent(domain);
      if (std::find(domains.begin(), domains.end(), domain) == domains.end()) {
        domains.push_back(domain);
      }
    }
    spans += domains.size() - 1;
  };
  for (std::size_t i = scene.starts; i < decisions_.starts.size(); ++i) {
    place(decisions_.starts[i].workload, decisions_.Nodes(decisions_.starts[i]));
  }
  for (std::size_t i = scene.holds; i < decisions_.holds.size(); ++i) {
    place(decisions_.holds[i].workload, decisions_.Nodes(decisions_.holds[i]));
  }
  for (NodeId id : scene.node) {
    const Node& n = cluster_.node(id);
    if (n.lane || !n.up() || n.occupied == 0) continue;
    fragments += static_cast<std::uint64_t>(std::max(0, n.free()));
  }
  score.price = waiting * d.prices.wait + lost + (delay >> d.prices.drain_shift) +
                fragments * d.prices.fragment + spans * d.prices.span;
  return score;
}

// Whether the pass of `other`, from the same state, is better than this one for somebody and worse
// for nobody whom rank protects.
template <class Policy>
bool Scheduler<Policy>::IsBeatenBy(const Scheduler& other,
                                   const internal::SearchScene& scene) const {
  const internal::PassScore mine = Score(scene), theirs = other.Score(scene);
  if (theirs.price >= mine.price || theirs.sessions > mine.sessions) return false;
  for (std::size_t b = 0; b < mine.waiting.size(); ++b) {
    if (theirs.waiting[b] > mine.waiting[b]) return false;
  }
  std::uint64_t here = 0, there = 0;
  for (std::size_t c = 0; c < mine.lost.size(); ++c) {
    if ((there += theirs.lost[c]) > (here += mine.lost[c])) return false;
  }
  // What the search did not know of: whoever is placed or promised here is there, too.
  const auto placed = [&](WorkloadId id) {
    const WorkloadState state = other.table_.run(other.table_.Find(id)).state;
    return state == WorkloadState::kStarting || state == WorkloadState::kHeld;
  };
  std::vector<RunSlot> known = scene.job;
  std::sort(known.begin(), known.end());
  const auto displaced = [&](WorkloadId id) {
    const RunSlot slot = table_.Find(id);
    return table_.run(slot).funded && !std::binary_search(known.begin(), known.end(), slot) &&
           !placed(id);
  };
  for (std::size_t i = scene.starts; i < decisions_.starts.size(); ++i) {
    if (displaced(decisions_.starts[i].workload)) return false;
  }
  for (std::size_t i = scene.holds; i < decisions_.holds.size(); ++i) {
    if (displaced(decisions_.holds[i].workload)) return false;
  }
  for (std::size_t i = scene.promises; i < decisions_.promises.size(); ++i) {
    const Promise& promise = decisions_.promises[i];
    const RunSlot slot = other.table_.Find(promise.workload);
    const bool promised = other.table_.run(slot).state == WorkloadState::kReserved &&
                          other.table_.workload(slot).promised <= promise.start_by;
    if (!promised && !placed(promise.workload)) return false;
  }
  return true;
}

// Of requests of a leaf that are alike the first in line get the places, whatever order the plan
// tried them in: they are jobs of the same kind, in the order of the queue.
template <class Policy>
void Scheduler<Policy>::FirstComeFirst(const internal::SearchScene& scene,
                                       std::vector<plan::Placement>& places) const {
  using Line = std::pair<AllocationId, ShapeId>;
  const auto line_of = [&](plan::u32 job) {
    return Line(table_.run(scene.job[job]).leaf, table_.workload(scene.job[job]).shape);
  };
  absl::btree_map<Line, std::vector<plan::u32>> lines;  // the next at the end
  for (auto job = static_cast<plan::u32>(scene.job.size()); job-- > 0;) {
    lines[line_of(job)].push_back(job);
  }
  for (plan::Placement& p : places) {
    std::vector<plan::u32>& line = lines[line_of(p.job)];
    p.job = line.back();
    line.pop_back();
  }
}

template <class Policy>
void Scheduler<Policy>::SearchAndServe() {
  internal::SearchScene scene;
  scene.starts = decisions_.starts.size();
  scene.stops = decisions_.stops.size();
  scene.holds = decisions_.holds.size();
  scene.promises = decisions_.promises.size();
  DescribeNodes(scene);
  DescribeVictims(scene);
  const std::int64_t stops = preemptions_.Available(now_);
  scene.data.stops = static_cast<std::uint32_t>(std::clamp<std::int64_t>(stops, 0, 0xffffffff));
  scene.data.protect_wait =
      static_cast<std::uint32_t>(internal::MinutesUp(options_.grace + options_.tick));
  SearchRecord record;
  record.seed = options_.search.seed;
  if (!DescribeRequests(scene)) {
    Serve();
    decisions_.search = record;
    return;
  }
  absl::StatusOr<plan::Result> found = plan_search_.Run(scene.data);
  if (!found.ok()) {
    Serve();
    record.outcome = SearchOutcome::kFailed;
    record.faults = plan_search_.faults();
    decisions_.search = record;
    return;
  }
  record.faults = plan_search_.faults();
  record.trials = found->trials;
  record.backend = found->backend;
  record.winner = found->winner;
  record.price_before = found->price_zero;
  record.price = found->price;
  record.outcome = SearchOutcome::kNoGain;
  if (found->winner == 0) {
    Serve();
  } else {
    Scheduler planned = *this;
    bool allowed = true;
    FirstComeFirst(scene, found->plan);
    for (const plan::Placement& p : found->plan) allowed = allowed && planned.CarryOut(scene, p);
    if (allowed) planned.Serve();
    Serve();
    if (allowed && IsBeatenBy(planned, scene)) {
      *this = std::move(planned);
      record.outcome = SearchOutcome::kTaken;
    } else {
      record.outcome = SearchOutcome::kRefused;
    }
  }
  decisions_.search = record;
}

}  // namespace tenure

#endif  // TENURE_SCHEDULER_SEARCH_H_
