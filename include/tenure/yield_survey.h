// SPDX-License-Identifier: Apache-2.0
//
// How many GPUs every node could yield to one request: those that are free, or free once runs that
// are being stopped are gone, and those of runs that it may stop. A search for victims looks at the
// nodes that yield enough and at no others.
//
//   YieldSurvey survey;
//   survey.Measure(env, policy, requester);
//   if (survey.NodesWith(cluster, pool, 4, with_lane) >= 2) {
//     survey.Candidates(cluster, pool, 4, with_lane, slots);
//   }
//
// One invariant: until a run, a placement or a key changes, yield(n) is n.soon() plus the GPUs of
// the runs on n that may be stopped. Complexity: Measure O(groups + runs of the groups that the
// policy does not rule out), independent of the number of nodes; NodesWith O(nodes of those runs)
// for the first question about so many GPUs; Candidates O(c log c) for c nodes found.
// Deterministic.
#ifndef TENURE_YIELD_SURVEY_H_
#define TENURE_YIELD_SURVEY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tenure/cluster.h"
#include "tenure/ledger.h"
#include "tenure/policy.h"
#include "tenure/stoppable_runs.h"
#include "tenure/types.h"
#include "tenure/workload_table.h"

namespace tenure {

// What a search for victims looks at.
struct VictimEnv {
  const Cluster& cluster;
  const WorkloadTable& table;
  const Ledger& ledger;
  const StoppableRuns& stoppable;  // advanced to the instant of `policy`
  const PolicyContext& policy;
  Duration wait{0};          // from now to the start of the request, at most
  bool funded_stops = true;  // false: only unfunded runs may be stopped
  bool carried_out = true;   // false: what is found may still be rejected

  // The contract, before the policy is asked. `taken`: what else is stopped of the run's leaf.
  template <class Policy>
  bool MayStop(const Policy& rules, const Requester& requester, const Run& run, bool lane,
               MilliGpu taken) const {
    if (run.state != WorkloadState::kRunning) return false;
    if (run.funded && (policy.now < run.protected_until || !funded_stops)) return false;
    return rules.MayPreempt(policy, requester,
                            Victim{run, lane, ledger.placed_charge(run.leaf) - taken,
                                   ledger.sessions(run.leaf), ledger.serving(run.leaf)});
  }
  // The same for all runs of a group.
  template <class Policy>
  GroupVerdict Judge(const Policy& rules, const Requester& requester,
                     const StoppableRuns::Group& group) const {
    if (group.funded && !funded_stops) return GroupVerdict::kNone;
    return rules.JudgeGroup(
        policy, requester,
        {group.leaf, group.funded, group.session, group.idle, group.lane, group.quiet,
         group.least_charge, ledger.placed_charge(group.leaf), ledger.sessions(group.leaf)});
  }
};

class YieldSurvey {
 public:
  // `env.stoppable` must have been kept with the same policy.
  template <class Policy>
  void Measure(const VictimEnv& env, const Policy& policy, const Requester& requester) {
    Clear(env.cluster);
    for (std::uint32_t g : env.stoppable.occupied()) {
      const StoppableRuns::Group& group = env.stoppable.group(g);
      const GroupVerdict verdict = env.Judge(policy, requester, group);
      if (verdict == GroupVerdict::kNone) continue;
      const bool ask = verdict == GroupVerdict::kEach;
      const MilliGpu placed = env.ledger.placed_charge(group.leaf);
      const MilliGpu sessions = env.ledger.sessions(group.leaf);
      const MilliGpu serving = env.ledger.serving(group.leaf);
      for (const StoppableRuns::Member& m : group.members) {
        // The contract lets it be stopped, or it would be in no group.
        const auto add = [&](NodeId id, bool lane) {
          if (!ask || policy.MayPreempt(env.policy, requester,
                                        {env.table.run(m.slot), lane, placed, sessions, serving})) {
            Add(id, m.gpus);
          }
        };
        if (m.node != kNoNode) {
          add(m.node, group.lane);
        } else {
          for (NodeId id : env.table.workload(m.slot).nodes) add(id, env.cluster.node(id).lane);
        }
      }
    }
    ListYielding(env.cluster);
  }

