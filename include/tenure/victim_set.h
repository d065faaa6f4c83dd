// SPDX-License-Identifier: Apache-2.0
//
// A set of victims while it grows node by node, and what one more node would add to it.
//
//   GroupVerdicts verdicts;
//   verdicts.Ask(env, policy, requester);
//   VictimSet set;
//   set.Resize(env);
//   set.Clear();
//   std::int64_t cost = set.Evaluate(query, node, remaining);  // picked() would have to go as well
//   for (const auto& c : set.picked()) set.Keep(c.slot, table.run(c.slot));
//
// One invariant: what is kept counts as gone, on all its nodes and in the charge of its leaf.
// Complexity: Evaluate O(R log R) for R runs on the node, without asking the policy about any run
// if it spares the groups of too many; Clear O(what was kept).
#ifndef TENURE_VICTIM_SET_H_
#define TENURE_VICTIM_SET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "tenure/cluster.h"
#include "tenure/placement.h"
#include "tenure/policy.h"
#include "tenure/types.h"
#include "tenure/workload_table.h"
#include "tenure/yield_bound.h"
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

// Who asks for what, of whom.
template <class Policy>
struct VictimQuery {
  const VictimEnv& env;
  const Policy& policy;
  const Requester& requester;
  const Shape& shape;
  const GroupVerdicts& verdicts;

  // True: it may not be stopped, whatever else is.
  bool Spares(RunSlot run) const {
    return verdicts.OfRun(env.stoppable, run) == GroupVerdict::kNone;
  }
  bool MayStop(RunSlot slot, const Run& run, bool lane, MilliGpu taken) const {
    const bool surely =
        taken == MilliGpu(0) && verdicts.OfRun(env.stoppable, slot) == GroupVerdict::kAll;
    return surely || env.MayStop(policy, requester, run, lane, taken);
  }
  // Whether work of this shape may start on the node when the victims are gone.
  bool Admits(const Node& node) const {
    return node.Admits(shape.EndsBy(env.policy.now + env.wait), shape.stays());
  }
};

class VictimSet {
 public:
  struct Candidate {
    std::int64_t cost = 0;
    WorkloadId id;
    RunSlot slot = kNoSlot;
    std::int32_t gpus = 0;  // on the node in question
  };

  // For all runs and allocations there are.
  void Resize(const VictimEnv& env) {
    chosen_.resize(std::max(chosen_.size(), env.table.slots()), 0);
    taken_.resize(env.policy.tree.size());
  }

  void Clear() {
    ++epoch_;
    for (AllocationId leaf : touched_) taken_[leaf.value()] = MilliGpu(0);
    touched_.clear();
  }
  bool Contains(RunSlot slot) const { return chosen_[slot] == epoch_; }
  void Keep(RunSlot slot, const Run& run) {
    Keep(slot);
    Take(run);
  }
  // In and out again without its charge, once the set is complete.
  void Keep(RunSlot slot) { chosen_[slot] = epoch_; }
  void Leave(RunSlot slot) { chosen_[slot] = 0; }

  // The cheapest sufficient victims on one node given what is chosen already; left in
  // picked(). `remaining`: nodes the gang still needs, this one included. Returns
  // the marginal cost, or -1 if the node cannot be had or certainly costs `limit` or more.
  template <class Policy>
  std::int64_t Evaluate(const VictimQuery<Policy>& q, const Node& node, std::int32_t remaining,
                        std::int64_t limit = std::numeric_limits<std::int64_t>::max()) {
    picked_.clear();
    candidates_.clear();
    needed_ = kImpossible;
    std::int32_t available = node.soon();
    std::int32_t possible = available + node.occupied;  // less what is spared
    for (const Occupant& o : node.runs) {
      if (Contains(o.run)) {  // leaves already for another node of this gang
        available += o.gpus;
      } else if (!q.Spares(o.run)) {
        candidates_.push_back({0, WorkloadId(), o.run, o.gpus});
      } else if ((possible -= o.gpus) < q.shape.gpus) {
        return -1;
      }
    }
    if (possible < q.shape.gpus) return -1;
    std::size_t stoppable = 0;
    for (const Candidate& c : candidates_) {
      const Run& run = q.env.table.run(c.slot);
      if (q.MayStop(c.slot, run, node.lane, Taken(run.leaf))) {
        candidates_[stoppable++] = {0, run.id, c.slot, c.gpus};
      } else if ((possible -= c.gpus) < q.shape.gpus) {
        return -1;
      }
    }
    candidates_.resize(stoppable);
    needed_ = q.shape.gpus - available;
    if (needed_ <= 0) return 0;
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
      if (touched_.size() > mark && !q.MayStop(c.slot, run, node.lane, Taken(run.leaf))) continue;
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

  // After Evaluate without a limit: what the node costs at least, now and whatever else is chosen,
  // as long as no victim on it is; -1: it cannot be had then. The cost itself is no such bound:
  // with fewer victims to choose from, or dearer ones, the greedy choice may turn out better.
  std::int64_t Floor() {
    if (needed_ <= 0) return 0;
    if (needed_ == kImpossible) return -1;
    // As if runs could be stopped in parts, the cheapest per GPU first.
    std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
      return a.cost / a.gpus < b.cost / b.gpus;
    });
    std::int64_t floor = 0;
    std::int32_t left = needed_;
    for (const Candidate& c : candidates_) {
      const std::int32_t gpus = std::min(left, c.gpus);
      floor += c.cost / c.gpus * gpus;
      left -= gpus;
      if (left == 0) break;
    }
    return left == 0 ? floor : -1;
  }

  // What the last call of Evaluate would stop.
  const std::vector<Candidate>& picked() const { return picked_; }

 private:
  MilliGpu Taken(AllocationId leaf) const { return taken_[leaf.value()]; }
  void Take(const Run& run) {
    if (!run.funded) return;
    taken_[run.leaf.value()] += run.charge();
    touched_.push_back(run.leaf);
  }

  static constexpr std::int32_t kImpossible = std::numeric_limits<std::int32_t>::max();

  std::uint64_t epoch_ = 0;
  std::vector<std::uint64_t> chosen_;  // by slot: == epoch_ when in the set
  std::vector<MilliGpu> taken_;        // by allocation: what the set takes from it
  std::vector<AllocationId> touched_;  // allocations with taken_ > 0
  std::vector<Candidate> candidates_, picked_;
  std::int32_t needed_ = 0;  // GPUs that the candidates of the last node have to yield
};

}  // namespace tenure

#endif  // TENURE_VICTIM_SET_H_
