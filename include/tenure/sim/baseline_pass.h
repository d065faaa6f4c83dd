// SPDX-License-Identifier: Apache-2.0
//
// BaselineEngine: one pass, from stops and holds to the order of the queue.
// Included by baselines.h; not for direct use.
#ifndef TENURE_SIM_BASELINE_PASS_H_
#define TENURE_SIM_BASELINE_PASS_H_

#include "tenure/sim/baselines.h"

namespace tenure::sim {

inline absl::StatusOr<const Decisions*> BaselineEngine::Decide(TimePoint now) {
  if (absl::Status s = CheckTime(now); !s.ok()) return s;
  decisions_.Clear();
  dirty_ = false;
  if (tree_.next_edit() <= now && tree_.ApplyEdits(now)) {
    tree_.Entitlements(ToMilli(cluster_.healthy()), entitlements_);
  }
  StopCancelled();
  if (draining_ > 0) StopOnDrainingNodes();
  StartHeld();
  Pass();
  return &decisions_;
}

inline NodeList BaselineEngine::AppendNodes(const absl::InlinedVector<NodeId, 1>& nodes) {
  const NodeList list{static_cast<std::uint32_t>(decisions_.node_pool.size()),
                      static_cast<std::uint32_t>(nodes.size())};
  decisions_.node_pool.insert(decisions_.node_pool.end(), nodes.begin(), nodes.end());
  return list;
}

inline void BaselineEngine::Stop(RunSlot slot, StopReason reason, WorkloadId beneficiary) {
  Record& r = records_[slot];
  for (NodeId n : r.nodes) cluster_.MarkStopping(n, r.per_node());
  if (Stoppable(r)) stoppable_ -= r.spec.gpus();
  CountStoppable(r, -1);
  r.state = State::kStopping;
  decisions_.stops.push_back({.workload = r.spec.id,
                              .run = r.run,
                              .reason = reason,
                              .beneficiary = beneficiary,
                              .grace = options_.grace,
                              .lost_work = r.spec.gpus() * (now_ - r.start)});
}

inline void BaselineEngine::StopCancelled() {
  for (RunSlot slot : to_cancel_) {
    const State state = records_[slot].state;
    if (state == State::kStarting || state == State::kRunning) {
      Stop(slot, StopReason::kCancelled, WorkloadId());
    }
  }
  to_cancel_.clear();
}

inline void BaselineEngine::StopOnDrainingNodes() {
  for (const Pool& pool : cluster_.pools()) {
    for (NodeId n : pool.nodes) {
      const Node& node = cluster_.node(n);
      if (node.health != NodeHealth::kDraining) continue;
      for (const Occupant& o : node.runs) {
        const Record& r = records_[o.run];
        if (r.state == State::kRunning && Stoppable(r)) {
          Stop(o.run, StopReason::kDrain, WorkloadId());
        }
      }
    }
  }
}

inline void BaselineEngine::Start(RunSlot slot, const std::vector<NodeId>& nodes) {
  Record& r = records_[slot];
  r.nodes.assign(nodes.begin(), nodes.end());
  for (NodeId n : r.nodes) cluster_.Occupy(n, slot, r.per_node(), false);
  r.state = State::kStarting;
  r.run = RunNumber(r.run.value() + 1);
  r.start = now_;
  r.expected_end = ExpectedEnd(r);
  decisions_.starts.push_back({.workload = r.spec.id,
                               .run = r.run,
                               .nodes = AppendNodes(r.nodes),
                               .gpus_per_node = r.spec.gpus_per_node});
}

inline void BaselineEngine::Hold(RunSlot slot, const std::vector<NodeId>& nodes,
                                 const std::vector<RunSlot>& victims) {
  Record& r = records_[slot];
  r.nodes.assign(nodes.begin(), nodes.end());
  for (NodeId n : r.nodes) cluster_.Claim(n, slot, r.per_node());
  r.state = State::kHeld;
  held_.push_back(slot);
  decisions_.holds.push_back({.workload = r.spec.id,
                              .nodes = AppendNodes(r.nodes),
                              .gpus_per_node = r.spec.gpus_per_node,
                              .expires = kNever});
  for (RunSlot v : victims) Stop(v, StopReason::kPreempted, r.spec.id);
}

// Starts what was held and whose GPUs are free now.
inline void BaselineEngine::StartHeld() {
  std::erase_if(held_, [&](RunSlot slot) {
    Record& r = records_[slot];
    const bool ready = std::all_of(r.nodes.begin(), r.nodes.end(), [&](NodeId n) {
      const Node& node = cluster_.node(n);
      return node.occupied + r.per_node() <= node.gpus;
    });
    if (!ready) return false;
    for (NodeId n : r.nodes) cluster_.Unclaim(n, slot, r.per_node());
    nodes_.assign(r.nodes.begin(), r.nodes.end());
    Start(slot, nodes_);
    return true;
  });
}

inline bool BaselineEngine::Failed(const Shape& shape, Reach reach) const {
  const std::vector<Shape>& failed = failed_[reach.index()];
  return std::any_of(failed.begin(), failed.end(),
                     [&](const Shape& f) { return shape.Dominates(f); });
}

inline void BaselineEngine::NoteFailure(const Shape& shape, Reach reach) {
  for (bool stops : {false, true}) {
    for (bool everywhere : {false, true}) {
      const Reach less{stops, everywhere};
      if ((stops && !reach.stops) || (everywhere && !reach.everywhere)) continue;
      std::vector<Shape>& failed = failed_[less.index()];
      std::erase_if(failed, [&](const Shape& f) { return f.Dominates(shape); });
      failed.push_back(shape);
    }
  }
}

// Ranks the leaves with waiting funded work: depth first, at each node the child with the least
// usage per weight first.
inline void BaselineEngine::RankLeaves() {
  struct Child {
    AllocationId id;
    std::int64_t use, units;
    std::uint32_t order;
  };
  std::vector<Child> children;
  std::vector<AllocationId> stack = {kRootAllocation};
  std::uint32_t next = 0;
  while (!stack.empty()) {
    const AllocationId node = stack.back();
    stack.pop_back();
    if (tree_.is_leaf(node)) {
      rank_[node.value()] = next++;
      continue;
    }
    children.clear();
    for (AllocationId c : tree_.children(node)) {
      if (waiting_[c.value()] == 0) continue;
      children.push_back({c, usage_[c.value()].Use(now_).value(), tree_.units(c), tree_.order(c)});
    }
    // The last one pushed is visited first: worst first.
    std::sort(children.begin(), children.end(), [](const Child& a, const Child& b) {
      if ((a.units == 0) != (b.units == 0)) return a.units == 0;
      const absl::int128 x = absl::int128(a.use) * b.units, y = absl::int128(b.use) * a.units;
      return x != y ? x > y : a.order > b.order;
    });
    for (const Child& c : children) stack.push_back(c.id);
  }
}

inline void BaselineEngine::Pass() {
  const auto full = [&] { return cluster_.free() <= GpuCount(0) && stoppable_ <= GpuCount(0); };
  if (queued_ == 0 || full()) return;
  if (fair_tree()) RankLeaves();
  for (std::vector<Shape>& failed : failed_) failed.clear();
  heap_.clear();
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const Stream& s = streams_[i];
    if (s.waiting.empty()) continue;
    const bool filler = IsFiller(s.funded);
    heap_.push_back({.filler = filler,
                     .rank = Ranked(s.funded) ? rank_[s.leaf.value()] : 0,
                     .at = s.waiting.begin(),
                     .stream = i});
  }
  std::make_heap(heap_.begin(), heap_.end());

