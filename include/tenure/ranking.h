// SPDX-License-Identifier: Apache-2.0
//
// Who is under-served: the number that sorts the queue, and the fluid entitlement.
//
// Of every allocation a:
//   entitlement E(a)  product of the shares on its path x healthy capacity
//   key(a)            (use in the window + committed ahead) / E(a): hours of its own share it has
//                     used; lower ranks first. No entitlement: infinite.
//   natural(a)        what it would get now if GPUs were a fluid: hierarchical max-min fill of the
//                     capacity by weight, capped by demand (placed + queued)
//   fluid F(a)        the same fill with each weight multiplied by 2^(-(key - mean of the siblings
//                     that have demand) / gain), clamped: the window acts as an integral controller
//                     that tilts F towards the under-served. A leaf keeps at least `nominal` of
//                     min(E, natural), so a sibling's over-use cannot take more.
//
// Capacity, demand and use are charged GPUs (charge_rates.h): GPUs where all types cost the same.
//
// Everything is integer arithmetic. Refresh O(A log A) for A allocations, Recharge O(depth).
// Source: hierarchical fair share over a sliding window as published; the controller is this
// project's.
#ifndef TENURE_RANKING_H_
#define TENURE_RANKING_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tenure/budget_tree.h"
#include "tenure/fixed_math.h"
#include "tenure/ledger.h"
#include "tenure/types.h"

namespace tenure {

struct RankingOptions {
  bool level_by_level = false;  // compare keys at the children of the lowest common ancestor
  bool fluid = true;            // compute natural and F (needed by tiers and floors)
  Duration gain = std::chrono::hours(24);  // key difference that doubles a weight; 0: no controller
  std::int64_t limit = 4;                  // weights change by at most this factor, either way
  std::int64_t nominal_permille = 750;     // floor of F as a part of min(E, natural)
};

class Ranking {
 public:
  explicit Ranking(const RankingOptions& options = {}) : options_(options) {}
  const RankingOptions& options() const { return options_; }

  // The tree changed: entitlements are computed anew at the next Refresh.
  void Invalidate() { entitlement_.clear(); }

  // Recomputes everything for `now`. `key_of(id, used, entitlement)` is the policy's rank key.
  template <class KeyOf>
  void Refresh(const BudgetTree& tree, Ledger& ledger, MilliGpu healthy, TimePoint now,
               const KeyOf& key_of) {
    const std::size_t n = tree.size();
    bool same_demand = entitlement_.size() == n && healthy == healthy_;
    if (!same_demand) {
      healthy_ = healthy;
      tree.Entitlements(healthy, entitlement_);
      key_.resize(n);
      used_.resize(n);
      demand_.resize(n);
      fluid_.resize(n);
      natural_.resize(n);
      multiplier_.resize(n);
    }
    for (std::uint32_t i = 0; i < n; ++i) {
      const AllocationId id(i);
      used_[i] = ledger.Use(id, now) + ledger.Ahead(id, now);
      key_[i] = key_of(id, used_[i], entitlement_[i]);
      const MilliGpu demand = ledger.demand_charge(id);
      same_demand = same_demand && demand == demand_[i];
      demand_[i] = demand;
    }
    if (!options_.fluid) return;
    if (!same_demand) tree.WaterFill(healthy, demand_, {}, scratch_, natural_);
    if (options_.gain <= Duration(0)) {
      fluid_ = natural_;
      return;
    }
    Control(tree);
    tree.WaterFill(healthy, demand_, multiplier_, scratch_, fluid_);
    for (AllocationId leaf : tree.leaves()) {
      const std::size_t i = leaf.value();
      const std::int64_t claim = std::min(entitlement_[i], natural_[i]).value();
      fluid_[i] = std::max(fluid_[i], MilliGpu(claim * options_.nominal_permille / 1000));
    }
  }

  template <class KeyOf>
  void Refresh(const BudgetTree& tree, Ledger& ledger, GpuCount healthy, TimePoint now,
               const KeyOf& key_of) {
    Refresh(tree, ledger, ToMilli(healthy), now, key_of);
  }

  // Recomputes the keys of `leaf` and its ancestors after a commitment changed.
  template <class KeyOf>
  void Recharge(const BudgetTree& tree, Ledger& ledger, AllocationId leaf, TimePoint now,
                const KeyOf& key_of) {
    for (AllocationId a = leaf;; a = tree.parent(a)) {
      const std::size_t i = a.value();
      used_[i] = ledger.Use(a, now) + ledger.Ahead(a, now);
      key_[i] = key_of(a, used_[i], entitlement_[i]);
      if (a == kRootAllocation) break;
    }
  }

