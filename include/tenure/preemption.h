// SPDX-License-Identifier: Apache-2.0
//
// Which runs to stop for a request: the nodes first, then the cheapest set of victims that empties
// them, nothing more.
//
//   VictimSearch search;
//   Plan plan;
//   if (search.Find(env, policy, requester, shape, kNoNode, plan)) {
//     // stopping exactly plan.victims makes plan.nodes hold the request; removing any of them
//     // from the set would not.
//   }
//
// GPUs of runs that are being stopped already count as free unless somebody holds them. A victim
// spanning several nodes is paid once, its cost spread over the nodes still needed. Complexity for
// c nodes that could yield enough, with R runs each: the survey of a round (yield_survey.h) and c
// evaluations of O(R log R); a gang of k nodes k more, and as many as there are bounds that had
// moved. Deterministic: ties by topological order and workload id.
#ifndef TENURE_PREEMPTION_H_
#define TENURE_PREEMPTION_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "tenure/cluster.h"
#include "tenure/ledger.h"
#include "tenure/placement.h"
#include "tenure/policy.h"
#include "tenure/types.h"
#include "tenure/victim_order.h"
#include "tenure/victim_set.h"
#include "tenure/workload_table.h"
#include "tenure/yield_survey.h"

namespace tenure {

// A place for a request and the runs that must leave it first (slots of the workload table).
struct Plan {
  std::vector<NodeId> nodes;
  std::vector<RunSlot> victims;
  void Clear() {
    nodes.clear();
    victims.clear();
  }
};

class VictimSearch {
 public:
  using Env = VictimEnv;

  // Forgets what was learnt about the nodes: to be called when a round of requests begins and
  // whenever a key or a placement changed. If the policy shares failures
  // (PolicyDefaults::kSharedFailures), what the next request finds that nodes could yield also
  // bounds later ones, which may stop no more than it.
  void BeginRound() { surveyed_ = false; }

  // Forgets all: time has passed, or runs have become stoppable.
  void BeginPass() {
    BeginRound();
    ordered_ = false;
    plans_in_pass_ = 0;
  }

  // False: no set of stoppable runs makes room; `plan` is empty then.
  template <class Policy>
  bool Find(const Env& env, const Policy& policy, const Requester& requester, const Shape& shape,
            NodeId avoid, Plan& plan) {
    plan.Clear();
    set_.Resize(env);
    const Query<Policy> q{env, policy, requester, shape};
    const bool shared = Policy::kSharedFailures && shape.workload_class != WorkloadClass::kDebug;
    if ((!shared || !surveyed_) && FindInOrder(q, avoid, plan)) return true;
    YieldSurvey& survey = shared ? shared_survey_ : own_survey_;
    if (!shared || !surveyed_) survey.Measure(env, policy, requester);
    surveyed_ = surveyed_ || shared;
    Choice best;
    for (std::size_t p = 0; p < env.cluster.pools().size(); ++p) {
      const Pool& pool = env.cluster.pools()[p];
      if (shape.type != kAnyGpuType && shape.type != pool.type) continue;
      if (survey.NodesWith(p, shape.gpus, shape.lane) < shape.nodes) continue;
      survey.Candidates(env.cluster, p, shape.gpus, shape.lane, slots_);
      if (shape.nodes == 1) {
        FindOne(q, pool, avoid, best, plan);
      } else if (best.cost < 0) {
        FindGang(q, pool, best.cost, plan);
      }
    }
    plans_in_pass_ += best.cost >= 0;
    return best.cost >= 0;
  }

 private:
  template <class Policy>
  using Query = VictimQuery<Policy>;

  // The best node so far.
  struct Choice {
    std::int64_t cost = -1;
    std::uint32_t slot = 0;  // equal costs at lower slots are better
  };
  // A node of a gang is not had for less; `place` in order of the costs that nodes have alone.
  struct Bound {
    std::int64_t cost;
    std::uint32_t place;
    std::uint32_t version;
  };
  static constexpr std::uint32_t kNowhere = 0xffffffffu;

  // Whether work of this shape may start on the node when the victims are gone.
  template <class Policy>
  bool Usable(const Query<Policy>& q, const Node& node) const {
    return node.Admits(q.shape.EndsBy(q.env.policy.now + q.env.wait));
  }

  // Takes the node if it is the cheapest so far, of equals the first in order; false: it cannot be
  // had, or certainly costs more than the best so far.
  template <class Policy>
  bool Consider(const Query<Policy>& q, const Pool& pool, std::uint32_t slot, NodeId avoid,
                Choice& best, Plan& plan) {
    const NodeId id = pool.nodes[slot];
    const Node& node = q.env.cluster.node(id);
    if (!Usable(q, node) || id == avoid) return false;
    const std::int64_t limit = best.cost < 0 ? std::numeric_limits<std::int64_t>::max()
                                             : best.cost + (slot < best.slot ? 1 : 0);
    std::int64_t cost = set_.Evaluate(q, node, 1, limit);
    if (cost < 0) return false;
    // A session goes where sessions are, even if that stops a little more (GPU-ms).
    if (q.shape.workload_class == WorkloadClass::kInteractive) {
      cost += kSessionAway * (8 - std::min(8, node.sessions));
    }
    if (cost >= limit) return true;
    best = {cost, slot};
    plan.nodes.assign(1, id);
    plan.victims.clear();
    for (const VictimSet::Candidate& c : set_.picked()) plan.victims.push_back(c.slot);
    return true;
  }

