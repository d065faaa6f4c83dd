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

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenure/contract.h"
#include "tenure/fixed_math.h"
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
  struct Entry {
    std::int64_t demand = 0;
    std::int64_t weight = 0;
    std::uint32_t id = 0;
  };
  std::vector<std::int64_t> demand_;
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
                  std::span<const std::int64_t> multiplier_q16, WaterFillScratch& scratch,
                  std::vector<MilliGpu>& out) const;

  std::vector<Entry> entries_;        // by id
  std::vector<PlannedEdit> pending_;  // by (effective, order of planning)
  std::vector<BudgetEdit> applied_;
  std::vector<Boost> boosts_;  // in order of application
  std::uint32_t boost_count_ = 0;
  std::vector<BudgetMove> moves_;
  absl::flat_hash_map<std::size_t, std::uint32_t> index_;  // (parent, name) -> newest with that key
  Cache cache_;
};

// ---- implementation ----

inline absl::Status BudgetTree::CheckWeight(Weight weight) {
  if (std::isfinite(weight.value) && weight.value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("weight is ", weight.value, ", must be finite and >= 0"));
}

inline void BudgetTree::Index(std::uint32_t id) {
  Entry& e = entries_[id];
  const auto [it, inserted] = index_.try_emplace(Key(e.parent, e.name), id);
  e.next_alike = inserted ? kNone : it->second;
  it->second = id;
}

inline void BudgetTree::Unindex(std::uint32_t id) {
  const auto it = index_.find(Key(entries_[id].parent, entries_[id].name));
  std::uint32_t* link = &it->second;
  while (*link != id) link = &entries_[*link].next_alike;
  *link = entries_[id].next_alike;
  if (it->second == kNone) index_.erase(it);
}

inline void BudgetTree::Rederive() {
  bool valid = !entries_.empty();
  for (std::size_t i = 1; i < entries_.size(); ++i) {
    valid = valid && contains(entries_[i].parent) && CheckWeight(entries_[i].weight).ok();
  }
  for (const PlannedEdit& p : pending_) {
    valid = valid && contains(p.edit.allocation) && CheckWeight(p.edit.after).ok();
  }
  for (const Boost& b : boosts_) {
    valid = valid && contains(b.allocation) && CheckWeight(b.restore).ok();
  }
  std::vector<std::uint32_t> walk;  // from the root down: what is not reached is no tree
  if (valid) {
    for (std::uint32_t i = 1; i < entries_.size(); ++i) {
      At(entries_[i].parent).children.emplace_back(i);
    }
    walk.push_back(0);
    for (std::size_t i = 0; i < walk.size(); ++i) {
      for (const AllocationId child : entries_[walk[i]].children) {
        At(child).depth = entries_[walk[i]].depth + 1;
        walk.push_back(child.value());
      }
    }
  }
  if (walk.size() != entries_.size() || !valid) {
    entries_.clear();
    entries_.emplace_back();
    pending_.clear();
    applied_.clear();
    boosts_.clear();
    moves_.clear();
  }
  cache_.Drop();
  index_.clear();
  for (std::uint32_t i = 1; i < entries_.size(); ++i) Index(i);
}

inline std::uint32_t BudgetTree::OpenChild(AllocationId parent, std::string_view name) const {
  const auto it = index_.find(Key(parent, name));
  if (it == index_.end()) return kNone;
  std::uint32_t id = it->second;
  while (id != kNone) {
    const Entry& e = entries_[id];
    if (!e.closed && e.parent == parent && e.name == name) break;
    id = e.next_alike;
  }
  return id;
}

