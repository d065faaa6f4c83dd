// SPDX-License-Identifier: Apache-2.0
//
// BudgetTree: its structure and what changes it. Included by budget_tree.h; not for direct use.
// Every function checks everything before it changes anything.
#ifndef TENURE_BUDGET_TREE_EDITS_H_
#define TENURE_BUDGET_TREE_EDITS_H_

#include "tenure/budget_tree.h"

namespace tenure {

inline absl::Status BudgetTree::CheckWeight(Weight weight) {
  if (std::isfinite(weight.value) && weight.value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("weight is ", weight.value, ", must be finite and >= 0"));
}

inline void BudgetTree::Index(std::uint32_t id) {
  Entry& e = entries_[id];
  const auto [it, inserted] = index_.emplace(Key(e.parent, e.name), id);
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

}  // namespace tenure

#endif  // TENURE_BUDGET_TREE_EDITS_H_
