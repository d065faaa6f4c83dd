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
// evaluations of O(R log R), or the order of the nodes by cost (victim_order.h) and one for each
// that may be cheap enough; of a gang see gang_assembly.h. Deterministic: ties by topological order
// and workload id.
#ifndef TENURE_PREEMPTION_H_
#define TENURE_PREEMPTION_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "tenure/cluster.h"
#include "tenure/gang_assembly.h"
#include "tenure/ledger.h"
#include "tenure/placement.h"
#include "tenure/policy.h"
#include "tenure/types.h"
#include "tenure/victim_order.h"
#include "tenure/victim_set.h"
#include "tenure/workload_table.h"
#include "tenure/yield_bound.h"
#include "tenure/yield_survey.h"

namespace tenure {

class VictimSearch {
 public:
  using Env = VictimEnv;

  // Forgets what was learnt about the nodes: to be called when a round of requests begins and
  // whenever a key or a placement changed. If the policy shares failures
  // (PolicyDefaults::kSharedFailures), what the next request finds that nodes could yield also
  // bounds later ones, which may stop no more than it.
  void BeginRound() { surveyed_ = {}; }

  // True if what is known since BeginRound shows that Find would fail and that free GPUs do not
  // hold the shape either.
  template <class Policy>
  bool RulesOut(const Cluster& cluster, const Requester& requester, const Shape& shape) {
    YieldSurvey* const survey = Shared<Policy>(shape) ? SharedSurvey<Policy>(requester) : nullptr;
    if (survey == nullptr) return false;
    for (std::size_t p = 0; p < cluster.pools().size(); ++p) {
      if (shape.type != kAnyGpuType && shape.type != cluster.pools()[p].type) continue;
      if (survey->NodesWith(cluster, p, shape.gpus, shape.lane) >= shape.nodes) return false;
    }
    return true;
  }

  // Forgets all: time has passed, or runs have become stoppable.
  void BeginPass() {
    BeginRound();
    ordered_ = gang_ordered_ = bounded_ = false;
    stopped_.clear();
    plans_in_pass_ = 0;
  }

  // False: no set of stoppable runs makes room; `plan` is empty then.
  template <class Policy>
  bool Find(const Env& env, const Policy& policy, const Requester& requester, const Shape& shape,
            NodeId avoid, Plan& plan) {
    plan.Clear();
    set_.Resize(env);
    const Query<Policy> q{env, policy, requester, shape, verdicts_};
    judged_ = false;
    const bool shared = Shared<Policy>(shape);
    YieldSurvey* known = shared ? SharedSurvey<Policy>(requester) : nullptr;
    if (known == nullptr) {
      if (FindInOrder(q, avoid, plan)) {
        stopped_.insert(stopped_.end(), plan.victims.begin(), plan.victims.end());
        return true;
      }
      const bool more = StopsMore<Policy>(requester);
      known = shared ? &shared_survey_[more] : &own_survey_;
      known->Measure(env, policy, requester);
      if (shared) surveyed_[more] = true;
    }
    YieldSurvey& survey = *known;
    Choice best;
    for (std::size_t p = 0; p < env.cluster.pools().size(); ++p) {
      const Pool& pool = env.cluster.pools()[p];
      if (shape.type != kAnyGpuType && shape.type != pool.type) continue;
      if (survey.NodesWith(env.cluster, p, shape.gpus, shape.lane) < shape.nodes) continue;
      survey.Candidates(env.cluster, p, shape.gpus, shape.lane, slots_);
      Judge(q);
      if (shape.nodes == 1) {
        FindOne(q, pool, avoid, best, plan);
      } else if (best.cost < 0) {
        FindGang(q, pool, best.cost, plan);
      }
    }
    if (best.cost < 0) return false;
    ++plans_in_pass_;
    stopped_.insert(stopped_.end(), plan.victims.begin(), plan.victims.end());
    return true;
  }

 private:
  template <class Policy>
  using Query = VictimQuery<Policy>;

  template <class Policy>
  static bool Shared(const Shape& shape) {
    return Policy::kSharedFailures && shape.workload_class != WorkloadClass::kDebug;
  }

  // What bounds the yield of every node for `requester`, if anything is known; of one that stops
  // more also bounds the others.
  template <class Policy>
  YieldSurvey* SharedSurvey(const Requester& requester) {
    if (surveyed_[0] && !StopsMore<Policy>(requester)) return &shared_survey_[0];
    return surveyed_[1] ? &shared_survey_[1] : nullptr;
  }

  // Before nodes are evaluated for a query.
  template <class Policy>
  void Judge(const Query<Policy>& q) {
    if (!judged_) verdicts_.Ask(q.env, q.policy, q.requester);
    judged_ = true;
  }

