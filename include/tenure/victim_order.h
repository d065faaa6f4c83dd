// SPDX-License-Identifier: Apache-2.0
//
// Nodes by how cheap a GPU can become there: where a search for victims looks first, and when it
// may stop looking.
//
//   VictimOrder order;
//   order.Build(env, policy, VictimOrder::Cost::kWhole);
//   for (const VictimOrder::Entry& e : order.pool(0)) ...   // cheapest first
//
// One invariant: from Build until a run starts to run, becomes stoppable or changes its cost, g
// GPUs of victims on a node cost at least g x density(node). It stays true while runs are stopped:
// the bound is of all runs that the contract lets a policy stop, whatever the policy says. A run
// over several nodes counts whole for a request of one node; for a gang its cost may be shared by
// them. Complexity: Build O(S + n log n) for S such runs on n nodes. Deterministic.
#ifndef TENURE_VICTIM_ORDER_H_
#define TENURE_VICTIM_ORDER_H_

#include <algorithm>
#include <compare>
#include <cstdint>
#include <limits>
#include <vector>

#include "tenure/cluster.h"
#include "tenure/types.h"
#include "tenure/yield_survey.h"

namespace tenure {

class VictimOrder {
 public:
  static constexpr std::int64_t kNoVictims = std::numeric_limits<std::int64_t>::max();

  struct Entry {
    std::int64_t density;  // cost of a GPU, at least
    std::uint32_t slot;    // of the node in its pool
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };
  static constexpr Entry kLast{kNoVictims, 0xffffffffu};

  enum class Cost : std::uint8_t { kWhole, kShared };

  template <class Policy>
  void Build(const VictimEnv& env, const Policy& policy, Cost how) {
    density_.assign(env.cluster.size(), kNoVictims);
    pools_.resize(env.cluster.pools().size());
    for (auto& pool : pools_) pool.clear();
    for (std::uint32_t g : env.stoppable.occupied()) {
      for (const StoppableRuns::Member& m : env.stoppable.group(g).members) {
        const Run& run = env.table.run(m.slot);
        const std::int64_t parts = how == Cost::kShared ? std::max(1, run.node_count) : 1;
        const std::int64_t cost = policy.VictimCost(env.policy, run) / parts / m.gpus;
        const auto offer = [&](NodeId id) {
          std::int64_t& density = density_[id.value()];
          density = std::min(density, cost);
        };
        if (m.node != kNoNode) {
          offer(m.node);
        } else {
          for (NodeId id : env.table.workload(m.slot).nodes) offer(id);
        }
      }
    }
    for (std::size_t p = 0; p < pools_.size(); ++p) {
      const Pool& pool = env.cluster.pools()[p];
      for (std::uint32_t slot = 0; slot < pool.nodes.size(); ++slot) {
        const std::int64_t density = density_[pool.nodes[slot].value()];
        if (density != kNoVictims) pools_[p].push_back({density, slot});
      }
      std::sort(pools_[p].begin(), pools_[p].end());
    }
  }

  // kNoVictims: nothing on the node may be stopped.
  std::int64_t density(NodeId id) const { return density_[id.value()]; }
  // The nodes of a pool that have victims, by density, then slot.
  const std::vector<Entry>& pool(std::size_t p) const { return pools_[p]; }

 private:
  std::vector<std::int64_t> density_;  // by node
  std::vector<std::vector<Entry>> pools_;
};

}  // namespace tenure

#endif  // TENURE_VICTIM_ORDER_H_
