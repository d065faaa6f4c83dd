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
#include <span>
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
    const std::span<const std::uint32_t> groups =
        policy.StopsQuiet(requester) ? env.stoppable.occupied() : env.stoppable.stirred();
    for (std::uint32_t g : groups) {
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
            Add(env.cluster, id, m.gpus);
          }
        };
        if (m.node != kNoNode) {
          add(m.node, group.lane);
        } else {
          for (NodeId id : env.table.workload(m.slot).nodes) add(id, env.cluster.node(id).lane);
        }
      }
    }
    AddVacating(env.cluster);
  }

  // Healthy nodes of a pool that yield at least `gpus` > 0.
  std::int64_t NodesWith(const Cluster& cluster, std::size_t pool, std::int32_t gpus,
                         bool with_lane) {
    const Pool& p = cluster.pools()[pool];
    const auto g = static_cast<std::size_t>(gpus);
    if (g >= p.general.levels()) return 0;
    Counts& counts = counts_[pool][g];
    if (!counts.known) {
      counts = {
          p.general.CountAtLeast(kRootDomain, gpus) + p.reserved.CountAtLeast(kRootDomain, gpus),
          p.lane.CountAtLeast(kRootDomain, gpus), true};
      for (const Yielding& y : yielding_) {
        if (y.pool == pool && y.free < gpus && y.yield >= gpus) {
          ++(y.lane ? counts.lane : counts.ordinary);
        }
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
    for (const Yielding& y : yielding_) {
      if (y.pool == pool && y.free < gpus && y.yield >= gpus && (with_lane || !y.lane)) {
        slots.push_back(y.slot);
      }
    }
    std::sort(slots.begin(), slots.end());
  }

 private:
  // A healthy node that may yield more than it has free.
  struct Yielding {
    NodeId node;
    std::uint32_t slot, pool;
    std::int32_t free, yield;
    bool lane;
  };
  // Nodes that yield at least so many GPUs.
  struct Counts {
    std::int64_t ordinary = 0, lane = 0;
    bool known = false;
  };

  void Clear(const Cluster& cluster) {
    for (const Yielding& y : yielding_) place_[y.node.value()] = 0;
    yielding_.clear();
    place_.resize(cluster.size(), 0);
    counts_.resize(cluster.pools().size());
    for (std::size_t p = 0; p < counts_.size(); ++p) {
      counts_[p].assign(cluster.pools()[p].general.levels(), Counts());
    }
  }
  // `gpus` more of a node may be had.
  void Add(const Cluster& cluster, NodeId id, std::int32_t gpus) {
    std::uint32_t& place = place_[id.value()];
    if (place == 0) {
      const Node& n = cluster.node(id);
      if (!n.up()) return;
      yielding_.push_back({id, n.slot, static_cast<std::uint32_t>(cluster.PoolOf(id)),
                           std::max(0, n.free()), n.soon(), n.lane});
      place = static_cast<std::uint32_t>(yielding_.size());
    }
    yielding_[place - 1].yield += gpus;
  }
  // Nodes whose runs are being stopped.
  void AddVacating(const Cluster& cluster) {
    for (const Pool& pool : cluster.pools()) {
      pool.vacating.VisitRange(0, pool.nodes.size(), [&](std::size_t slot) {
        Add(cluster, pool.nodes[slot], 0);
        return true;
      });
    }
  }

  std::vector<Yielding> yielding_;
  std::vector<std::uint32_t> place_;         // by node: in yielding_, from 1 on; 0: not there
  std::vector<std::vector<Counts>> counts_;  // by pool and GPUs
};

}  // namespace tenure

#endif  // TENURE_YIELD_SURVEY_H_