inline absl::StatusOr<AllocationId> BudgetTree::Add(std::string name, AllocationId parent,
                                                    Weight weight) {
  if (name.empty()) return absl::InvalidArgumentError("allocation name is empty");
  if (name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("allocation name of ", name.size(), " bytes exceeds ", kMaxNameBytes));
  }
  const auto quoted = [&] { return absl::StrCat("allocation \"", absl::CHexEscape(name), "\""); };
  if (name.find('/') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(quoted(), ": '/' in the name"));
  }
  if (absl::Status s = CheckWeight(weight); !s.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(quoted(), ": ", s.message()));
  }
  if (!contains(parent)) {
    return absl::NotFoundError(absl::StrCat(quoted(), ": no parent allocation ", parent.value()));
  }
  if (At(parent).closed) {
    return absl::FailedPreconditionError(
        absl::StrCat(quoted(), ": parent allocation ", parent.value(), " is closed"));
  }
  if (At(parent).charged) {
    return absl::FailedPreconditionError(absl::StrCat(
        quoted(), ": parent allocation ", parent.value(), " was charged and must stay a leaf"));
  }
  if (const std::uint32_t twin = OpenChild(parent, name); twin != kNone) {
    return absl::AlreadyExistsError(
        absl::StrCat(quoted(), " is allocation ", twin, " of parent ", parent.value()));
  }
  if (entries_.size() >= kNone) {
    return absl::ResourceExhaustedError(absl::StrCat("already ", entries_.size(), " allocations"));
  }
  const auto id = static_cast<std::uint32_t>(entries_.size());
  Entry e;
  e.name = std::move(name);
  e.weight = weight;
  e.parent = parent;
  e.depth = At(parent).depth + 1;
  entries_.push_back(std::move(e));
  At(parent).children.emplace_back(id);
  Index(id);
  cache_.Drop();
  return AllocationId(id);
}

inline absl::Status BudgetTree::CheckEdit(AllocationId id, Weight weight,
                                          TimePoint effective) const {
  const auto what = [&] { return absl::StrCat("allocation ", id.value()); };
  if (absl::Status s = CheckWeight(weight); !s.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(what(), ": ", s.message()));
  }
  if (effective.time_since_epoch() > kTimeLimit || effective.time_since_epoch() < -kTimeLimit) {
    return absl::InvalidArgumentError(absl::StrCat(
        what(), ": effective is ", effective.time_since_epoch().count(), " us, beyond the limit"));
  }
  if (!contains(id)) return absl::NotFoundError(absl::StrCat("no ", what()));
  if (id == kRootAllocation) {
    return absl::InvalidArgumentError(absl::StrCat(what(), ": the root has no siblings to weigh"));
  }
  if (At(id).closed) return absl::FailedPreconditionError(absl::StrCat(what(), " is closed"));
  return absl::OkStatus();
}

inline void BudgetTree::Plan(PlannedEdit planned) {
  const auto position =
      std::upper_bound(pending_.begin(), pending_.end(), planned.edit.effective,
                       [](TimePoint t, const PlannedEdit& p) { return t < p.edit.effective; });
  pending_.insert(position, std::move(planned));
}

inline absl::Status BudgetTree::ScheduleWeight(AllocationId id, Weight weight, TimePoint effective,
                                               std::string author, std::string reason) {
  if (absl::Status s = CheckEdit(id, weight, effective); !s.ok()) return s;
  Plan({{id, Weight{0}, weight, effective, std::move(author), std::move(reason)}, 0, false});
  return absl::OkStatus();
}

inline absl::Status BudgetTree::ScheduleBoost(AllocationId id, Weight weight, TimePoint from,
                                              TimePoint until, std::string author,
                                              std::string reason) {
  if (absl::Status s = CheckEdit(id, weight, from); !s.ok()) return s;
  if (absl::Status s = CheckEdit(id, weight, until); !s.ok()) return s;
  if (until <= from) {
    return absl::InvalidArgumentError(
        absl::StrCat("allocation ", id.value(), ": boost from ", from.time_since_epoch().count(),
                     " us until ", until.time_since_epoch().count(), " us is empty"));
  }
  ++boost_count_;
  Plan({{id, Weight{0}, weight, from, author, reason}, boost_count_, false});
  Plan({{id, Weight{0}, weight, until, std::move(author), std::move(reason)}, boost_count_, true});
  return absl::OkStatus();
}

