// SPDX-License-Identifier: Apache-2.0
//
// BaselineEngine: free places, victims and the EASY reservation.
// Included by baselines.h; not for direct use.
#ifndef TENURE_SIM_BASELINE_PLACE_H_
#define TENURE_SIM_BASELINE_PLACE_H_

#include "tenure/sim/baselines.h"

namespace tenure::sim {

template <typename F>
void BaselineEngine::ForEachRange(const Shape& shape, F f) const {
  const std::uint8_t level = shape.nodes > 1 && shape.rule == TopologyRule::kRequired
                                 ? internal::EffectiveLevel(cluster_, shape)
                                 : std::uint8_t{0};
  for (const Pool& pool : cluster_.pools()) {
    if (shape.type != kAnyGpuType && shape.type != pool.type) continue;
    for (DomainId d : cluster_.DomainsAt(level)) {
      const auto [begin, end] = pool.range[d.value()];
      if (end - begin >= static_cast<std::uint32_t>(shape.nodes) && f(pool, begin, end)) return;
    }
  }
}

inline bool BaselineEngine::PlaceInFree(const Shape& shape, Reach reach,
                                        std::vector<NodeId>& nodes) const {
  if (reach.everywhere) return PlaceFree(cluster_, shape, NoNodeScore{}, kNoNode, nodes);
  if (cluster_.free() < shape.total()) return false;
  const auto k = static_cast<std::size_t>(shape.nodes);
  ForEachRange(shape, [&](const Pool& pool, std::size_t begin, std::size_t end) {
    nodes.clear();
    pool.general.VisitTightest(shape.gpus, begin, end, [&](std::size_t slot) {
      if (Admits(pool.nodes[slot], shape.gpus, reach)) nodes.push_back(pool.nodes[slot]);
      return nodes.size() < k;
    });
    return nodes.size() == k;
  });
  return nodes.size() == k;
}

// The cheapest nodes to empty, then the victims on them without those that are not needed.
inline bool BaselineEngine::PlaceByStops(const Shape& shape, Reach reach,
                                         std::vector<NodeId>& nodes,
                                         std::vector<RunSlot>& victims) const {
  struct Candidate {
    std::int64_t cost;
    std::size_t slot;
    std::vector<Victim> victims;
  };
  const auto k = static_cast<std::size_t>(shape.nodes);
  std::vector<Candidate> best;
  std::int64_t best_cost = 0;
  std::vector<Victim> on_node;
  ForEachRange(shape, [&](const Pool& pool, std::size_t begin, std::size_t end) {
    std::vector<Candidate> candidates;
    for (std::size_t slot = begin; slot < end; ++slot) {
      const Node& node = cluster_.node(pool.nodes[slot]);
      if (node.health != NodeHealth::kUp || node.gpus < shape.gpus) continue;
      if (!Admits(pool.nodes[slot], shape.gpus, reach)) continue;
      std::int32_t room = node.soon();
      if (room + stoppable_on_[pool.nodes[slot].value()] < shape.gpus) continue;
      on_node.clear();
      for (const Occupant& o : node.runs) {
        const Record& r = records_[o.run];
        if (r.state != State::kRunning || !Stoppable(r)) continue;
        // A run over several nodes costs each of them its part.
        const std::int64_t part = StopCost(r) / static_cast<std::int64_t>(r.nodes.size());
        on_node.push_back({part, r.spec.id, o.run, o.gpus});
      }
      std::sort(on_node.begin(), on_node.end());
      Candidate c{0, slot, {}};
      for (std::size_t i = 0; i < on_node.size() && room < shape.gpus; ++i) {
        room += on_node[i].gpus;
        c.victims.push_back(on_node[i]);
      }
      std::erase_if(c.victims, [&](const Victim& v) {
        if (room - v.gpus < shape.gpus) return false;
        room -= v.gpus;
        return true;
      });
      for (const Victim& v : c.victims) c.cost += v.cost;
      candidates.push_back(std::move(c));
    }
    if (candidates.size() < k) return false;
    std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return std::tie(a.cost, a.slot) < std::tie(b.cost, b.slot);
    });
    candidates.resize(k);
    std::int64_t cost = 0;
    for (const Candidate& c : candidates) cost += c.cost;
    if (best.empty() || cost < best_cost) {
      best_cost = cost;
      best = std::move(candidates);
      nodes.clear();
      for (const Candidate& c : best) nodes.push_back(pool.nodes[c.slot]);
    }
    return false;
  });
  if (best.empty()) return false;

  std::vector<Victim> all;
  for (const Candidate& c : best) {
    for (const Victim& v : c.victims) {
      all.push_back({StopCost(records_[v.slot]), v.id, v.slot, v.gpus});
    }
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  // A victim taken for one node may make another superfluous: dearest first.
  std::vector<std::pair<NodeId, std::int32_t>> room;
  for (NodeId n : nodes) {
    std::int32_t free = cluster_.node(n).soon();
    for (const Victim& v : all) {
      const auto& on = records_[v.slot].nodes;
      if (std::find(on.begin(), on.end(), n) != on.end()) free += v.gpus;
    }
    room.emplace_back(n, free);
  }
  for (auto v = all.rbegin(); v != all.rend(); ++v) {
    const auto& on = records_[v->slot].nodes;
    const auto hit = [&](NodeId n) { return std::find(on.begin(), on.end(), n) != on.end(); };
    const bool needed = std::any_of(room.begin(), room.end(), [&](const auto& x) {
      return hit(x.first) && x.second - v->gpus < shape.gpus;
    });
    if (needed) {
      victims.push_back(v->slot);
      continue;
    }
    for (auto& [n, free] : room) {
      if (hit(n)) free -= v->gpus;
    }
  }
  std::reverse(victims.begin(), victims.end());
  return true;
}

