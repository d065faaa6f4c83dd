// SPDX-License-Identifier: Apache-2.0
//
// The nodes of a gang and the runs that must leave them, chosen greedily.
//
//   GangAssembly gang;
//   gang.Begin(query);
//   for (NodeId id : candidates) gang.Offer(query, id);
//   gang.Assemble(query, AllOffered{}, best, plan);  // plan is changed if it costs less than best
//
// k times the node with the least marginal cost, of equals the one that costs least alone, then the
// first in order. What is chosen makes the runs on other nodes dearer (fewer may be stopped, shared
// victims are spread over fewer nodes) unless a victim runs on them, too. So a floor under the cost
// of a node (VictimSet::Floor) holds from then on, and only nodes that may come before the best one
// are evaluated anew. A source that knows what nodes cost at least may therefore offer them late,
// when nothing that may come before them is left.
//
// Complexity: as many evaluations (victim_set.h) as there are nodes offered, and for each of the k
// one for each node that may come before the one chosen. Deterministic; the order of the offers
// carries no meaning.
#ifndef TENURE_GANG_ASSEMBLY_H_
#define TENURE_GANG_ASSEMBLY_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "tenure/cluster.h"
#include "tenure/types.h"
#include "tenure/victim_set.h"

namespace tenure {

// The source of an assembly whose candidates have all been offered before.
struct AllOffered {
  template <class Rank>
  void More(const Rank&) const {}
  void Reached(NodeId) const {}
};

class GangAssembly {
 public:
  // The order in which nodes are chosen. A node whose cost is only known to be at least something
  // comes at its rank by that or later.
  struct Rank {
    std::int64_t cost, alone;
    std::uint32_t slot;  // of the node in its pool
    friend auto operator<=>(const Rank&, const Rank&) = default;
  };
  static constexpr Rank kLast{std::numeric_limits<std::int64_t>::max(),
                              std::numeric_limits<std::int64_t>::max(), 0xffffffffu};

  // Forgets all candidates.
  template <class Policy>
  void Begin(const VictimQuery<Policy>& q) {
    for (NodeId id : seen_) place_[id.value()] = kUnseen;
    place_.resize(std::max(place_.size(), q.env.cluster.size()), kUnseen);
    seen_.clear();
    able_.clear();
    bounds_.clear();
    set_.Resize(q.env);
    alone_.Resize(q.env);
    set_.Clear();
    alone_.Clear();
  }

  // Makes the node a candidate; false: it cannot be had. Once for each node. One whose cheapest
  // victims exhaust what their leaf may lose before there is room cannot be had alone, but perhaps
  // once other nodes have been chosen and those victims are spared.
  template <class Policy>
  bool Offer(const VictimQuery<Policy>& q, NodeId id) {
    const Node& node = q.env.cluster.node(id);
    seen_.push_back(id);
    place_[id.value()] = kOut;
    if (!q.Admits(node)) return false;
    const std::int64_t cost = alone_.Evaluate(q, node, q.shape.nodes);
    const std::int64_t floor = alone_.Floor();
    if (floor < 0) return false;
    const auto place = static_cast<std::uint32_t>(able_.size());
    place_[id.value()] = place;
    able_.push_back({cost < 0 ? kLast.alone : cost, id, node.slot, 0});
    Push(floor, place);
    return true;
  }
  bool Offered(NodeId id) const { return place_[id.value()] != kUnseen; }
  // No candidate comes before this.
  Rank first() const { return bounds_.empty() ? kLast : bounds_.front().rank; }

  // True if a set of shape.nodes candidates was found that costs less than `best` (any, if that is
  // negative); it is in `best` and `plan`. To be called once after Begin. `source.More(limit)`
  // offers every node that was not offered yet and may come before `limit` and first();
  // `source.Reached(id)` offers a node that has not been offered if it is a candidate at all.
  template <class Policy, class Source>
  bool Assemble(const VictimQuery<Policy>& q, Source&& source, std::int64_t& best, Plan& plan) {
    const std::size_t k = static_cast<std::size_t>(q.shape.nodes);
    std::vector<NodeId> nodes;
    std::vector<RunSlot> victims;
    std::int64_t total = 0;
    while (nodes.size() < k) {
      const auto remaining = static_cast<std::int32_t>(k - nodes.size());
      const std::uint32_t place = Cheapest(q, source, remaining);
      if (place == kOut) return false;
      const NodeId id = able_[place].node;
      const std::int64_t cost = set_.Evaluate(q, q.env.cluster.node(id), remaining);
      ++able_[place].version;
      place_[id.value()] = kOut;
      nodes.push_back(id);
      total += cost;
      const std::size_t before = victims.size();
      for (const VictimSet::Candidate& c : set_.picked()) {
        victims.push_back(c.slot);
        set_.Keep(c.slot, q.env.table.run(c.slot));
      }
      // Its victims leave other nodes as well, which are cheaper or possible now.
      for (std::size_t v = before; v < victims.size(); ++v) {
        if (q.env.table.run(victims[v]).node_count == 1) continue;
        for (NodeId other : q.env.table.workload(victims[v]).nodes) {
          if (place_[other.value()] == kUnseen) source.Reached(other);
          const std::uint32_t its = place_[other.value()];
          if (its == kUnseen || its == kOut) continue;
          ++able_[its].version;
          Push(0, its);
        }
      }
    }
    if (best >= 0 && total >= best) return false;
    Trim(q, nodes, victims);
    best = total;
    plan.nodes = std::move(nodes);
    plan.victims = std::move(victims);
    return true;
  }