  // Looks at all nodes in slots_, ascending.
  template <class Policy>
  void FindOne(const Query<Policy>& q, const Pool& pool, NodeId avoid, Choice& best, Plan& plan) {
    set_.Clear();
    best.slot = 0;  // an equal cost in an earlier pool wins
    for (std::uint32_t slot : slots_) {
      Consider(q, pool, slot, avoid, best, plan);
      if (best.cost == 0) return;
    }
  }

  // The same by order_: only nodes that may be cheaper than the best so far. False: gave up, since
  // the policy spares too many of the cheap ones.
  template <class Policy>
  bool FindOneInOrder(const Query<Policy>& q, std::size_t p, NodeId avoid, Choice& best,
                      Plan& plan) {
    const Pool& pool = q.env.cluster.pools()[p];
    const std::int32_t gpus = q.shape.gpus;
    int in_vain = 0;
    set_.Clear();
    best.slot = 0;
    const auto too_dear = [&](std::int64_t density, std::int32_t needed, std::uint32_t slot) {
      if (best.cost < 0) return false;
      if (density > best.cost / needed) return true;
      return density * needed == best.cost && slot >= best.slot;
    };
    const auto look = [&](std::uint32_t slot) {
      in_vain += !Consider(q, pool, slot, avoid, best, plan) && best.cost < 0;
      return in_vain < kInVain;
    };
    // Nodes that have some of the GPUs already.
    const auto look_at_rest = [&](std::size_t s) {
      const auto slot = static_cast<std::uint32_t>(s);
      const std::int32_t soon = q.env.cluster.node(pool.nodes[slot]).soon();
      const std::int64_t density = order_.density(pool.nodes[slot]);
      const bool hopeless = soon < gpus && (density == VictimOrder::kNoVictims ||
                                            too_dear(density, gpus - soon, slot));
      return hopeless || look(slot);
    };
    pool.general.VisitTightest(1, 0, pool.nodes.size(), look_at_rest);
    pool.reserved.VisitTightest(1, 0, pool.nodes.size(), look_at_rest);
    if (q.shape.lane) pool.lane.VisitTightest(1, 0, pool.nodes.size(), look_at_rest);
    for (std::int64_t s = pool.vacating.NextFrom(0); s >= 0;
         s = pool.vacating.NextFrom(static_cast<std::size_t>(s) + 1)) {
      const Node& node = q.env.cluster.node(pool.nodes[static_cast<std::size_t>(s)]);
      if (node.free() <= 0 && node.up() && (!node.lane || q.shape.lane)) {
        look_at_rest(static_cast<std::size_t>(s));
      }
    }
    // All others, cheapest first.
    for (const VictimOrder::Entry& e : order_.pool(p)) {
      if (in_vain >= kInVain) return false;
      if (best.cost >= 0 && e.density > best.cost / gpus) break;
      const Node& node = q.env.cluster.node(pool.nodes[e.slot]);
      if (node.soon() > 0 || !node.up() || (node.lane && !q.shape.lane)) continue;
      if (!too_dear(e.density, gpus, e.slot)) look(e.slot);
    }
    return in_vain < kInVain;
  }

  // Whether the order has been of use in this pass; what it finds is then what the survey would
  // have led to. If it finds nothing, the survey has to be made for later requests anyway.
  template <class Policy>
  bool FindInOrder(const Query<Policy>& q, NodeId avoid, Plan& plan) {
    if (!Policy::kCostsIgnoreKeys || q.shape.nodes > 1 || plans_in_pass_ < kManyPlans ||
        !q.env.carried_out) {
      return false;
    }
    if (!ordered_) order_.Build(q.env, q.policy);
    ordered_ = true;
    Choice best;
    for (std::size_t p = 0; p < q.env.cluster.pools().size(); ++p) {
      if (q.shape.type != kAnyGpuType && q.shape.type != q.env.cluster.pools()[p].type) continue;
      if (!FindOneInOrder(q, p, avoid, best, plan)) {
        plan.Clear();
        return false;
      }
    }
    return best.cost >= 0;
  }