// When `node` has `gpus` GPUs for the first blocked workload if every run ends at its limit.
inline TimePoint BaselineEngine::FreeFrom(const Node& node, std::int32_t gpus) const {
  absl::InlinedVector<std::pair<TimePoint, std::int32_t>, 16> ends;
  std::int32_t free = node.gpus;
  const auto add = [&](const Record& r, TimePoint end, std::int32_t n) {
    if (r.state == State::kStopping || (r.state != State::kHeld && Stoppable(r))) return;
    free -= n;
    ends.emplace_back(std::max(end, now_ + Duration(1)), n);
  };
  for (const Occupant& o : node.runs) add(records_[o.run], records_[o.run].expected_end, o.gpus);
  for (const Occupant& o : node.holds) add(records_[o.run], ExpectedEnd(records_[o.run]), o.gpus);
  if (free >= gpus) return now_;
  std::sort(ends.begin(), ends.end());
  for (const auto& [end, n] : ends) {
    free += n;
    if (free >= gpus) return end;
  }
  return kNever;
}

// GPUs of `node` that are free at `t` if every run ends at its limit.
inline std::int32_t BaselineEngine::FreeAt(const Node& node, TimePoint t) const {
  std::int32_t free = node.gpus;
  for (const Occupant& o : node.runs) {
    const Record& r = records_[o.run];
    if (r.state == State::kStopping || Stoppable(r)) continue;
    if (std::max(r.expected_end, now_ + Duration(1)) > t) free -= o.gpus;
  }
  for (const Occupant& o : node.holds) {
    if (ExpectedEnd(records_[o.run]) > t) free -= o.gpus;
  }
  return free;
}

// Reserves for the first blocked workload the earliest time at which enough nodes are free, and of
// the nodes that are free by then those that become so last: the others stay open to everybody.
inline void BaselineEngine::Reserve(const Shape& shape) {
  const auto k = static_cast<std::size_t>(shape.nodes);
  std::vector<std::pair<TimePoint, std::size_t>> candidates;
  std::vector<NodeId> chosen;
  ForEachRange(shape, [&](const Pool& pool, std::size_t begin, std::size_t end) {
    candidates.clear();
    for (std::size_t slot = begin; slot < end; ++slot) {
      const Node& node = cluster_.node(pool.nodes[slot]);
      if (node.health != NodeHealth::kUp || node.gpus < shape.gpus) continue;
      candidates.emplace_back(FreeFrom(node, shape.gpus), slot);
    }
    if (candidates.size() < k) return false;
    std::sort(candidates.begin(), candidates.end());
    const TimePoint at = candidates[k - 1].first;
    if (!chosen.empty() && at >= reserved_at_) return false;
    reserved_at_ = at;
    chosen.clear();
    std::size_t last = k;
    while (last < candidates.size() && candidates[last].first == at) ++last;
    for (std::size_t i = last - k; i < last; ++i) {
      chosen.push_back(pool.nodes[candidates[i].second]);
    }
    return false;
  });
  reserved_ = !chosen.empty();
  for (NodeId n : chosen) {
    spare_[n.value()] = std::max(0, FreeAt(cluster_.node(n), reserved_at_) - shape.gpus);
  }
}

inline void BaselineEngine::ClearReservation() {
  if (!reserved_) return;
  std::fill(spare_.begin(), spare_.end(), kNotReserved);
  reserved_ = false;
}

}  // namespace tenure::sim

#endif  // TENURE_SIM_BASELINE_PLACE_H_
