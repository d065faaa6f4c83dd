// SPDX-License-Identifier: Apache-2.0
//
// How many GPUs every node could yield to a request at most, kept from one request of a pass to the
// next, so that a search for victims looks at no run of a node that cannot yield enough.
//
//   YieldBound bound;
//   bound.Reset(env);                          // a pass begins
//   bound.Update(env, verdicts);               // the requester is another
//   if (bound.Of(node, id) < shape.gpus) ...   // it cannot be had
//   bound.Stopped(env, victim);
//
// One invariant: after Update and until a run becomes stoppable, Of(n) is at least n.soon() plus
// the GPUs of the runs on n that the requester may stop. It is that with the runs whose groups the
// policy does not spare, and those that have been stopped without a call of Stopped.
// Complexity: Update O(groups + runs of the groups whose verdict has changed), the rest O(1) a
// node.
#ifndef TENURE_YIELD_BOUND_H_
#define TENURE_YIELD_BOUND_H_

#include <cstdint>
#include <vector>

#include "tenure/cluster.h"
#include "tenure/policy.h"
#include "tenure/stoppable_runs.h"
#include "tenure/types.h"
#include "tenure/yield_survey.h"

namespace tenure {

// What the policy says about the groups of runs that the contract lets it stop, for one requester.
// Valid until a run, a placement or a key changes.
class GroupVerdicts {
 public:
  // O(groups).
  template <class Policy>
  void Ask(const VictimEnv& env, const Policy& policy, const Requester& requester) {
    verdicts_.resize(env.stoppable.groups());
    for (std::uint32_t g : env.stoppable.occupied()) {
      verdicts_[g] = env.Judge(policy, requester, env.stoppable.group(g));
    }
  }
  // Of a group that has runs.
  GroupVerdict of(std::uint32_t group) const { return verdicts_[group]; }
  // Of the group of a run; kNone if the contract protects it.
  GroupVerdict OfRun(const StoppableRuns& stoppable, RunSlot run) const {
    const std::uint32_t group = stoppable.GroupOf(run);
    return group == StoppableRuns::kNoGroup ? GroupVerdict::kNone : verdicts_[group];
  }

 private:
  std::vector<GroupVerdict> verdicts_;  // by group
};

class YieldBound {
 public:
  void Reset(const VictimEnv& env) {
    gpus_.assign(env.cluster.size(), 0);
    counted_groups_.assign(env.stoppable.groups(), false);
    counted_.assign(env.table.slots(), false);
  }

  void Update(const VictimEnv& env, const GroupVerdicts& verdicts) {
    for (std::uint32_t g : env.stoppable.occupied()) {
      const bool count = verdicts.of(g) != GroupVerdict::kNone;
      if (counted_groups_[g] == count) continue;
      counted_groups_[g] = count;
      for (const StoppableRuns::Member& m : env.stoppable.group(g).members) {
        Count(env, m.slot, count);
      }
    }
  }

  // The run may have been stopped.
  void Stopped(const VictimEnv& env, RunSlot run) {
    if (counted_[run] && env.stoppable.GroupOf(run) == StoppableRuns::kNoGroup) {
      Count(env, run, false);
    }
  }

  std::int32_t Of(const Node& node, NodeId id) const { return node.soon() + gpus_[id.value()]; }

 private:
  void Count(const VictimEnv& env, RunSlot run, bool count) {
    counted_[run] = count;
    const std::int32_t gpus = env.table.run(run).gpus_per_node;
    for (NodeId id : env.table.workload(run).nodes) gpus_[id.value()] += count ? gpus : -gpus;
  }

  std::vector<std::int32_t> gpus_;    // by node: of runs that are counted
  std::vector<bool> counted_groups_;  // by group
  std::vector<bool> counted_;         // by run
};

}  // namespace tenure

#endif  // TENURE_YIELD_BOUND_H_
