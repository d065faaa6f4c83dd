// SPDX-License-Identifier: Apache-2.0
//
// BudgetTree: integer weights, entitlements and the water-fill. Included by budget_tree.h; not for
// direct use.
#ifndef TENURE_BUDGET_TREE_FILL_H_
#define TENURE_BUDGET_TREE_FILL_H_

#include "tenure/budget_tree.h"

namespace tenure {

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

inline MilliGpu BudgetTree::Entitlement(MilliGpu capacity, AllocationId id) const {
  if (id == kRootAllocation) return std::max(capacity, MilliGpu(0));
  const Layout& l = layout();
  const Family& f = l.families[l.family_of[parent(id).value()]];
  const std::int64_t amount = Entitlement(capacity, parent(id)).value();
  return MilliGpu(f.units == 0 ? 0 : internal::MulDivFloor(amount, l.units[id.value()], f.units));
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

// Members that ask for nothing get nothing.
inline void BudgetTree::FillFamily(const Layout& layout, const Family& family,
                                   std::span<const std::uint32_t> members,
                                   std::span<const MilliGpu> demand,
                                   std::span<const std::int64_t> multiplier_q16,
                                   WaterFillScratch& scratch, std::vector<MilliGpu>& out) const {
  const std::int64_t amount = out[family.parent].value();
  if (amount == demand[family.parent].value()) {
    for (const std::uint32_t id : members) out[id] = demand[id];
    return;
  }
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
    for (const std::uint32_t id : members) {
      if (demand[id] > MilliGpu(0)) largest = std::max(largest, multiplier(id));
    }
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

  // Weighted children in front, those of weight 0 from the back.
  std::size_t weighted = 0;
  std::size_t weightless = entries.size();
  for (const std::uint32_t id : members) {
    const std::int64_t wanted = std::min(demand[id].value(), amount);
    out[id] = MilliGpu(0);
    if (wanted == 0) continue;
    const std::int64_t w = weight(id);
    entries[w > 0 ? weighted++ : --weightless] =
        FillEntry{wanted, std::max<std::int64_t>(w, 1), id};
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
  std::vector<MilliGpu>& wanted = scratch.demand_;
  for (const AllocationId leaf : l.leaves) {
    const std::size_t i = leaf.value();
    wanted[i] = i < demand.size() ? std::max(demand[i], MilliGpu(0)) : MilliGpu(0);
  }
  const auto members = [&](const Family& f) {
    return std::span(l.members).subspan(f.first, f.count);
  };
  for (auto f = l.families.rbegin(); f != l.families.rend(); ++f) {
    std::int64_t sum = 0;
    for (const std::uint32_t id : members(*f)) {
      sum = internal::SaturatingAdd(sum, wanted[id].value());
    }
    wanted[f->parent] = MilliGpu(sum);
  }
  out[0] = std::clamp(capacity, MilliGpu(0), wanted[0]);
  for (const Family& f : l.families) {
    FillFamily(l, f, members(f), wanted, multiplier_q16, scratch, out);
  }
}

}  // namespace tenure

#endif  // TENURE_BUDGET_TREE_FILL_H_