  template <class Policy>
  void FindGang(const Query<Policy>& q, const Pool& pool, std::int64_t& best, Plan& plan) {
    const std::size_t k = static_cast<std::size_t>(q.shape.nodes);
    set_.Clear();
    able_.clear();
    for (std::uint32_t slot : slots_) {
      const NodeId id = pool.nodes[slot];
      const Node& node = q.env.cluster.node(id);
      if (!Usable(q, node)) continue;
      const std::int64_t cost = set_.Evaluate(q, node, q.shape.nodes);
      if (cost >= 0) able_.push_back({cost, id});
    }
    if (able_.size() < k) return;
    if (q.shape.rule == TopologyRule::kPreferred) {
      Assemble(q, able_, k, best, plan);
      return;
    }
    const std::uint8_t level = internal::EffectiveLevel(q.env.cluster, q.shape);
    std::vector<std::pair<std::int64_t, NodeId>> inside;
    for (DomainId d : q.env.cluster.DomainsAt(level)) {
      const auto [begin, end] = pool.range[d.value()];
      inside.clear();
      for (const auto& a : able_) {
        const std::uint32_t slot = q.env.cluster.node(a.second).slot;
        if (slot >= begin && slot < end) inside.push_back(a);
      }
      if (inside.size() >= k) Assemble(q, inside, k, best, plan);
    }
  }

  // Greedy: k times the node with the least marginal cost, of equals the first in order of the cost
  // it has alone. Keeps the result if it beats `best`.
  //
  // What is chosen makes other nodes dearer (fewer runs may be stopped, shared victims are spread
  // over fewer nodes) unless a victim runs on them, too. So the cost found last bounds the present
  // one from below, and only the cheapest by that bound is evaluated anew.
  template <class Policy>
  void Assemble(const Query<Policy>& q, std::vector<std::pair<std::int64_t, NodeId>>& able,
                std::size_t k, std::int64_t& best, Plan& plan) {
    set_.Clear();
    std::stable_sort(able.begin(), able.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    bounds_.clear();
    place_.resize(std::max(place_.size(), q.env.cluster.size()), kNowhere);
    for (std::uint32_t c = 0; c < able.size(); ++c) {
      bounds_.push_back({able[c].first, c, 0});
      place_[able[c].second.value()] = c;
    }
    versions_.assign(able.size(), 0);
    const auto dearer = [](const Bound& a, const Bound& b) {
      return a.cost != b.cost ? a.cost > b.cost : a.place > b.place;
    };
    // Sorted by cost and place: a heap already.
    std::vector<NodeId> nodes;
    std::vector<RunSlot> victims;
    std::int64_t total = 0;
    while (nodes.size() < k && !bounds_.empty()) {
      const auto remaining = static_cast<std::int32_t>(k - nodes.size());
      const Bound top = bounds_.front();
      std::pop_heap(bounds_.begin(), bounds_.end(), dearer);
      bounds_.pop_back();
      if (top.version != versions_[top.place]) continue;
      const NodeId id = able[top.place].second;
      const std::int64_t cost = set_.Evaluate(q, q.env.cluster.node(id), remaining);
      if (cost < 0) continue;
      const Bound now{cost, top.place, top.version};
      if (!bounds_.empty() && dearer(now, bounds_.front())) {
        bounds_.push_back(now);
        std::push_heap(bounds_.begin(), bounds_.end(), dearer);
        continue;
      }
      ++versions_[top.place];
      place_[id.value()] = kNowhere;
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
          const std::uint32_t c = place_[other.value()];
          if (c == kNowhere) continue;
          bounds_.push_back({0, c, ++versions_[c]});
          std::push_heap(bounds_.begin(), bounds_.end(), dearer);
        }
      }
    }
    for (const auto& a : able) place_[a.second.value()] = kNowhere;
    if (nodes.size() < k || (best >= 0 && total >= best)) return;
    Trim(q, nodes, victims);
    best = total;
    plan.nodes = std::move(nodes);
    plan.victims = std::move(victims);
  }

  // Drops victims that later choices made unnecessary, dearest first.
  template <class Policy>
  void Trim(const Query<Policy>& q, const std::vector<NodeId>& nodes,
            std::vector<RunSlot>& victims) {
    const auto cost = [&](RunSlot s) {
      return q.policy.VictimCost(q.env.policy, q.env.table.run(s));
    };
    std::vector<RunSlot> order = victims;
    std::sort(order.begin(), order.end(), [&](RunSlot a, RunSlot b) {
      const std::int64_t x = cost(a), y = cost(b);
      return x != y ? x > y : q.env.table.run(a).id > q.env.table.run(b).id;
    });
    for (RunSlot v : order) {
      set_.Leave(v);
      const bool needed = std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) {
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

  static constexpr std::int64_t kSessionAway = 20'000'000;  // GPU-ms

  static constexpr int kManyPlans = 2;  // after which the order pays for being built
  static constexpr int kInVain = 64;    // nodes looked at before giving up on the order

  VictimOrder order_;
  bool ordered_ = false;  // order_ is of this pass
  int plans_in_pass_ = 0;
  bool surveyed_ = false;  // shared_survey_ is of this round
  YieldSurvey shared_survey_, own_survey_;
  std::vector<std::uint32_t> slots_;  // of nodes that yield enough, ascending

  VictimSet set_;  // of the plan being made
  std::vector<std::pair<std::int64_t, NodeId>> able_;
  std::vector<Bound> bounds_;            // heap of the gang's nodes, cheapest first
  std::vector<std::uint32_t> versions_;  // by place: what is left of older entries is void
  std::vector<std::uint32_t> place_;     // by node: among the gang's candidates
};

}  // namespace tenure

#endif  // TENURE_PREEMPTION_H_