 private:
  struct Candidate {
    std::int64_t alone;  // what it costs if nothing else is chosen; kLast.alone: cannot be had
    NodeId node;
    std::uint32_t slot;     // of the node in its pool
    std::uint32_t version;  // bounds of older ones are void
  };
  // The candidate does not come before `rank`.
  struct Bound {
    Rank rank;
    std::uint32_t place, version;
  };
  // Places of nodes that are no candidates: not offered; chosen, or not to be had.
  static constexpr std::uint32_t kUnseen = 0xffffffffu, kOut = 0xfffffffeu;

  // The place of the best candidate now; kOut: there is none.
  template <class Policy, class Source>
  std::uint32_t Cheapest(const VictimQuery<Policy>& q, Source& source, std::int32_t remaining) {
    looked_at_.clear();
    bool found = false;
    Bound best{};
    while (true) {
      source.More(found ? best.rank : kLast);
      if (bounds_.empty() || (found && bounds_.front().rank > best.rank)) break;
      const Bound top = Pop();
      if (top.version != able_[top.place].version) continue;
      const std::int64_t cost =
          set_.Evaluate(q, q.env.cluster.node(able_[top.place].node), remaining);
      if (const std::int64_t floor = set_.Floor(); floor >= 0) {
        looked_at_.push_back(BoundOf(floor, top.place));
      }
      if (cost < 0) continue;
      const Bound now = BoundOf(cost, top.place);
      if (!found || Later(best, now)) best = now;
      found = true;
    }
    for (const Bound& b : looked_at_) Push(b.rank.cost, b.place);
    return found ? best.place : kOut;
  }

  Bound BoundOf(std::int64_t cost, std::uint32_t place) const {
    const Candidate& c = able_[place];
    return {{cost, c.alone, c.slot}, place, c.version};
  }
  static bool Later(const Bound& a, const Bound& b) { return a.rank > b.rank; }
  void Push(std::int64_t cost, std::uint32_t place) {
    bounds_.push_back(BoundOf(cost, place));
    std::push_heap(bounds_.begin(), bounds_.end(), Later);
  }
  Bound Pop() {
    std::pop_heap(bounds_.begin(), bounds_.end(), Later);
    const Bound top = bounds_.back();
    bounds_.pop_back();
    return top;
  }

  // Drops victims that later choices made unnecessary, dearest first.
  template <class Policy>
  void Trim(const VictimQuery<Policy>& q, const std::vector<NodeId>& nodes,
            std::vector<RunSlot>& victims) {
    std::vector<std::pair<std::int64_t, RunSlot>> order;
    for (RunSlot v : victims) {
      order.emplace_back(q.policy.VictimCost(q.env.policy, q.env.table.run(v)), v);
    }
    std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first
                                : q.env.table.run(a.second).id > q.env.table.run(b.second).id;
    });
    for (const auto& [cost, v] : order) {
      set_.Leave(v);
      const auto& its_nodes = q.env.table.workload(v).nodes;  // no other can miss it
      const bool needed = std::any_of(its_nodes.begin(), its_nodes.end(), [&](NodeId id) {
        if (std::find(nodes.begin(), nodes.end(), id) == nodes.end()) return false;
        const Node& node = q.env.cluster.node(id);
        std::int32_t available = node.soon();
        for (const Occupant& o : node.runs) {
          if (set_.Contains(o.run)) available += o.gpus;
        }
        return available < q.shape.gpus;
      });
      if (needed) {
        set_.Keep(v);
      } else {
        victims.erase(std::find(victims.begin(), victims.end(), v));
      }
    }
  }

  std::vector<std::uint32_t> place_;  // by node: in able_
  std::vector<NodeId> seen_;          // nodes that were offered
  std::vector<Candidate> able_;
  std::vector<Bound> bounds_;  // heap, first rank first
  std::vector<Bound> looked_at_;
  VictimSet set_;    // of what is chosen
  VictimSet alone_;  // empty
};

}  // namespace tenure

#endif  // TENURE_GANG_ASSEMBLY_H_
