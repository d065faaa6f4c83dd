// SPDX-License-Identifier: Apache-2.0
//
// The tree of budgets: allocations with weights among siblings, dated edits, entitlements, and the
// fluid share each would get now (hierarchical max-min fair water-fill).
//
//   tenure::BudgetTree tree;
//   auto nlp = tree.Add("nlp", tenure::kRootAllocation, tenure::Weight{35}).value();
//   auto pre = tree.Add("pretraining", nlp, tenure::Weight{3}).value();
//   tree.path(pre);                                               // "nlp/pretraining"
//   std::vector<tenure::MilliGpu> share;
//   tree.Entitlements(tenure::MilliGpu(1'024'000), share);        // by id
//
// Units: MilliGpu. Weights become integers whose ratios decide; no floating point takes part in a
// share. No answer depends on the order of creation: where order matters it is the canonical one, a
// depth-first walk with siblings sorted by (closed, name bytes, id).
//
// Copyable value type, thread-compatible: const methods may be called concurrently. A span or
// reference it returned is invalid after the next non-const call. Complexity with A allocations:
// mutators amortised O(1) (Close O(subtree), Move O(subtree + siblings)); the first read of the
// order or a share after Add, Close or Move sorts, O(A log A); an applied edit costs O(siblings).
//
// Except where a status is returned, every id passed in must be one the tree has (`contains`).
// Source of the fill: max-min fairness (Bertsekas and Gallager, Data Networks, 6.5.2), per level.
#ifndef TENURE_BUDGET_TREE_H_
#define TENURE_BUDGET_TREE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenure/contract.h"
#include "tenure/fixed_math.h"
#include "tenure/index_map.h"
#include "tenure/types.h"

namespace tenure {

// A weight change that was applied.
struct BudgetEdit {
  AllocationId allocation;
  Weight before, after;
  TimePoint effective;
  std::string author, reason;

  friend bool operator==(const BudgetEdit&, const BudgetEdit&) = default;
  template <class Archive>
  void Serialize(Archive& ar) {
    ar(allocation, before, after, effective, author, reason);
  }
};

// A subtree that went to another parent.
struct BudgetMove {
  AllocationId allocation, from, to;
  TimePoint at;
  std::string author, reason;

  friend bool operator==(const BudgetMove&, const BudgetMove&) = default;
  template <class Archive>
  void Serialize(Archive& ar) {
    ar(allocation, from, to, at, author, reason);
  }
};

// Memory of WaterFill, reused from call to call. One per thread.
class WaterFillScratch {
 private:
  friend class BudgetTree;
  struct Entry {  // without initial values: room for a few is made for every family
    std::int64_t demand, weight;
    std::uint32_t id;
  };
  std::vector<MilliGpu> demand_;
  std::vector<Entry> entries_;
};

class BudgetTree {
 public:
  // Only the root: kRootAllocation, name "", weight 1.
  BudgetTree() { entries_.emplace_back(); }

  // Adds an allocation; ids are dense, in order of creation, never reused. Errors, in this order,
  // with the tree unchanged: InvalidArgument (name empty, longer than kMaxNameBytes or with '/';
  // weight negative or not finite), NotFound (no such parent), FailedPrecondition (parent is
  // closed, or was charged as a leaf), AlreadyExists (an open sibling has the name; the name of a
  // closed one may be used again), ResourceExhausted (2^32 - 1 allocations).
  absl::StatusOr<AllocationId> Add(std::string name, AllocationId parent, Weight weight);