  // Healthy nodes of a pool that yield at least `gpus` > 0.
  std::int64_t NodesWith(const Cluster& cluster, std::size_t pool, std::int32_t gpus,
                         bool with_lane) {
    const Pool& p = cluster.pools()[pool];
    const auto g = static_cast<std::size_t>(gpus);
    if (g >= p.general.levels()) return 0;
    Counts& counts = pools_[pool].counts[g];
    if (!counts.known) {
      counts = {
          p.general.CountAtLeast(kRootDomain, gpus) + p.reserved.CountAtLeast(kRootDomain, gpus),
          p.lane.CountAtLeast(kRootDomain, gpus), true};
      for (const Yielding& y : pools_[pool].yielding) {
        if (y.free < gpus && y.yield >= gpus) ++(y.lane ? counts.lane : counts.ordinary);
      }
    }
    return counts.ordinary + (with_lane ? counts.lane : 0);
  }

  // Their slots, ascending.
  void Candidates(const Cluster& cluster, std::size_t pool, std::int32_t gpus, bool with_lane,
                  std::vector<std::uint32_t>& slots) const {
    slots.clear();
    const Pool& p = cluster.pools()[pool];
    const auto take = [&](const internal::FreeIndex& index) {
      index.VisitTightest(gpus, 0, p.nodes.size(), [&](std::size_t slot) {
        slots.push_back(static_cast<std::uint32_t>(slot));
        return true;
      });
    };
    take(p.general);
    take(p.reserved);
    if (with_lane) take(p.lane);
    for (const Yielding& y : pools_[pool].yielding) {
      if (y.free < gpus && y.yield >= gpus && (with_lane || !y.lane)) slots.push_back(y.slot);
    }
    std::sort(slots.begin(), slots.end());
  }

 private:
  // A healthy node that may yield more than it has free.
  struct Yielding {
    std::uint32_t slot;
    std::int32_t free, yield;
    bool lane;
  };
  // Nodes that yield at least so many GPUs.
  struct Counts {
    std::int64_t ordinary = 0, lane = 0;
    bool known = false;
  };
  struct PerPool {
    std::vector<Yielding> yielding;
    std::vector<Counts> counts;  // by GPUs
  };

  void Clear(const Cluster& cluster) {
    for (NodeId id : touched_) extra_[id.value()] = 0;
    touched_.clear();
    extra_.resize(cluster.size(), 0);
    pools_.resize(cluster.pools().size());
  }
  void Add(NodeId id, std::int32_t gpus) {
    if (extra_[id.value()] == 0) touched_.push_back(id);
    extra_[id.value()] += gpus;
  }
  void ListYielding(const Cluster& cluster) {
    const auto list = [&](PerPool& pool, NodeId id) {
      const Node& n = cluster.node(id);
      if (!n.up()) return;
      pool.yielding.push_back(
          {n.slot, std::max(0, n.free()), n.soon() + extra_[id.value()], n.lane});
    };
    for (std::size_t i = 0; i < pools_.size(); ++i) {
      const Pool& pool = cluster.pools()[i];
      pools_[i].yielding.clear();
      pools_[i].counts.assign(pool.general.levels(), Counts());
      pool.vacating.VisitRange(0, pool.nodes.size(), [&](std::size_t slot) {
        const NodeId id = pool.nodes[slot];
        if (extra_[id.value()] == 0) list(pools_[i], id);
        return true;
      });
    }
    for (NodeId id : touched_) list(pools_[cluster.PoolOf(id)], id);
  }

  std::vector<std::int32_t> extra_;  // by node: GPUs of runs that may be stopped
  std::vector<NodeId> touched_;      // nodes with extra_ > 0
  std::vector<PerPool> pools_;
};

}  // namespace tenure

#endif  // TENURE_YIELD_SURVEY_H_