  // Before nodes are looked at in order.
  template <class Policy>
  void Bound(const Query<Policy>& q) {
    if (!bounded_) bound_.Reset(q.env);
    bounded_ = true;
    for (RunSlot run : stopped_) bound_.Stopped(q.env, run);
    stopped_.clear();
    bound_.Update(q.env, verdicts_);
  }
  // Whether the node may yield enough.
  template <class Policy>
  bool Hopeful(const Query<Policy>& q, NodeId id) const {
    return bound_.Of(q.env.cluster.node(id), id) >= q.shape.gpus;
  }

  // The best node so far.
  struct Choice {
    std::int64_t cost = -1;
    std::uint32_t slot = 0;  // equal costs at lower slots are better
  };

  // Takes the node if it is the cheapest so far, of equals the first in order; false: it cannot be
  // had, or certainly costs more than the best so far.
  template <class Policy>
  bool Consider(const Query<Policy>& q, const Pool& pool, std::uint32_t slot, NodeId avoid,
                Choice& best, Plan& plan) {
    const NodeId id = pool.nodes[slot];
    const Node& node = q.env.cluster.node(id);
    if (!q.Admits(node) || id == avoid) return false;
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

  // Calls `visit(slot)` for the nodes that the request may use and that have, or soon have, some
  // GPUs free.
  template <class Policy, class Visit>
  static void VisitPartlyFree(const Query<Policy>& q, const Pool& pool, const Visit& visit) {
    const auto look = [&](std::size_t slot) {
      visit(static_cast<std::uint32_t>(slot));
      return true;
    };
    pool.general.VisitTightest(1, 0, pool.nodes.size(), look);
    pool.reserved.VisitTightest(1, 0, pool.nodes.size(), look);
    if (q.shape.lane) pool.lane.VisitTightest(1, 0, pool.nodes.size(), look);
    pool.vacating.VisitRange(0, pool.nodes.size(), [&](std::size_t slot) {
      const Node& node = q.env.cluster.node(pool.nodes[slot]);
      return node.free() > 0 || !Usable(q, node) || look(slot);
    });
  }
  // ... and all others.
  template <class Policy>
  static bool Full(const Query<Policy>& q, const Node& node) {
    return node.soon() <= 0 && Usable(q, node);
  }
  template <class Policy>
  static bool Usable(const Query<Policy>& q, const Node& node) {
    return node.up() && (!node.lane || q.shape.lane);
  }

  // The same by order_: only nodes that may be cheaper than the best so far.
  template <class Policy>
  void FindOneInOrder(const Query<Policy>& q, std::size_t p, NodeId avoid, Choice& best,
                      Plan& plan) {
    const Pool& pool = q.env.cluster.pools()[p];
    const std::int32_t gpus = q.shape.gpus;
    set_.Clear();
    best.slot = 0;
    const auto too_dear = [&](std::int64_t density, std::int32_t needed, std::uint32_t slot) {
      if (best.cost < 0) return false;
      if (density > best.cost / needed) return true;
      return density * needed == best.cost && slot >= best.slot;
    };
    VisitPartlyFree(q, pool, [&](std::uint32_t slot) {
      const NodeId id = pool.nodes[slot];
      const std::int32_t soon = q.env.cluster.node(id).soon();
      const bool hopeless =
          !Hopeful(q, id) || (soon < gpus && too_dear(order_.density(id), gpus - soon, slot));
      if (!hopeless) Consider(q, pool, slot, avoid, best, plan);
    });
    // All others, cheapest first.
    for (const VictimOrder::Entry& e : order_.pool(p)) {
      if (too_dear(e.density, gpus, e.slot)) break;  // and so are those that follow
      const NodeId id = pool.nodes[e.slot];
      if (Hopeful(q, id) && Full(q, q.env.cluster.node(id))) {
        Consider(q, pool, e.slot, avoid, best, plan);
      }
    }
  }

  // Offers the nodes of a pool to a gang by gang_order_, when nothing cheaper is left.
  template <class Policy>
  class OrderedSource {
   public:
    OrderedSource(VictimSearch& search, const Query<Policy>& q, std::size_t p)
        : search_(search), q_(q), p_(p), pool_(q.env.cluster.pools()[p]) {
      auto& rest = search.partly_free_;
      rest.clear();
      VisitPartlyFree(q, pool_, [&](std::uint32_t slot) {
        const std::int64_t density = search_.gang_order_.density(pool_.nodes[slot]);
        const std::int32_t needed = q_.shape.gpus - q_.env.cluster.node(pool_.nodes[slot]).soon();
        if (needed <= 0 || density != VictimOrder::kNoVictims) {
          rest.push_back({needed <= 0 ? 0 : density * needed, slot});
        }
      });
      std::sort(rest.begin(), rest.end());
    }

    void More(const GangAssembly::Rank& limit) {
      const auto& rest = search_.partly_free_;
      const auto& full = search_.gang_order_.pool(p_);
      while (true) {
        while (next_full_ < full.size() && !Full(q_, NodeAt(full[next_full_].slot))) ++next_full_;
        const bool any_full = next_full_ < full.size(), any_rest = next_rest_ < rest.size();
        if (!any_full && !any_rest) return;
        VictimOrder::Entry next = any_rest ? rest[next_rest_] : VictimOrder::kLast;
        bool take_rest = true;
        if (any_full) {
          const VictimOrder::Entry other{full[next_full_].density * q_.shape.gpus,
                                         full[next_full_].slot};
          take_rest = next < other;
          if (!take_rest) next = other;
        }
        if (GangAssembly::Rank{next.density, next.density, next.slot} >
            std::min(limit, search_.gang_.first())) {
          return;
        }
        ++(take_rest ? next_rest_ : next_full_);
        Offer(pool_.nodes[next.slot]);
      }
    }
    void Reached(NodeId id) {
      if (q_.env.cluster.PoolOf(id) == p_ && Usable(q_, q_.env.cluster.node(id))) Offer(id);
    }

   private:
    const Node& NodeAt(std::uint32_t slot) const { return q_.env.cluster.node(pool_.nodes[slot]); }
    void Offer(NodeId id) {
      if (search_.Hopeful(q_, id) && !search_.gang_.Offered(id)) search_.gang_.Offer(q_, id);
    }

    VictimSearch& search_;
    const Query<Policy>& q_;
    std::size_t p_;
    const Pool& pool_;
    std::size_t next_full_ = 0, next_rest_ = 0;
  };

  // Whether the order has been of use in this pass; what it finds is then what the survey would
  // have led to. If it finds nothing, the survey has to be made for later requests anyway.
  template <class Policy>
  bool FindInOrder(const Query<Policy>& q, NodeId avoid, Plan& plan) {
    const bool gang = q.shape.nodes > 1;
    if (!Policy::kCostsIgnoreKeys || plans_in_pass_ < kManyPlans || !q.env.carried_out ||
        (gang && q.shape.rule == TopologyRule::kRequired)) {
      return false;
    }
    VictimOrder& order = gang ? gang_order_ : order_;
    bool& ordered = gang ? gang_ordered_ : ordered_;
    if (!ordered) {
      order.Build(q.env, q.policy, gang ? VictimOrder::Cost::kShared : VictimOrder::Cost::kWhole);
    }
    ordered = true;
    Judge(q);
    Bound(q);
    Choice best;
    for (std::size_t p = 0; p < q.env.cluster.pools().size(); ++p) {
      if (q.shape.type != kAnyGpuType && q.shape.type != q.env.cluster.pools()[p].type) continue;
      if (!gang) {
        FindOneInOrder(q, p, avoid, best, plan);
      } else if (best.cost < 0) {
        gang_.Begin(q);
        gang_.Assemble(q, OrderedSource<Policy>(*this, q, p), best.cost, plan);
      }
    }
    return best.cost >= 0;
  }

  // Chooses among the nodes in slots_.
  template <class Policy>
  void FindGang(const Query<Policy>& q, const Pool& pool, std::int64_t& best, Plan& plan) {
    const auto choose = [&](std::uint32_t begin, std::uint32_t end) {
      const auto first = std::lower_bound(slots_.begin(), slots_.end(), begin);
      const auto last = std::lower_bound(first, slots_.end(), end);
      if (last - first < q.shape.nodes) return;
      gang_.Begin(q);
      for (auto slot = first; slot != last; ++slot) gang_.Offer(q, pool.nodes[*slot]);
      gang_.Assemble(q, AllOffered{}, best, plan);
    };
    if (q.shape.rule == TopologyRule::kPreferred) {
      choose(0, static_cast<std::uint32_t>(pool.nodes.size()));
      return;
    }
    const std::uint8_t level = internal::EffectiveLevel(q.env.cluster, q.shape);
    for (DomainId d : q.env.cluster.DomainsAt(level)) {
      const auto [begin, end] = pool.range[d.value()];
      choose(begin, end);
    }
  }

  static constexpr std::int64_t kSessionAway = 20'000'000;  // GPU-ms

  static constexpr int kManyPlans = 2;  // after which the order pays for being built

  VictimOrder order_, gang_order_;
  bool ordered_ = false, gang_ordered_ = false;  // the orders are of this pass
  YieldBound bound_;
  bool bounded_ = false;          // bound_ is of this pass
  std::vector<RunSlot> stopped_;  // victims of plans, which bound_ may still count
  int plans_in_pass_ = 0;
  // Of this round, by a request that stops no more than others, and by one that does.
  std::array<bool, 2> surveyed_{};
  std::array<YieldSurvey, 2> shared_survey_;
  YieldSurvey own_survey_;
  std::vector<std::uint32_t> slots_;  // of nodes that yield enough, ascending

  GroupVerdicts verdicts_;
  bool judged_ = false;  // verdicts_ are of the present query
  VictimSet set_;        // of a node
  GangAssembly gang_;
  std::vector<VictimOrder::Entry> partly_free_;  // of a gang: what their nodes cost at least
};

}  // namespace tenure

#endif  // TENURE_PREEMPTION_H_