// Takes a boost away; true if it was in force, with the weight to restore in `edit`.
inline bool BudgetTree::EndBoost(std::uint32_t number, BudgetEdit& edit) {
  const auto boost = std::find_if(boosts_.begin(), boosts_.end(),
                                  [&](const Boost& b) { return b.number == number; });
  if (boost == boosts_.end()) return false;  // an edit has overridden it
  const auto above = std::find_if(
      boost + 1, boosts_.end(), [&](const Boost& b) { return b.allocation == boost->allocation; });
  const bool in_force = above == boosts_.end();
  (in_force ? edit.after : above->restore) = boost->restore;
  boosts_.erase(boost);
  return in_force;
}

inline bool BudgetTree::ApplyEdits(TimePoint now) {
  std::size_t due = 0;
  bool changed = false;
  for (; due < pending_.size() && pending_[due].edit.effective <= now; ++due) {
    const auto& [planned, boost, ends] = pending_[due];
    BudgetEdit edit = planned;
    Entry& e = At(edit.allocation);
    if (ends) {
      if (!EndBoost(boost, edit)) continue;
    } else if (boost != 0) {
      boosts_.push_back({edit.allocation, boost, e.weight});
    } else {
      boosts_.erase(std::remove_if(boosts_.begin(), boosts_.end(),
                                   [&](const Boost& b) { return b.allocation == edit.allocation; }),
                    boosts_.end());
    }
    edit.before = e.weight;
    e.weight = edit.after;
    applied_.push_back(std::move(edit));
    if (applied_.back().before == e.weight) continue;
    changed = true;
    if (Layout* layout = cache_.IfReady()) {
      SetUnits(*layout, layout->families[layout->family_of[e.parent.value()]]);
    }
  }
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(due));
  return changed;
}

inline absl::Status BudgetTree::Move(AllocationId id, AllocationId to, TimePoint at,
                                     std::string author, std::string reason) {
  const auto what = [&] { return absl::StrCat("allocation ", id.value()); };
  for (const AllocationId a : {id, to}) {
    if (!contains(a)) return absl::NotFoundError(absl::StrCat("no allocation ", a.value()));
  }
  if (id == kRootAllocation) {
    return absl::InvalidArgumentError("allocation 0: the root cannot be moved");
  }
  if (Inside(to, id)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what(), " cannot be moved below itself, to allocation ", to.value()));
  }
  if (At(id).parent == to) {
    return absl::InvalidArgumentError(
        absl::StrCat(what(), " is a child of allocation ", to.value(), " already"));
  }
  for (const AllocationId a : {id, to}) {
    if (At(a).closed) {
      return absl::FailedPreconditionError(absl::StrCat("allocation ", a.value(), " is closed"));
    }
  }
  if (At(to).charged) {
    return absl::FailedPreconditionError(absl::StrCat(what(), ": parent allocation ", to.value(),
                                                      " was charged and must stay a leaf"));
  }
  if (const std::uint32_t twin = OpenChild(to, At(id).name); twin != kNone) {
    return absl::AlreadyExistsError(absl::StrCat(what(), ": allocation ", twin, " of parent ",
                                                 to.value(), " has its name \"",
                                                 absl::CHexEscape(At(id).name), "\""));
  }
  Unindex(id.value());
  Entry& e = At(id);
  std::vector<AllocationId>& old = At(e.parent).children;
  old.erase(std::find(old.begin(), old.end(), id));
  std::vector<AllocationId>& siblings = At(to).children;
  siblings.insert(std::lower_bound(siblings.begin(), siblings.end(), id), id);
  moves_.push_back({id, e.parent, to, at, std::move(author), std::move(reason)});
  e.parent = to;
  Index(id.value());
  std::vector<AllocationId> below = {id};
  while (!below.empty()) {
    Entry& x = At(below.back());
    below.pop_back();
    x.depth = At(x.parent).depth + 1;
    below.insert(below.end(), x.children.begin(), x.children.end());
  }
  cache_.Drop();
  return absl::OkStatus();
}

