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
// spanning several nodes is paid once, its cost spread over the nodes still needed. Complexity for c
// nodes that could yield enough, with R runs each: the survey of a round (yield_survey.h) and c
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

  // False: no set of stoppable runs makes room; `plan` is empty then.
  template <class Policy>
  bool Find(const Env& env, const Policy& policy, const Requester& requester, const Shape& shape,
            NodeId avoid, Plan& plan) {
    plan.Clear();
    chosen_.resize(std::max(chosen_.size(), env.table.slots()), 0);
    taken_.resize(env.policy.tree.size());
    const Query<Policy> q{env, policy, requester, shape};
    const bool shared = Policy::kSharedFailures && shape.workload_class != WorkloadClass::kDebug;
    YieldSurvey& survey = shared ? shared_survey_ : own_survey_;
    if (!shared || !surveyed_) survey.Measure(env, policy, requester);
    surveyed_ = surveyed_ || shared;
    std::int64_t best = -1;
    for (std::size_t p = 0; p < env.cluster.pools().size(); ++p) {
      const Pool& pool = env.cluster.pools()[p];
      if (shape.type != kAnyGpuType && shape.type != pool.type) continue;
      if (survey.NodesWith(p, shape.gpus, shape.lane) < shape.nodes) continue;
      survey.Candidates(env.cluster, p, shape.gpus, shape.lane, slots_);
      if (shape.nodes == 1) {
        FindOne(q, pool, avoid, best, plan);
      } else if (best < 0) {
        FindGang(q, pool, best, plan);
      }
    }
    return best >= 0;
  }

 private:
  template <class Policy>
  struct Query {
    const Env& env;
    const Policy& policy;
    const Requester& requester;
    const Shape& shape;

    bool MayStop(const Run& run, bool lane, MilliGpu taken) const {
      return env.MayStop(policy, requester, run, lane, taken);
    }
  };
  struct Candidate {
    std::int64_t cost = 0;
    WorkloadId id;
    RunSlot slot = kNoSlot;
    std::int32_t gpus = 0;  // on the node in question
  };

  // A node of a gang is not had for less; `place` in order of the costs that nodes have alone.
  struct Bound {
    std::int64_t cost;
    std::uint32_t place;
    std::uint32_t version;
  };
  static constexpr std::uint32_t kNowhere = 0xffffffffu;

  MilliGpu Taken(AllocationId leaf) const { return taken_[leaf.value()]; }
  void Take(const Run& run) {
    if (!run.funded) return;
    taken_[run.leaf.value()] += run.charge();
    touched_.push_back(run.leaf);
  }
  void ResetTaken() {
    for (AllocationId leaf : touched_) taken_[leaf.value()] = MilliGpu(0);
    touched_.clear();
  }

  // Whether work of this shape may start on the node when the victims are gone.
  template <class Policy>
  bool Usable(const Query<Policy>& q, const Node& node) const {
    return node.Admits(q.shape.EndsBy(q.env.policy.now + q.env.wait));
  }

  // The cheapest sufficient victims on one node given what is chosen already; appended to
  // `picked_` (cleared first). `remaining`: nodes the gang still needs, this one included. Returns
  // the marginal cost, or -1 if the node cannot be had or certainly costs `limit` or more.
  template <class Policy>
  std::int64_t Evaluate(const Query<Policy>& q, const Node& node, std::int32_t remaining,
                        std::int64_t limit = std::numeric_limits<std::int64_t>::max()) {
    picked_.clear();
    std::int32_t available = node.soon();
    std::int32_t possible = available;
    candidates_.clear();
    for (const Occupant& o : node.runs) {
      if (chosen_[o.run] == epoch_) {  // leaves already for another node of this gang
        available += o.gpus;
        possible += o.gpus;
        continue;
      }
      const Run& run = q.env.table.run(o.run);
      if (!q.MayStop(run, node.lane, Taken(run.leaf))) continue;
      possible += o.gpus;
      candidates_.push_back({0, run.id, o.run, o.gpus});
    }
    if (possible < q.shape.gpus) return -1;
    if (available >= q.shape.gpus) return 0;
    std::int64_t cheapest = limit;
    for (Candidate& c : candidates_) {
      const Run& run = q.env.table.run(c.slot);
      c.cost = q.policy.VictimCost(q.env.policy, run);
      if (run.node_count > 1 && remaining > 1) c.cost /= std::min(run.node_count, remaining);
      cheapest = std::min(cheapest, c.cost);
    }
    if (cheapest >= limit) return -1;
    std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
      return a.cost != b.cost ? a.cost < b.cost : a.id < b.id;
    });
    const std::size_t mark = touched_.size();
    std::int64_t cost = 0;
    for (const Candidate& c : candidates_) {
      if (available >= q.shape.gpus) break;
      const Run& run = q.env.table.run(c.slot);
      if (touched_.size() > mark && !q.MayStop(run, node.lane, Taken(run.leaf))) continue;
      Take(run);
      picked_.push_back(c);
      available += c.gpus;
      cost += c.cost;
    }
    // Undo what this node alone would take; the caller takes again what it keeps.
    while (touched_.size() > mark) {
      touched_.pop_back();
    }
    for (const Candidate& c : picked_) {
      const Run& run = q.env.table.run(c.slot);
      if (run.funded) taken_[run.leaf.value()] -= run.charge();
    }
    if (available < q.shape.gpus) return -1;
    // Dearest first: drop whatever the others make unnecessary.
    for (std::size_t i = picked_.size(); i-- > 0;) {
      if (available - picked_[i].gpus < q.shape.gpus) continue;
      available -= picked_[i].gpus;
      cost -= picked_[i].cost;
      picked_.erase(picked_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return cost;
  }

  template <class Policy>
  void FindOne(const Query<Policy>& q, const Pool& pool, NodeId avoid, std::int64_t& best,
               Plan& plan) {
    ++epoch_;  // nothing is chosen
    const bool session = q.shape.workload_class == WorkloadClass::kInteractive;
    for (std::uint32_t slot : slots_) {
      const NodeId id = pool.nodes[slot];
      const Node& node = q.env.cluster.node(id);
      if (!Usable(q, node) || id == avoid) continue;
      std::int64_t cost = best < 0 ? Evaluate(q, node, 1) : Evaluate(q, node, 1, best);
      if (cost < 0) continue;
      // A session goes where sessions are, even if that stops a little more (GPU-ms).
      if (session) cost += kSessionAway * (8 - std::min(8, node.sessions));
      if (best >= 0 && cost >= best) continue;
      best = cost;
      plan.nodes.assign(1, id);
      plan.victims.clear();
      for (const Candidate& c : picked_) plan.victims.push_back(c.slot);
      if (best == 0) return;
    }
  }

  template <class Policy>
  void FindGang(const Query<Policy>& q, const Pool& pool, std::int64_t& best, Plan& plan) {
    const std::size_t k = static_cast<std::size_t>(q.shape.nodes);
    ++epoch_;
    able_.clear();
    for (std::uint32_t slot : slots_) {
      const NodeId id = pool.nodes[slot];
      const Node& node = q.env.cluster.node(id);
      if (!Usable(q, node)) continue;
      const std::int64_t cost = Evaluate(q, node, q.shape.nodes);
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
    ++epoch_;
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
      const std::int64_t cost = Evaluate(q, q.env.cluster.node(id), remaining);
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
      for (const Candidate& c : picked_) {
        chosen_[c.slot] = epoch_;
        victims.push_back(c.slot);
        Take(q.env.table.run(c.slot));
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
    ResetTaken();
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
      chosen_[v] = 0;
      const bool needed = std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) {
        const Node& node = q.env.cluster.node(id);
        std::int32_t available = node.soon();
        for (const Occupant& o : node.runs) {
          if (chosen_[o.run] == epoch_) available += o.gpus;
        }
        return available < q.shape.gpus;
      });
      if (needed) {
        chosen_[v] = epoch_;
      } else {
        victims.erase(std::find(victims.begin(), victims.end(), v));
      }
    }
  }

  static constexpr std::int64_t kSessionAway = 20'000'000;  // GPU-ms

  bool surveyed_ = false;  // shared_survey_ is of this round
  YieldSurvey shared_survey_, own_survey_;
  std::vector<std::uint32_t> slots_;  // of nodes that yield enough, ascending

  std::uint64_t epoch_ = 0;
  std::vector<std::uint64_t> chosen_;  // by slot: == epoch_ when in the set being built
  std::vector<MilliGpu> taken_;        // by allocation: what the set takes from it
  std::vector<AllocationId> touched_;
  std::vector<Candidate> candidates_, picked_;
  std::vector<std::pair<std::int64_t, NodeId>> able_;
  std::vector<Bound> bounds_;            // heap of the gang's nodes, cheapest first
  std::vector<std::uint32_t> versions_;  // by place: what is left of older entries is void
  std::vector<std::uint32_t> place_;     // by node: among the gang's candidates
};

}  // namespace tenure

#endif  // TENURE_PREEMPTION_H_
