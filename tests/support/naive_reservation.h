// SPDX-License-Identifier: Apache-2.0
//
// The nodes of a promised start by looking at all of them: what ReservationSearch has to answer.
#ifndef TENURE_TESTS_SUPPORT_NAIVE_RESERVATION_H_
#define TENURE_TESTS_SUPPORT_NAIVE_RESERVATION_H_

#include <algorithm>
#include <cstdint>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "tenure/cluster.h"
#include "tenure/placement.h"
#include "tenure/policy.h"
#include "tenure/reservation.h"
#include "tenure/types.h"
#include "tenure/yield_survey.h"

namespace tenure::test {

template <class Policy>
class NaiveReservation {
 public:
  NaiveReservation(const VictimEnv& env, const Policy& policy, const Shape& shape)
      : env_(env), policy_(policy), shape_(shape), k_(static_cast<std::size_t>(shape.nodes)) {}

  bool Find(ReservationPlan& plan) const {
    bool found = false;
    for (const Pool& pool : env_.cluster.pools()) {
      if (shape_.type != kAnyGpuType && shape_.type != pool.type) continue;
      const bool required = shape_.rule == TopologyRule::kRequired;
      const std::uint8_t level = required ? internal::EffectiveLevel(env_.cluster, shape_) : 0;
      for (DomainId d : env_.cluster.DomainsAt(level)) {
        ReservationPlan here;
        if (!FindIn(pool, d, here)) continue;
        if (!found || here.at < plan.at) plan = here;
        found = true;
      }
    }
    return found;
  }

 private:
  struct Candidate {
    std::int32_t sessions;
    TimePoint at;
    NodeId node;
  };

  bool FindIn(const Pool& pool, DomainId domain, ReservationPlan& plan) const {
    std::vector<Candidate> candidates = Candidates(pool, domain);
    while (true) {
      if (candidates.size() < k_) return false;
      plan.at = env_.policy.now;
      for (std::size_t i = 0; i < k_; ++i) plan.at = std::max(plan.at, candidates[i].at);
      const TimePoint ends = shape_.EndsBy(plan.at + env_.wait);
      if (std::erase_if(candidates, [&](const Candidate& c) {
            return env_.cluster.node(c.node).closes_at < ends;
          }) == 0) {
        break;
      }
    }
    std::erase_if(candidates, [&](const Candidate& c) { return c.at > plan.at; });
    Choose(candidates, plan);
    return true;
  }

  // Fewest sessions first, then soonest, then in topological order.
  std::vector<Candidate> Candidates(const Pool& pool, DomainId domain) const {
    std::vector<Candidate> candidates;
    const auto [begin, end] = pool.range[domain.value()];
    for (std::uint32_t slot = begin; slot < end; ++slot) {
      const Node& n = env_.cluster.node(pool.nodes[slot]);
      if (!n.up() || n.lane || n.reserved_for != kNoSlot || !n.holds.empty()) continue;
      if (n.gpus < shape_.gpus) continue;
      TimePoint at = env_.policy.now;
      for (const Occupant& o : n.runs) {
        const Run& run = env_.table.run(o.run);
        if (!run.funded) continue;
        at = std::max(at,
                      run.workload_class == WorkloadClass::kServing ? kNever : run.protected_until);
      }
      if (at < kNever) candidates.push_back({n.sessions, at, pool.nodes[slot]});
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) {
                       return std::tie(a.sessions, a.at) < std::tie(b.sessions, b.at);
                     });
    return candidates;
  }

  // The cheapest of all that are left, k times.
  void Choose(std::vector<Candidate>& candidates, ReservationPlan& plan) const {
    const PolicyContext then{env_.policy.tree, env_.policy.ranking, plan.at};
    std::set<RunSlot> paid;
    for (auto needed = static_cast<std::int32_t>(k_); needed > 0; --needed) {
      const auto cost = [&](const Candidate& c) {
        std::int64_t sum = 0;
        for (const Occupant& o : env_.cluster.node(c.node).runs) {
          const Run& run = env_.table.run(o.run);
          if (paid.count(o.run) > 0 || run.state == WorkloadState::kStopping) continue;
          sum += policy_.VictimCost(then, run) / std::max(1, std::min(run.node_count, needed));
        }
        return sum;
      };
      const auto pick = std::min_element(
          candidates.begin(), candidates.end(),
          [&](const Candidate& a, const Candidate& b) { return cost(a) < cost(b); });
      plan.nodes.push_back(pick->node);
      for (const Occupant& o : env_.cluster.node(pick->node).runs) paid.insert(o.run);
      candidates.erase(pick);
    }
  }

  const VictimEnv& env_;
  const Policy& policy_;
  const Shape& shape_;
  std::size_t k_;
};

}  // namespace tenure::test

#endif  // TENURE_TESTS_SUPPORT_NAIVE_RESERVATION_H_