inline absl::Status BudgetTree::Close(AllocationId id) {
  if (!contains(id)) return absl::NotFoundError(absl::StrCat("no allocation ", id.value()));
  if (id == kRootAllocation) {
    return absl::InvalidArgumentError("allocation 0: the root cannot be closed");
  }
  if (At(id).closed) {
    return absl::FailedPreconditionError(
        absl::StrCat("allocation ", id.value(), " is already closed"));
  }
  std::vector<AllocationId> open = {id};
  while (!open.empty()) {
    Entry& e = At(open.back());
    open.pop_back();
    e.closed = true;
    open.insert(open.end(), e.children.begin(), e.children.end());
  }
  cache_.Drop();
  return absl::OkStatus();
}

inline std::string BudgetTree::path(AllocationId id) const {
  std::vector<std::string_view> names;
  for (; id != kRootAllocation; id = At(id).parent) names.push_back(At(id).name);
  std::string result;
  for (auto it = names.rbegin(); it != names.rend(); ++it) {
    if (!result.empty()) result += '/';
    result += *it;
  }
  return result;
}

inline absl::StatusOr<AllocationId> BudgetTree::Find(std::string_view path) const {
  AllocationId at = kRootAllocation;
  for (std::size_t begin = 0; !path.empty() && begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::uint32_t child = OpenChild(at, path.substr(begin, end - begin));
    if (child == kNone) {
      return absl::NotFoundError(
          absl::StrCat("no open allocation \"", absl::CHexEscape(View(path)), "\""));
    }
    at = AllocationId(child);
    begin = end + 1;
  }
  return at;
}

inline void BudgetTree::SetUnits(Layout& layout, Family& family) const {
  std::vector<double> weights(family.count);
  std::vector<std::int64_t> units(family.count);
  for (std::uint32_t i = 0; i < family.count; ++i) {
    const Entry& e = entries_[layout.members[family.first + i]];
    weights[i] = e.closed ? 0 : e.weight.value;
  }
  family.units = internal::IntegerRatios(weights, units);
  for (std::uint32_t i = 0; i < family.count; ++i) {
    layout.units[layout.members[family.first + i]] = units[i];
  }
}

inline void BudgetTree::BuildLayout(Layout& layout) const {
  const std::size_t n = entries_.size();
  layout.preorder.clear();
  layout.leaves.clear();
  layout.families.clear();
  layout.members.clear();
  layout.order.assign(n, 0);
  layout.units.assign(n, 1);
  layout.family_of.assign(n, kNone);
  std::vector<AllocationId> open = {kRootAllocation};
  while (!open.empty()) {
    const AllocationId id = open.back();
    open.pop_back();
    layout.order[id.value()] = static_cast<std::uint32_t>(layout.preorder.size());
    layout.preorder.push_back(id);
    const Entry& e = At(id);
    if (e.children.empty()) {
      layout.leaves.push_back(id);
      continue;
    }
    Family family;
    family.parent = id.value();
    family.first = static_cast<std::uint32_t>(layout.members.size());
    family.count = static_cast<std::uint32_t>(e.children.size());
    for (const AllocationId child : e.children) layout.members.push_back(child.value());
    const auto first = layout.members.begin() + static_cast<std::ptrdiff_t>(family.first);
    std::sort(first, layout.members.end(), [this](std::uint32_t a, std::uint32_t b) {
      const Entry& x = entries_[a];
      const Entry& y = entries_[b];
      if (x.closed != y.closed) return y.closed;
      const int names = x.name.compare(y.name);
      return names != 0 ? names < 0 : a < b;
    });
    for (std::size_t i = layout.members.size(); i > family.first; --i) {
      open.emplace_back(layout.members[i - 1]);
    }
    SetUnits(layout, family);
    layout.family_of[id.value()] = static_cast<std::uint32_t>(layout.families.size());
    layout.families.push_back(family);
  }
}