  // Plans that `id` weighs `weight` from `effective` on. Takes effect in ApplyEdits. Errors:
  // InvalidArgument (weight negative or not finite; the root, whose weight means nothing; time
  // beyond kTimeLimit), NotFound, FailedPrecondition (closed).
  absl::Status ScheduleWeight(AllocationId id, Weight weight, TimePoint effective,
                              std::string author, std::string reason);
  // Plans that `id` weighs `weight` in [from, until) and then again what it weighed before. Boosts
  // of one allocation may overlap: the latest to begin counts, and when any of them ends the others
  // stand as if it had not been. A weight planned by ScheduleWeight that takes effect during boosts
  // overrides them: it stays, and their ends change nothing. Errors of ScheduleWeight, and
  // InvalidArgument (until <= from).
  absl::Status ScheduleBoost(AllocationId id, Weight weight, TimePoint from, TimePoint until,
                             std::string author, std::string reason);
  // Applies the planned edits with effective <= now, by (effective, order of planning). True if a
  // weight changed.
  bool ApplyEdits(TimePoint now);
  // When ApplyEdits has something to do next; kNever if never.
  TimePoint next_edit() const {
    return pending_.empty() ? kNever : pending_.front().edit.effective;
  }
  // What was applied, in order of application. The end of a boost is an edit of its own, with the
  // boost's author and reason; one that was overridden is not listed.
  std::span<const BudgetEdit> edits() const { return applied_; }

  // Puts `id` and all below it under `to`; weights, ids and names stay, planned edits too. A parent
  // that has lost its last child is a leaf again. Errors, in this order, with the tree unchanged:
  // NotFound (either), InvalidArgument (the root; `to` is `id` or below it; already its parent),
  // FailedPrecondition (either is closed; `to` was charged as a leaf), AlreadyExists (`to` has an
  // open child of that name).
  absl::Status Move(AllocationId id, AllocationId to, TimePoint at, std::string author,
                    std::string reason);
  std::span<const BudgetMove> moves() const { return moves_; }
  // Whether `id` is `ancestor` or below it. O(depth).
  bool Inside(AllocationId id, AllocationId ancestor) const {
    while (id != ancestor && id != kRootAllocation) id = At(id).parent;
    return id == ancestor;
  }

  // Closes `id` and all below it: no share any more, as if the weight were 0; the node, its name
  // and weight stay for the record. Errors: InvalidArgument (the root), NotFound,
  // FailedPrecondition (already closed).
  absl::Status Close(AllocationId id);

  // Something was charged to the leaf `id`: it stays a leaf, Add below it is refused.
  void MarkCharged(AllocationId id) { At(id).charged = true; }

  std::size_t size() const { return entries_.size(); }
  bool contains(AllocationId id) const { return id.value() < entries_.size(); }
  bool is_leaf(AllocationId id) const { return At(id).children.empty(); }
  bool closed(AllocationId id) const { return At(id).closed; }
  bool charged(AllocationId id) const { return At(id).charged; }
  // Of the root: the root.
  AllocationId parent(AllocationId id) const { return At(id).parent; }
  // In order of ids, closed ones included.
  std::span<const AllocationId> children(AllocationId id) const { return At(id).children; }
  const std::string& name(AllocationId id) const { return At(id).name; }
  // 0 for the root.
  int depth(AllocationId id) const { return At(id).depth; }
  // The weight as given, also of a closed allocation.
  Weight weight(AllocationId id) const { return At(id).weight; }
  // Names from below the root on, joined by '/': "nlp/pretraining"; "" for the root.
  std::string path(AllocationId id) const;
  // The open allocation of that path; NotFound if there is none.
  absl::StatusOr<AllocationId> Find(std::string_view path) const;

  // Rank in the canonical order, 0 for the root: the tie-break of every decision.
  std::uint32_t order(AllocationId id) const { return layout().order[id.value()]; }
  // In canonical order, closed ones included; the inverse of `order`.
  std::span<const AllocationId> preorder() const { return layout().preorder; }
  std::span<const AllocationId> leaves() const { return layout().leaves; }
  // The weight among its siblings as an integer: units of two open siblings are in the ratio of
  // their weights (see internal::IntegerRatios; the sum over siblings is at most 2^40). 0 if closed
  // or of weight 0. 1 for the root.
  std::int64_t units(AllocationId id) const { return layout().units[id.value()]; }

  // What each may claim of `capacity`, by id: the root all, a child floor(parent * units / sum of
  // its siblings' units). Where all siblings weigh 0, 0. O(A).
  void Entitlements(MilliGpu capacity, std::vector<MilliGpu>& out) const;
  // Of one. O(depth).
  MilliGpu Entitlement(MilliGpu capacity, AllocationId id) const;

