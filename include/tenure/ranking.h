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
// Everything is integer arithmetic. A Refresh looks at what can have moved since the last one, and
// at no other allocation: accounts that something was booked on, those whose use grows or leaves
// the window at this time, and, for the fills, those that have demand. All at the first one, after
// Invalidate and when the capacity changes: O(A log of the largest family) for A allocations.
// Recharge O(depth).
// Source: hierarchical fair share over a sliding window as published; the controller is this
// project's.
#ifndef TENURE_RANKING_H_
#define TENURE_RANKING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
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

  // Brings everything to `now`, which must not be earlier than at the call before. `key_of(id,
  // used, entitlement)` is the policy's rank key; if it looks at something else that moves,
  // `all_keys` must be true. Always of the same ledger, or of copies made together.
  template <class KeyOf>
  void Refresh(const BudgetTree& tree, Ledger& ledger, MilliGpu healthy, TimePoint now,
               const KeyOf& key_of, bool all_keys = false) {
    ledger.TakeChanges(changes_, now);
    natural_moved_.clear();
    if (changes_.all || healthy != healthy_ || entitlement_.size() != tree.size()) {
      Rebuild(tree, healthy);
      all_keys = true;
    }
    if (all_keys) {
      for (std::uint32_t i = 0; i < tree.size(); ++i) Watch(i);
    } else {
      for (AllocationId id : changes_.ids) Watch(id.value());
      while (!standing_.empty() && standing_.front().until <= now) {
        Watch(standing_.front().id);
        stands_until_[standing_.front().id] = kNever;
        std::pop_heap(standing_.begin(), standing_.end());
        standing_.pop_back();
      }
    }
    // From the back: one that stands from now on leaves its place to one that was looked at.
    for (std::size_t i = watched_.size(); i-- > 0;) Look(tree, ledger, watched_[i], now, key_of);
    if (options_.fluid) Fill(tree);
  }

  template <class KeyOf>
  void Refresh(const BudgetTree& tree, Ledger& ledger, GpuCount healthy, TimePoint now,
               const KeyOf& key_of, bool all_keys = false) {
    Refresh(tree, ledger, ToMilli(healthy), now, key_of, all_keys);
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
  // The allocations whose natural share the last Refresh may have changed.
  std::span<const std::uint32_t> natural_moved() const { return natural_moved_; }
  MilliGpu fluid(AllocationId a) const { return fluid_[a.value()]; }

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

  // Children of one node that have demand, in no order.
  struct Family {
    std::uint32_t first = 0;  // in members_, which has room for all children
    std::uint32_t count = 0;
  };
  // An allocation whose use does not move until then. Heap order: earliest first.
  struct Standing {
    TimePoint until;
    std::uint32_t id;
    friend bool operator<(const Standing& a, const Standing& b) { return a.until > b.until; }
  };
  static constexpr std::uint32_t kNowhere = 0xffffffffu;

  // Nothing is known, nobody has demand.
  void Rebuild(const BudgetTree& tree, MilliGpu healthy) {
    const std::size_t n = tree.size();
    healthy_ = healthy;
    tree.Entitlements(healthy, entitlement_);
    key_.resize(n);
    used_.resize(n);
    for (std::vector<MilliGpu>* v : {&demand_, &natural_, &fluid_}) v->assign(n, MilliGpu(0));
    multiplier_.resize(n);
    members_.resize(n);
    families_.resize(n);
    std::uint32_t next = 0;
    for (std::uint32_t i = 0; i < n; ++i) {
      families_[i] = {next, 0};
      next += static_cast<std::uint32_t>(tree.children(AllocationId(i)).size());
    }
    member_at_.assign(n, kNowhere);
    watched_at_.assign(n, kNowhere);
    watched_.clear();
    stands_until_.assign(n, kNever);
    standing_.clear();
    natural_moved_.resize(n);
    std::iota(natural_moved_.begin(), natural_moved_.end(), 0u);
    demand_moved_ = true;
  }

  void Watch(std::uint32_t i) {
    if (watched_at_[i] != kNowhere) return;
    watched_at_[i] = static_cast<std::uint32_t>(watched_.size());
    watched_.push_back(i);
  }
  template <class KeyOf>
  void Look(const BudgetTree& tree, Ledger& ledger, std::uint32_t i, TimePoint now,
            const KeyOf& key_of) {
    const AllocationId id(i);
    used_[i] = ledger.Use(id, now) + ledger.Ahead(id, now);
    key_[i] = key_of(id, used_[i], entitlement_[i]);
    SetDemand(tree, i, ledger.demand_charge(id));
    const TimePoint until = ledger.StandsUntil(id);
    if (until <= now) return;
    const std::uint32_t at = std::exchange(watched_at_[i], kNowhere);
    if (at + std::size_t{1} < watched_.size()) {
      watched_[at] = watched_.back();
      watched_at_[watched_[at]] = at;
    }
    watched_.pop_back();
    if (until >= stands_until_[i]) return;  // it is looked at before
    stands_until_[i] = until;
    standing_.push_back({until, i});
    std::push_heap(standing_.begin(), standing_.end());
  }

  void SetDemand(const BudgetTree& tree, std::uint32_t i, MilliGpu demand) {
    if (demand == demand_[i]) return;
    demand_moved_ = true;
    const bool joins = demand_[i] == MilliGpu(0), leaves = demand == MilliGpu(0);
    demand_[i] = demand;
    if (i == kRootAllocation.value() || joins == leaves) return;
    Family& family = families_[tree.parent(AllocationId(i)).value()];
    if (joins) {
      member_at_[i] = family.first + family.count++;
      members_[member_at_[i]] = i;
      return;
    }
    const std::uint32_t last = members_[family.first + --family.count];
    const std::uint32_t at = std::exchange(member_at_[i], kNowhere);
    if (last != i) {
      members_[at] = last;
      member_at_[last] = at;
    }
    natural_[i] = fluid_[i] = MilliGpu(0);
    natural_moved_.push_back(i);
  }

  // natural_, if a demand has moved, and fluid_, of all that have demand.
  void Fill(const BudgetTree& tree) {
    const bool control = options_.gain > Duration(0);
    const bool natural = std::exchange(demand_moved_, false);
    if (!natural && !control) return;
    const MilliGpu all = std::clamp(healthy_, MilliGpu(0), demand_[0]);
    if (natural) natural_moved_.push_back(0);
    natural_[0] = fluid_[0] = all;
    open_.assign(1, 0);
    while (!open_.empty()) {
      const std::uint32_t parent = open_.back();
      open_.pop_back();
      const Family& family = families_[parent];
      if (family.count == 0) continue;
      const auto members =
          std::span<const std::uint32_t>(members_).subspan(family.first, family.count);
      if (natural) {
        tree.FillChildren(AllocationId(parent), members, demand_, {}, scratch_, natural_);
        natural_moved_.insert(natural_moved_.end(), members.begin(), members.end());
      }
      if (control) {
        if (fluid_[parent] != demand_[parent]) Control(members);
        tree.FillChildren(AllocationId(parent), members, demand_, multiplier_, scratch_, fluid_);
      }
      for (std::uint32_t m : members) {
        if (!control) {
          fluid_[m] = natural_[m];
        } else if (families_[m].count == 0) {
          const std::int64_t claim = std::min(entitlement_[m], natural_[m]).value();
          fluid_[m] = std::max(fluid_[m], MilliGpu(claim * options_.nominal_permille / 1000));
        }
        if (families_[m].count > 0) open_.push_back(m);
      }
    }
  }

  // The multipliers of siblings.
  void Control(std::span<const std::uint32_t> members) {
    const std::int64_t limit_q16 = options_.limit << internal::kQ;
    const std::int64_t least = (std::int64_t{1} << (2 * internal::kQ)) / limit_q16;
    const std::int64_t gain = options_.gain.count();
    // Beyond this distance from the mean the clamp decides (2^20 is past any limit).
    const std::int64_t far = gain * 20;
    GpuTime use;
    MilliGpu share;
    for (std::uint32_t m : members) {
      use += used_[m];
      share += entitlement_[m];
    }
    const Duration mean = internal::HoursOfShare(use, share);
    for (std::uint32_t m : members) {
      if (entitlement_[m] == MilliGpu(0) || share == MilliGpu(0)) {
        multiplier_[m] = std::int64_t{1} << internal::kQ;
        continue;
      }
      const std::int64_t x = std::clamp(internal::Difference(mean, key_[m]).count(), -far, far);
      multiplier_[m] = std::clamp(
          internal::Exp2Q16(internal::MulDivFloor(x, std::int64_t{1} << internal::kQ, gain)), least,
          limit_q16);
    }
  }

  RankingOptions options_;
  MilliGpu healthy_{-1};
  // By id.
  std::vector<GpuTime> used_;
  std::vector<Duration> key_;
  std::vector<MilliGpu> entitlement_, demand_, natural_, fluid_;
  std::vector<std::int64_t> multiplier_;  // of those with demand, where their parent gets less
  std::vector<Family> families_;
  std::vector<std::uint32_t> members_;                 // of the families
  std::vector<std::uint32_t> member_at_, watched_at_;  // by id: where in members_ and watched_
  bool demand_moved_ = false;                          // since the last Fill
  std::vector<std::uint32_t> natural_moved_;
  // What the next Refresh looks at, whatever happens, and when the others are looked at: a heap,
  // and by id the earliest entry of it.
  std::vector<std::uint32_t> watched_;
  std::vector<Standing> standing_;
  std::vector<TimePoint> stands_until_;
  Ledger::Changes changes_;
  std::vector<std::uint32_t> open_;  // of Fill: families to be filled
  WaterFillScratch scratch_;
};

}  // namespace tenure

#endif  // TENURE_RANKING_H_