  // Counts `delta` more as used by `leaf` and its ancestors, without the ledger: what would be.
  template <class KeyOf>
  void Add(const BudgetTree& tree, AllocationId leaf, GpuTime delta, const KeyOf& key_of) {
    for (AllocationId a = leaf;; a = tree.parent(a)) {
      const std::size_t i = a.value();
      used_[i] += delta;
      key_[i] = key_of(a, used_[i], entitlement_[i]);
      if (a == kRootAllocation) break;
    }
  }

  Duration key(AllocationId a) const { return key_[a.value()]; }
  GpuTime used(AllocationId a) const { return used_[a.value()]; }
  MilliGpu entitlement(AllocationId a) const { return entitlement_[a.value()]; }
  MilliGpu demand(AllocationId a) const { return demand_[a.value()]; }
  MilliGpu natural(AllocationId a) const { return natural_[a.value()]; }
  const std::vector<MilliGpu>& naturals() const { return natural_; }
  MilliGpu fluid(AllocationId a) const { return fluid_[a.value()]; }
  std::int64_t multiplier_q16(AllocationId a) const { return multiplier_[a.value()]; }

  // True if leaf `a` is served before leaf `b`: a strict total order.
  bool Before(const BudgetTree& tree, AllocationId a, AllocationId b) const {
    const auto [x, y] = options_.level_by_level ? Diverge(tree, a, b) : std::pair(a, b);
    if (key(x) != key(y)) return key(x) < key(y);
    if (used(x) != used(y)) return used(x) < used(y);
    return tree.order(x) < tree.order(y);
  }

  // How much more of its share the victim's side has used than the requester's: keys compared
  // where `Before` compares them, saturating. 0 inside one leaf.
  Duration Gap(const BudgetTree& tree, AllocationId requester, AllocationId victim) const {
    if (requester == victim) return Duration(0);
    const auto [x, y] =
        options_.level_by_level ? Diverge(tree, requester, victim) : std::pair(requester, victim);
    return internal::Difference(key(y), key(x));
  }

 private:
  // The ancestors of a and b that are siblings (a and b themselves if they are).
  static std::pair<AllocationId, AllocationId> Diverge(const BudgetTree& tree, AllocationId a,
                                                       AllocationId b) {
    while (tree.depth(a) > tree.depth(b) && tree.parent(a) != b) a = tree.parent(a);
    while (tree.depth(b) > tree.depth(a) && tree.parent(b) != a) b = tree.parent(b);
    while (tree.depth(a) == tree.depth(b) && tree.parent(a) != tree.parent(b)) {
      a = tree.parent(a);
      b = tree.parent(b);
    }
    return {a, b};
  }

  void Control(const BudgetTree& tree) {
    const std::int64_t limit_q16 = options_.limit << internal::kQ;
    const std::int64_t least = (std::int64_t{1} << (2 * internal::kQ)) / limit_q16;
    const std::int64_t gain = options_.gain.count();
    // Beyond this distance from the mean the clamp decides (2^20 is past any limit).
    const std::int64_t far = gain * 20;
    for (AllocationId parent : tree.preorder()) {
      const auto children = tree.children(parent);
      if (children.empty()) continue;
      GpuTime use;
      MilliGpu share;
      for (AllocationId c : children) {
        if (demand(c) == MilliGpu(0)) continue;
        use += used_[c.value()];
        share += entitlement_[c.value()];
      }
      const Duration mean = internal::HoursOfShare(use, share);
      for (AllocationId c : children) {
        std::int64_t& m = multiplier_[c.value()];
        if (entitlement_[c.value()] == MilliGpu(0) || share == MilliGpu(0)) {
          m = std::int64_t{1} << internal::kQ;
          continue;
        }
        const std::int64_t x =
            std::clamp(internal::Difference(mean, key_[c.value()]).count(), -far, far);
        m = std::clamp(
            internal::Exp2Q16(internal::MulDivFloor(x, std::int64_t{1} << internal::kQ, gain)),
            least, limit_q16);
      }
    }
  }

  RankingOptions options_;
  MilliGpu healthy_{-1};
  std::vector<GpuTime> used_;
  std::vector<Duration> key_;
  std::vector<MilliGpu> entitlement_, demand_, natural_, fluid_;
  std::vector<std::int64_t> multiplier_;
  WaterFillScratch scratch_;
};

}  // namespace tenure

#endif  // TENURE_RANKING_H_