  // What each gets now if GPUs were a fluid, by id. `demand` of a leaf by id (entries of inner
  // nodes are not read: theirs is the sum of their leaves; missing or negative = 0).
  // `multiplier_q16` by id tilts the weights (65536 = 1.0; empty = all 1.0; missing = 1.0; negative
  // = 0; exact up to 2^21 = 32.0, beyond that the smallest of very unequal siblings are rounded).
  // `capacity` is at most that of the largest cluster; negative = 0.
  //
  // Each inner node divides what it gets: child i gets min(demand_i, floor(level * w_i)), where w =
  // units * multiplier and `level` is the largest real number for which the sum of min(demand_i,
  // level * w_i) is no more than the node has. So nobody gets more than it asks, what one leaves
  // goes to its siblings first, and rounding loses less than one MilliGpu per allocation. Children
  // of weight 0 (closed ones too) share equally what is left once their weighted siblings have all
  // they ask.
  // O(A log of the largest family); no allocation once `scratch` and `out` have grown.
  void WaterFill(MilliGpu capacity, std::span<const MilliGpu> demand,
                 std::span<const std::int64_t> multiplier_q16, WaterFillScratch& scratch,
                 std::vector<MilliGpu>& out) const;

  // One step of the fill: divides out[parent] among `members`, the children of `parent` that ask
  // for something, as WaterFill does. `demand` by id, inner nodes included; where out[parent] is
  // the demand of `parent`, each gets its own. Writes out[m] for the members and nothing else.
  // O(members), or O(m log m) for many.
  void FillChildren(AllocationId parent, std::span<const std::uint32_t> members,
                    std::span<const MilliGpu> demand, std::span<const std::int64_t> multiplier_q16,
                    WaterFillScratch& scratch, std::vector<MilliGpu>& out) const {
    const Layout& l = layout();
    FillFamily(l, l.families[l.family_of[parent.value()]], members, demand, multiplier_q16, scratch,
               out);
  }

  template <class Archive>
  void Serialize(Archive& ar) {
    ar(entries_, pending_, applied_, boosts_, boost_count_, moves_);
    if constexpr (Archive::kReading) Rederive();
  }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::size_t kFewChildren = 8;  // a family this small is filled without sorting

  struct Entry {
    std::string name;
    std::vector<AllocationId> children;
    Weight weight;
    AllocationId parent = kRootAllocation;
    std::int32_t depth = 0;
    bool closed = false;
    bool charged = false;
    std::uint32_t next_alike = kNone;  // older allocation with the same key in index_

    template <class Archive>
    void Serialize(Archive& ar) {
      ar(name, weight, parent, closed, charged);
    }
  };

  struct PlannedEdit {
    BudgetEdit edit;          // `before` is not set
    std::uint32_t boost = 0;  // number of the boost that begins or ends; 0: an ordinary edit
    bool ends = false;
    template <class Archive>
    void Serialize(Archive& ar) {
      ar(edit, boost, ends);
    }
  };
  // A boost in force or covered by a later one.
  struct Boost {
    AllocationId allocation;
    std::uint32_t number = 0;
    Weight restore;  // the weight under it
    template <class Archive>
    void Serialize(Archive& ar) {
      ar(allocation, number, restore);
    }
  };

  // Children of one node.
  struct Family {
    std::uint32_t parent = 0;
    std::uint32_t first = 0;  // in Layout::members
    std::uint32_t count = 0;
    std::int64_t units = 0;  // sum
  };

  // What follows from the entries.
  struct Layout {
    std::vector<AllocationId> preorder, leaves;
    std::vector<std::uint32_t> order;      // by id
    std::vector<std::int64_t> units;       // by id
    std::vector<std::uint32_t> family_of;  // by id of an inner node: index in families
    std::vector<Family> families;          // a node's family before those of its children
    std::vector<std::uint32_t> members;    // ids, family by family, canonical order
  };