inline void BudgetTree::Entitlements(MilliGpu capacity, std::vector<MilliGpu>& out) const {
  const Layout& l = layout();
  out.resize(entries_.size());
  out[0] = std::max(capacity, MilliGpu(0));
  for (const Family& f : l.families) {
    const std::int64_t amount = out[f.parent].value();
    for (std::uint32_t i = f.first; i < f.first + f.count; ++i) {
      const std::uint32_t id = l.members[i];
      out[id] = MilliGpu(f.units == 0 ? 0 : internal::MulDivFloor(amount, l.units[id], f.units));
    }
  }
}

// Divides `amount` among entries of weight > 0 and demand in (0, amount]; returns what is left over
// when all are satisfied, else 0. `weights` is the sum of the weights; Product can hold
// amount * weights.
template <class Product>
std::int64_t BudgetTree::Fill(std::span<FillEntry> entries, std::int64_t amount,
                              std::int64_t weights, std::vector<MilliGpu>& out) {
  // An entry whose demand is within its part of the amount is satisfied; that can only raise the
  // part of the others. What is satisfied in the end does not depend on the order of the tests.
  const auto satisfied = [&](const FillEntry& e) {
    return Product(static_cast<std::uint64_t>(e.demand)) *
               Product(static_cast<std::uint64_t>(weights)) <=
           Product(static_cast<std::uint64_t>(amount)) *
               Product(static_cast<std::uint64_t>(e.weight));
  };
  const auto give = [&](const FillEntry& e) {
    out[e.id] = MilliGpu(e.demand);
    amount -= e.demand;
    weights -= e.weight;
  };
  if (entries.size() <= kFewChildren) {
    std::size_t n = entries.size();
    for (bool again = true; again;) {
      again = false;
      for (std::size_t i = 0; i < n;) {
        if (!satisfied(entries[i])) {
          ++i;
          continue;
        }
        give(entries[i]);
        entries[i] = entries[--n];
        again = true;
      }
    }
    entries = entries.first(n);
  } else {
    // By demand / weight: then the first that is not satisfied ends the search.
    std::sort(entries.begin(), entries.end(), [](const FillEntry& a, const FillEntry& b) {
      const Product x = Product(static_cast<std::uint64_t>(a.demand)) *
                        Product(static_cast<std::uint64_t>(b.weight));
      const Product y = Product(static_cast<std::uint64_t>(b.demand)) *
                        Product(static_cast<std::uint64_t>(a.weight));
      return x != y ? x < y : a.id < b.id;
    });
    while (!entries.empty() && satisfied(entries.front())) {
      give(entries.front());
      entries = entries.subspan(1);
    }
  }
  for (const FillEntry& e : entries) {
    out[e.id] = MilliGpu(static_cast<std::int64_t>(Product(static_cast<std::uint64_t>(amount)) *
                                                   Product(static_cast<std::uint64_t>(e.weight)) /
                                                   Product(static_cast<std::uint64_t>(weights))));
  }
  return entries.empty() ? amount : 0;
}

inline std::int64_t BudgetTree::Fill(std::span<FillEntry> entries, std::int64_t amount,
                                     std::vector<MilliGpu>& out) {
  std::int64_t weights = 0;
  for (const FillEntry& e : entries) weights += e.weight;
  const auto bits = [](std::int64_t v) { return std::bit_width(static_cast<std::uint64_t>(v)); };
  return bits(amount) + bits(weights) <= 64 ? Fill<std::uint64_t>(entries, amount, weights, out)
                                            : Fill<absl::uint128>(entries, amount, weights, out);
}