  for (std::int32_t looked_at = 0; !heap_.empty() && looked_at < options_.depth && !full();
       ++looked_at) {
    std::pop_heap(heap_.begin(), heap_.end());
    Cursor& cursor = heap_.back();
    const Stream& stream = streams_[cursor.stream];
    const RunSlot slot = cursor.at->slot;
    Record& r = records_[slot];
    ++cursor.at;  // before the workload leaves the set
    Reach reach;
    switch (options_.mode) {
      case BaselineMode::kPriority:
        r.is_protected =
            !cursor.filler && ToMilli(protected_gpus_[stream.leaf.value()] + r.spec.gpus()) <=
                                  entitlements_[stream.leaf.value()];
        reach.stops = r.is_protected;
        break;
      case BaselineMode::kFairTreePreempt:
        reach.stops = stream.funded;
        break;
      default:
        break;
    }
    // A run that can be stopped for the reserved workload is never in its way.
    const bool in_the_way = reserved_ && !Stoppable(r);
    reach.everywhere = !in_the_way || ExpectedEnd(r) <= reserved_at_;

    bool drop = false;
    if (Failed(stream.shape, reach)) {
      drop = reach.everywhere;
    } else if (!TryStart(slot, stream.shape, reach)) {
      NoteFailure(stream.shape, reach);
      // The rest of the stream has the same shape: only a shorter limit can help it. (Protection
      // is only lost during a pass.)
      drop = reach.everywhere;
      if (easy() && !reserved_ && !cursor.filler) Reserve(stream.shape);
    }
    if (r.state == State::kQueued) r.is_protected = false;
    if (drop || cursor.at == stream.waiting.end()) {
      heap_.pop_back();
    } else {
      std::push_heap(heap_.begin(), heap_.end());
    }
  }
  ClearReservation();
}

inline bool BaselineEngine::TryStart(RunSlot slot, const Shape& shape, Reach reach) {
  nodes_.clear();
  victims_.clear();
  const bool now = PlaceInFree(shape, reach, nodes_);
  if (!now && !(reach.stops && PlaceByStops(shape, reach, nodes_, victims_))) return false;
  Dequeue(slot);
  Account(records_[slot], +1);
  if (!reach.everywhere) {
    for (NodeId n : nodes_) {
      if (spare_[n.value()] != kNotReserved) spare_[n.value()] -= shape.gpus;
    }
  }
  if (now) {
    Start(slot, nodes_);
  } else {
    Hold(slot, nodes_, victims_);
  }
  return true;
}

}  // namespace tenure::sim

#endif  // TENURE_SIM_BASELINE_PASS_H_