  // A Layout built at the first use, so that adding A allocations sorts once. Safe for concurrent
  // const use.
  class Cache {
   public:
    Cache() = default;
    Cache(const Cache& other) { *this = other; }
    Cache(Cache&& other) noexcept { *this = std::move(other); }
    Cache& operator=(const Cache& other) {
      if (this == &other) return *this;
      const std::lock_guard<std::mutex> lock(other.mutex_);
      layout_ = other.layout_;
      ready_.store(other.ready_.load(std::memory_order_relaxed), std::memory_order_relaxed);
      return *this;
    }
    Cache& operator=(Cache&& other) noexcept {
      if (this == &other) return *this;
      layout_ = std::move(other.layout_);
      ready_.store(other.ready_.load(std::memory_order_relaxed), std::memory_order_relaxed);
      other.Drop();
      return *this;
    }

    template <class Build>
    const Layout& Get(const Build& build) const {
      if (!ready_.load(std::memory_order_acquire)) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!ready_.load(std::memory_order_relaxed)) {
          build(layout_);
          ready_.store(true, std::memory_order_release);
        }
      }
      return layout_;
    }
    // Null if there is nothing to keep up to date.
    Layout* IfReady() { return ready_.load(std::memory_order_relaxed) ? &layout_ : nullptr; }
    void Drop() { ready_.store(false, std::memory_order_relaxed); }

   private:
    mutable std::mutex mutex_;
    mutable std::atomic<bool> ready_{false};
    mutable Layout layout_;
  };

  Entry& At(AllocationId id) { return entries_[id.value()]; }
  const Entry& At(AllocationId id) const { return entries_[id.value()]; }
  const Layout& layout() const {
    return cache_.Get([this](Layout& layout) { BuildLayout(layout); });
  }

  static absl::Status CheckWeight(Weight weight);
  static absl::string_view View(std::string_view s) { return {s.data(), s.size()}; }
  static std::size_t Key(AllocationId parent, std::string_view name) {
    return absl::HashOf(parent.value(), View(name));
  }
  void Index(std::uint32_t id);
  void Unindex(std::uint32_t id);
  absl::Status CheckEdit(AllocationId id, Weight weight, TimePoint effective) const;
  void Plan(PlannedEdit planned);
  bool EndBoost(std::uint32_t number, BudgetEdit& edit);
  // Sets all that is not serialized. What cannot be a tree (a damaged archive) becomes a lone root.
  void Rederive();
  // The open child of that name, or kNone.
  std::uint32_t OpenChild(AllocationId parent, std::string_view name) const;
  void BuildLayout(Layout& layout) const;
  void SetUnits(Layout& layout, Family& family) const;

  using FillEntry = WaterFillScratch::Entry;
  template <class Product>
  static std::int64_t Fill(std::span<FillEntry> entries, std::int64_t amount, std::int64_t weights,
                           std::vector<MilliGpu>& out);
  static std::int64_t Fill(std::span<FillEntry> entries, std::int64_t amount,
                           std::vector<MilliGpu>& out);
  void FillFamily(const Layout& layout, const Family& family,
                  std::span<const std::uint32_t> members, std::span<const MilliGpu> demand,
                  std::span<const std::int64_t> multiplier_q16, WaterFillScratch& scratch,
                  std::vector<MilliGpu>& out) const;

  std::vector<Entry> entries_;        // by id
  std::vector<PlannedEdit> pending_;  // by (effective, order of planning)
  std::vector<BudgetEdit> applied_;
  std::vector<Boost> boosts_;  // in order of application
  std::uint32_t boost_count_ = 0;
  std::vector<BudgetMove> moves_;
  internal::IndexMap<std::size_t, std::uint32_t> index_;  // (parent, name) -> newest with that key
  Cache cache_;
};

}  // namespace tenure

#include "tenure/budget_tree_edits.h"  // IWYU pragma: export
#include "tenure/budget_tree_fill.h"   // IWYU pragma: export

#endif  // TENURE_BUDGET_TREE_H_
