// SPDX-License-Identifier: Apache-2.0
//
// How many GPUs every node could yield to one request: those that are free, or free once runs that
// are being stopped are gone, and those of runs that it may stop. A search for victims looks at the
// nodes that yield enough and at no others.
//
//   YieldSurvey survey;
//   survey.Measure(env, policy, requester);
//   if (survey.NodesWith(pool, 4, with_lane) >= 2) survey.Candidates(pool, 4, with_lane, slots);
//
// One invariant: until a run, a placement or a key changes, yield(n) is n.soon() plus the GPUs of
// the runs on n that may be stopped. Complexity: Measure O(groups + runs of the groups that the
// policy does not rule out), independent of the number of nodes; Candidates O(c log c) for c nodes
// found. Deterministic.
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
    return rules.MayPreempt(
        policy, requester,
        Victim{run, lane, ledger.placed_charge(run.leaf) - taken, ledger.sessions(run.leaf)});
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
      if (group.funded && !env.funded_stops) continue;
      const VictimGroup judged{group.leaf,
                               group.funded,
                               group.session,
                               group.idle,
                               group.lane,
                               group.quiet,
                               env.ledger.placed_charge(group.leaf),
                               env.ledger.sessions(group.leaf)};
      const GroupVerdict verdict = policy.JudgeGroup(env.policy, requester, judged);
      if (verdict == GroupVerdict::kNone) continue;
      const bool ask = verdict == GroupVerdict::kEach;
      for (const StoppableRuns::Member& m : group.members) {
        const auto add = [&](NodeId id) {
          if (!ask || env.MayStop(policy, requester, env.table.run(m.slot),
                                  env.cluster.node(id).lane, MilliGpu(0))) {
            Add(id, m.gpus);
          }
        };
        if (m.node != kNoNode) {
          add(m.node);
        } else {
          for (NodeId id : env.table.workload(m.slot).nodes) add(id);
        }
      }
    }
    Count(env.cluster);
  }

  std::int32_t yield(const Node& node, NodeId id) const { return node.soon() + extra_[id.value()]; }

  // Healthy nodes of a pool that yield at least `gpus` > 0.
  std::int64_t NodesWith(std::size_t pool, std::int32_t gpus, bool with_lane) const {
    const auto& counts = with_lane ? pools_[pool].all : pools_[pool].general;
    const auto g = static_cast<std::size_t>(gpus);
    return g < counts.size() ? counts[g] : 0;
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
    for (NodeId id : pools_[pool].changed) {
      const Node& n = cluster.node(id);
      if (n.free() < gpus && yield(n, id) >= gpus && (with_lane || !n.lane)) {
        slots.push_back(n.slot);
      }
    }
    std::sort(slots.begin(), slots.end());
  }

 private:
  struct PerPool {
    std::vector<NodeId> changed;             // healthy, yield more than they have free
    std::vector<std::int64_t> general, all;  // nodes that yield at least so many GPUs
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
  void Count(const Cluster& cluster) {
    for (std::size_t i = 0; i < pools_.size(); ++i) {
      const Pool& pool = cluster.pools()[i];
      pools_[i].changed.clear();
      pools_[i].general.assign(pool.general.levels(), 0);
      pools_[i].all.assign(pool.general.levels(), 0);
      for (std::int64_t s = pool.vacating.NextFrom(0); s >= 0;
           s = pool.vacating.NextFrom(static_cast<std::size_t>(s) + 1)) {
        const NodeId id = pool.nodes[static_cast<std::size_t>(s)];
        if (extra_[id.value()] == 0) Changed(cluster, pools_[i], id);
      }
    }
    for (NodeId id : touched_) Changed(cluster, pools_[cluster.PoolOf(id)], id);
    for (std::size_t i = 0; i < pools_.size(); ++i) {
      const Pool& pool = cluster.pools()[i];
      std::int64_t general = 0, lane = 0;  // differences of so many GPUs and more
      for (std::size_t g = pools_[i].all.size(); g-- > 0;) {
        const auto level = static_cast<std::int64_t>(g);
        general += pools_[i].general[g];
        lane += pools_[i].all[g];
        pools_[i].general[g] = general + pool.general.CountAtLeast(kRootDomain, level) +
                               pool.reserved.CountAtLeast(kRootDomain, level);
        pools_[i].all[g] = pools_[i].general[g] + lane + pool.lane.CountAtLeast(kRootDomain, level);
      }
    }
  }
  // Until the sums are formed, `general` holds the difference for ordinary nodes, `all` for lane
  // nodes: how many more yield so many GPUs than have as many free.
  void Changed(const Cluster& cluster, PerPool& pool, NodeId id) {
    const Node& n = cluster.node(id);
    if (!n.up()) return;
    pool.changed.push_back(id);
    std::vector<std::int64_t>& counts = n.lane ? pool.all : pool.general;
    --counts[static_cast<std::size_t>(std::max(0, n.free()))];
    ++counts[static_cast<std::size_t>(std::max(0, yield(n, id)))];
  }

  std::vector<std::int32_t> extra_;  // by node: GPUs of runs that may be stopped
  std::vector<NodeId> touched_;      // nodes with extra_ > 0
  std::vector<PerPool> pools_;
};

}  // namespace tenure

#endif  // TENURE_YIELD_SURVEY_H_