inline void BudgetTree::FillFamily(const Layout& layout, const Family& family,
                                   std::span<const std::int64_t> multiplier_q16,
                                   WaterFillScratch& scratch, std::vector<MilliGpu>& out) const {
  const std::span<const std::uint32_t> members =
      std::span(layout.members).subspan(family.first, family.count);
  std::array<FillEntry, kFewChildren> few;
  std::span<FillEntry> entries = few;
  if (members.size() > few.size()) {
    if (scratch.entries_.size() < members.size()) scratch.entries_.resize(members.size());
    entries = scratch.entries_;
  }
  const auto multiplier = [&](std::uint32_t id) {
    if (id >= multiplier_q16.size()) return static_cast<std::uint64_t>(internal::kOneQ16);
    return static_cast<std::uint64_t>(std::max<std::int64_t>(multiplier_q16[id], 0));
  };
  // Weights are cut to a sum below 2^62, the same for all siblings.
  int cut = 0;
  if (!multiplier_q16.empty()) {
    std::uint64_t largest = 0;
    for (const std::uint32_t id : members) largest = std::max(largest, multiplier(id));
    cut = std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(family.units)) +
                                       std::bit_width(largest)) -
                          62);
  }
  const auto weight = [&](std::uint32_t id) -> std::int64_t {
    const auto units = static_cast<std::uint64_t>(layout.units[id]);
    if (multiplier_q16.empty()) return static_cast<std::int64_t>(units);
    if (cut == 0) return static_cast<std::int64_t>(units * multiplier(id));
    const absl::uint128 wide = absl::uint128(units) * absl::uint128(multiplier(id));
    if (wide == 0) return 0;
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(absl::Uint128Low64(wide >> cut)));
  };

  const std::int64_t amount = out[family.parent].value();
  // Weighted children in front, those of weight 0 from the back.
  std::size_t weighted = 0;
  std::size_t weightless = entries.size();
  for (const std::uint32_t id : members) {
    const std::int64_t demand = std::min(scratch.demand_[id], amount);
    out[id] = MilliGpu(0);
    if (demand == 0) continue;
    const std::int64_t w = weight(id);
    entries[w > 0 ? weighted++ : --weightless] =
        FillEntry{demand, std::max<std::int64_t>(w, 1), id};
  }
  const std::int64_t left = Fill(entries.first(weighted), amount, out);
  if (left > 0 && weightless < entries.size()) Fill(entries.subspan(weightless), left, out);
}

inline void BudgetTree::WaterFill(MilliGpu capacity, std::span<const MilliGpu> demand,
                                  std::span<const std::int64_t> multiplier_q16,
                                  WaterFillScratch& scratch, std::vector<MilliGpu>& out) const {
  const Layout& l = layout();
  out.resize(entries_.size());
  scratch.demand_.resize(entries_.size());
  std::vector<std::int64_t>& wanted = scratch.demand_;
  for (const AllocationId leaf : l.leaves) {
    const std::size_t i = leaf.value();
    wanted[i] = i < demand.size() ? std::max<std::int64_t>(demand[i].value(), 0) : 0;
  }
  for (auto f = l.families.rbegin(); f != l.families.rend(); ++f) {
    std::int64_t sum = 0;
    for (std::uint32_t i = f->first; i < f->first + f->count; ++i) {
      sum = internal::SaturatingAdd(sum, wanted[l.members[i]]);
    }
    wanted[f->parent] = sum;
  }
  out[0] = MilliGpu(std::clamp<std::int64_t>(capacity.value(), 0, wanted[0]));
  for (const Family& f : l.families) {
    if (out[f.parent].value() == wanted[f.parent]) {
      for (std::uint32_t i = f.first; i < f.first + f.count; ++i) {
        out[l.members[i]] = MilliGpu(wanted[l.members[i]]);
      }
    } else {
      FillFamily(l, f, multiplier_q16, scratch, out);
    }
  }
}

}  // namespace tenure

#endif  // TENURE_BUDGET_TREE_H_
