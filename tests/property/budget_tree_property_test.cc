// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/numeric/int128.h"
#include "gtest/gtest.h"
#include "tenure/budget_tree.h"

namespace tenure {
namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::int64_t Below(std::int64_t n) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n));
  }
  bool Chance(int percent) { return Below(100) < percent; }

 private:
  std::mt19937_64 engine_;
};

// Decimals, integers, irrational, extreme and zero weights.
double RandomWeight(Random& random) {
  switch (random.Below(6)) {
    case 0:
      return 1;
    case 1:
      return static_cast<double>(random.Below(100)) / 100;
    case 2:
      return static_cast<double>(1 + random.Below(1000));
    case 3:
      return std::sqrt(static_cast<double>(1 + random.Below(1000)));
    case 4:
      return std::ldexp(1.0, static_cast<int>(random.Below(120)) - 60);
    default:
      return random.Chance(30) ? 0 : 1.0 / 3;
  }
}

struct Case {
  BudgetTree tree;
  std::vector<MilliGpu> demand;
  std::vector<std::int64_t> multiplier;
  MilliGpu capacity;
};

Case RandomCase(std::uint64_t seed) {
  Random random(seed);
  Case c;
  const std::int64_t nodes = 1 + random.Below(seed % 10 == 0 ? 120 : 25);
  for (std::int64_t i = 0; i < nodes; ++i) {
    // Wide families now and then: they are filled by another method.
    const std::int64_t parent =
        random.Chance(40) ? 0 : random.Below(static_cast<std::int64_t>(c.tree.size()));
    const auto added =
        c.tree.Add("n" + std::to_string(random.Below(1'000'000)) + "." + std::to_string(i),
                   AllocationId(static_cast<std::uint32_t>(parent)), Weight{RandomWeight(random)});
    EXPECT_TRUE(added.ok()) << added.status();
  }
  if (random.Chance(20)) {
    EXPECT_TRUE(
        c.tree.Close(AllocationId(static_cast<std::uint32_t>(1 + random.Below(nodes)))).ok());
  }
  const std::int64_t scale = std::int64_t{1} << random.Below(random.Chance(80) ? 22 : 44);
  for (std::size_t i = 0; i < c.tree.size(); ++i) {
    c.demand.emplace_back(random.Chance(30) ? 0 : random.Below(scale));
    c.multiplier.push_back(random.Chance(90) ? std::int64_t{1} << (14 + random.Below(5))
                                             : random.Below(std::int64_t{1} << random.Below(63)));
  }
  if (random.Chance(30)) c.multiplier.clear();
  c.capacity = MilliGpu(random.Below(random.Chance(70) ? scale * nodes / 2 + 1 : scale));
  return c;
}

// Larger multipliers are rounded relative to the largest.
void KeepExact(Case& c) {
  for (std::int64_t& m : c.multiplier) m = std::min(m, std::int64_t{1} << 21);
}

std::vector<MilliGpu> Fill(const Case& c) {
  WaterFillScratch scratch;
  std::vector<MilliGpu> out;
  c.tree.WaterFill(c.capacity, c.demand, c.multiplier, scratch, out);
  return out;
}

// Demand with that of inner nodes filled in, by recursion.
std::int64_t Demand(const Case& c, AllocationId id, std::vector<std::int64_t>& demand) {
  std::int64_t sum = c.tree.is_leaf(id) ? c.demand[id.value()].value() : 0;
  for (const AllocationId child : c.tree.children(id)) sum += Demand(c, child, demand);
  return demand[id.value()] = sum;
}

std::vector<std::int64_t> Demands(const Case& c) {
  std::vector<std::int64_t> demand(c.tree.size());
  Demand(c, kRootAllocation, demand);
  return demand;
}

absl::uint128 FillWeight(const Case& c, AllocationId id) {
  const absl::uint128 units = static_cast<std::uint64_t>(c.tree.units(id));
  return units *
         static_cast<std::uint64_t>(c.multiplier.empty() ? 65536 : c.multiplier[id.value()]);
}

struct Child {
  AllocationId id;
  std::int64_t demand;
  long double weight;
};

// Fills one family by bisecting the level; real numbers.
void SlowFill(const std::vector<Child>& children, long double amount,
              std::map<AllocationId, long double>& out) {
  long double low = 0;
  long double high = 1;
  const auto poured = [&](long double level) {
    long double sum = 0;
    for (const Child& c : children) {
      sum += std::min(static_cast<long double>(c.demand), level * c.weight);
    }
    return sum;
  };
  long double total = 0;
  for (const Child& c : children) total += static_cast<long double>(c.demand);
  if (total <= amount) {
    for (const Child& c : children) out[c.id] = static_cast<long double>(c.demand);
    return;
  }
  while (poured(high) < amount) high *= 2;
  for (int i = 0; i < 300; ++i) {
    const long double middle = (low + high) / 2;
    (poured(middle) <= amount ? low : high) = middle;
  }
  for (const Child& c : children) {
    out[c.id] = std::min(static_cast<long double>(c.demand), low * c.weight);
  }
}

TEST(WaterFillProperty, EqualsTheBisectedLevel) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Case c = RandomCase(seed);
    KeepExact(c);
    const std::vector<MilliGpu> out = Fill(c);
    const std::vector<std::int64_t> demand = Demands(c);
    ASSERT_EQ(out[0].value(), std::min(c.capacity.value(), demand[0])) << seed;
    for (const AllocationId parent : c.tree.preorder()) {
      std::vector<Child> weighted;
      std::vector<Child> weightless;
      long double wanted = 0;
      for (const AllocationId id : c.tree.children(parent)) {
        const auto w = static_cast<long double>(FillWeight(c, id));
        (w > 0 ? weighted : weightless).push_back({id, demand[id.value()], w > 0 ? w : 1});
        if (w > 0) wanted += static_cast<long double>(demand[id.value()]);
      }
      const auto amount = static_cast<long double>(out[parent.value()].value());
      std::map<AllocationId, long double> expected;
      SlowFill(weighted, amount, expected);
      SlowFill(weightless, std::max(0.0L, amount - wanted), expected);
      for (const auto& [id, share] : expected) {
        const auto got = static_cast<long double>(out[id.value()].value());
        const long double tolerance = 1e-12L * amount + 1e-6L;
        ASSERT_LE(got, share + tolerance) << seed << " allocation " << id.value();
        ASSERT_GT(got, share - 1 - tolerance) << seed << " allocation " << id.value();
      }
    }
  }
}

// Exact: with S the weighted children that want more than they got, A what the rest leave and W the
// weight of S, each in S has floor(A w / W), and each that is satisfied fits under that level.
TEST(WaterFillProperty, IsMaxMinFairExactly) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Case c = RandomCase(seed);
    KeepExact(c);
    const std::vector<MilliGpu> out = Fill(c);
    const std::vector<std::int64_t> demand = Demands(c);
    for (const AllocationId parent : c.tree.preorder()) {
      std::int64_t left = out[parent.value()].value();
      absl::uint128 weights = 0;
      for (const AllocationId id : c.tree.children(parent)) {
        if (FillWeight(c, id) == 0) continue;
        if (out[id.value()].value() == demand[id.value()]) {
          left -= demand[id.value()];
        } else {
          weights += FillWeight(c, id);
        }
      }
      ASSERT_GE(left, 0) << seed;
      const absl::uint128 rest = static_cast<std::uint64_t>(left);
      for (const AllocationId id : c.tree.children(parent)) {
        const absl::uint128 w = FillWeight(c, id);
        const absl::uint128 got = static_cast<std::uint64_t>(out[id.value()].value());
        const absl::uint128 wanted = static_cast<std::uint64_t>(demand[id.value()]);
        if (weights == 0) continue;  // all weighted children are satisfied
        if (w == 0) {
          ASSERT_EQ(got, 0u) << seed;
        } else if (got == wanted) {
          ASSERT_LE(wanted * weights, rest * w) << seed;
        } else {
          ASSERT_EQ(got, rest * w / weights) << seed;
        }
      }
    }
  }
}

TEST(WaterFillProperty, ConservesAndNeverExceedsDemand) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const Case c = RandomCase(seed);
    const std::vector<MilliGpu> out = Fill(c);
    const std::vector<std::int64_t> demand = Demands(c);
    std::int64_t leaves = 0;
    for (const AllocationId id : c.tree.preorder()) {
      ASSERT_GE(out[id.value()], MilliGpu(0)) << seed;
      ASSERT_LE(out[id.value()].value(), demand[id.value()]) << seed;
      std::int64_t children = 0;
      for (const AllocationId child : c.tree.children(id)) children += out[child.value()].value();
      ASSERT_LE(children, out[id.value()].value()) << seed;
      if (c.tree.is_leaf(id)) leaves += out[id.value()].value();
    }
    const std::int64_t whole = std::min(c.capacity.value(), demand[0]);
    ASSERT_LE(leaves, whole) << seed;
    ASSERT_GE(leaves, whole - static_cast<std::int64_t>(c.tree.size())) << seed;
  }
}

TEST(WaterFillProperty, IsMonotone) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Case c = RandomCase(seed);
    Random random(seed + 1'000'000);
    const std::vector<MilliGpu> before = Fill(c);
    Case richer = c;
    richer.capacity += MilliGpu(1 + random.Below(c.capacity.value() + 1));
    const std::vector<MilliGpu> more = Fill(richer);
    for (std::size_t i = 0; i < before.size(); ++i) ASSERT_GE(more[i], before[i]) << seed;

    const AllocationId leaf = c.tree.leaves()[static_cast<std::size_t>(
        random.Below(static_cast<std::int64_t>(c.tree.leaves().size())))];
    c.demand[leaf.value()] += MilliGpu(1 + random.Below(1 << 20));
    const std::vector<MilliGpu> after = Fill(c);
    for (const AllocationId other : c.tree.leaves()) {
      if (other == leaf) {
        ASSERT_GE(after[other.value()], before[other.value()]) << seed;
      } else {
        ASSERT_LE(after[other.value()], before[other.value()]) << seed;
      }
    }
  }
}

TEST(WaterFillProperty, ReusedScratchChangesNothing) {
  WaterFillScratch scratch;
  std::vector<MilliGpu> out;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Case c = RandomCase(seed);
    c.tree.WaterFill(c.capacity, c.demand, c.multiplier, scratch, out);
    ASSERT_EQ(out, Fill(c)) << seed;
  }
}

TEST(EntitlementProperty, SumsToTheParentWithinRounding) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const Case c = RandomCase(seed);
    std::vector<MilliGpu> out;
    c.tree.Entitlements(c.capacity, out);
    for (std::uint32_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(c.tree.Entitlement(c.capacity, AllocationId(i)), out[i]);
    }
    ASSERT_EQ(out[0], c.capacity);
    for (const AllocationId id : c.tree.preorder()) {
      if (c.tree.is_leaf(id)) continue;
      std::int64_t sum = 0;
      std::int64_t units = 0;
      for (const AllocationId child : c.tree.children(id)) {
        sum += out[child.value()].value();
        units += c.tree.units(child);
        ASSERT_EQ(c.tree.units(child) == 0,
                  c.tree.closed(child) || c.tree.weight(child).value == 0);
      }
      ASSERT_LE(sum, out[id.value()].value()) << seed;
      if (units == 0) {
        ASSERT_EQ(sum, 0) << seed;
      } else {
        ASSERT_GE(sum + static_cast<std::int64_t>(c.tree.children(id).size()),
                  out[id.value()].value())
            << seed;
      }
    }
  }
}

// The same nodes in another order of creation: the same order and amounts by path.
TEST(BudgetTreeProperty, DoesNotDependOnTheOrderOfCreation) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Case c = RandomCase(seed);
    Random random(seed + 5);
    Case shuffled;
    shuffled.capacity = c.capacity;
    std::vector<AllocationId> new_id(c.tree.size(), kRootAllocation);
    std::vector<AllocationId> ready(c.tree.children(kRootAllocation).begin(),
                                    c.tree.children(kRootAllocation).end());
    std::vector<std::uint32_t> old_of = {0};
    while (!ready.empty()) {
      const auto pick =
          static_cast<std::size_t>(random.Below(static_cast<std::int64_t>(ready.size())));
      const AllocationId old = ready[pick];
      ready[pick] = ready.back();
      ready.pop_back();
      const auto added = shuffled.tree.Add(c.tree.name(old), new_id[c.tree.parent(old).value()],
                                           c.tree.weight(old));
      ASSERT_TRUE(added.ok());
      new_id[old.value()] = *added;
      old_of.push_back(old.value());
      for (const AllocationId child : c.tree.children(old)) ready.push_back(child);
    }
    for (std::uint32_t i = 1; i < c.tree.size(); ++i) {
      if (c.tree.closed(AllocationId(i)) && !shuffled.tree.closed(new_id[i])) {
        ASSERT_TRUE(shuffled.tree.Close(new_id[i]).ok());
      }
    }
    for (const std::uint32_t old : old_of) {
      shuffled.demand.push_back(c.demand[old]);
      if (!c.multiplier.empty()) shuffled.multiplier.push_back(c.multiplier[old]);
    }
    const std::vector<MilliGpu> a = Fill(c);
    const std::vector<MilliGpu> b = Fill(shuffled);
    for (std::uint32_t i = 0; i < c.tree.size(); ++i) {
      ASSERT_EQ(c.tree.order(AllocationId(i)), shuffled.tree.order(new_id[i])) << seed;
      ASSERT_EQ(c.tree.units(AllocationId(i)), shuffled.tree.units(new_id[i])) << seed;
      ASSERT_EQ(a[i], b[new_id[i].value()]) << seed;
    }
  }
}

TEST(BudgetTreeProperty, RandomEditsKeepTheInvariants) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    BudgetTree tree;
    std::set<std::string> open;  // paths
    std::int64_t now = 0;
    for (int step = 0; step < 150; ++step) {
      const AllocationId id(
          static_cast<std::uint32_t>(random.Below(static_cast<std::int64_t>(tree.size()))));
      const std::size_t size = tree.size();
      switch (random.Below(6)) {
        case 0:
        case 1:
        case 2: {
          const std::string name(1, static_cast<char>('a' + random.Below(6)));
          const std::string path = id == kRootAllocation ? name : tree.path(id) + "/" + name;
          const bool possible = !tree.closed(id) && !tree.charged(id) && open.count(path) == 0;
          const auto added = tree.Add(name, id, Weight{RandomWeight(random)});
          ASSERT_EQ(added.ok(), possible) << added.status();
          ASSERT_EQ(tree.size(), size + (possible ? 1 : 0));
          if (possible) {
            ASSERT_EQ(added->value(), size);
            open.insert(path);
          }
          break;
        }
        case 3: {
          if (!random.Chance(30)) break;
          const bool possible = id != kRootAllocation && !tree.closed(id);
          ASSERT_EQ(tree.Close(id).ok(), possible);
          if (!possible) break;
          const std::string path = tree.path(id);
          std::erase_if(
              open, [&](const std::string& p) { return p == path || p.rfind(path + "/", 0) == 0; });
          break;
        }
        case 4:
          if (tree.is_leaf(id) && random.Chance(20) && id != kRootAllocation) tree.MarkCharged(id);
          break;
        default: {
          const bool possible = id != kRootAllocation && !tree.closed(id);
          ASSERT_EQ(tree.ScheduleWeight(id, Weight{RandomWeight(random)},
                                        TimePoint(Duration(now + random.Below(20))), "a", "r")
                        .ok(),
                    possible);
          now += random.Below(10);
          // Sometimes with the layout built, sometimes not.
          if (random.Chance(50)) {
            ASSERT_LT(tree.order(id), tree.size());
          }
          tree.ApplyEdits(TimePoint(Duration(now)));
          ASSERT_GT(tree.next_edit(), TimePoint(Duration(now)));
        }
      }
    }
    std::set<std::string> found;
    BudgetTree fresh = tree;
    ASSERT_EQ(tree.preorder().size(), tree.size());
    for (std::uint32_t i = 0; i < tree.size(); ++i) {
      const AllocationId id(i);
      ASSERT_EQ(tree.preorder()[tree.order(id)], id);
      if (i == 0) continue;
      ASSERT_LT(tree.order(tree.parent(id)), tree.order(id));
      ASSERT_EQ(tree.depth(id), tree.depth(tree.parent(id)) + 1);
      ASSERT_TRUE(tree.closed(id) || !tree.closed(tree.parent(id)));
      ASSERT_EQ(tree.units(id) == 0, tree.closed(id) || tree.weight(id).value == 0);
      if (tree.closed(id)) continue;
      ASSERT_TRUE(found.insert(tree.path(id)).second);
      ASSERT_EQ(tree.Find(tree.path(id)).value(), id);
    }
    ASSERT_EQ(found, open) << seed;
    // Edits applied to a built layout leave the units a rebuilt one has.
    ASSERT_TRUE(fresh.Add("another", kRootAllocation, Weight{0}).ok());
    for (std::uint32_t i = 0; i < tree.size(); ++i) {
      ASSERT_EQ(fresh.units(AllocationId(i)), tree.units(AllocationId(i))) << seed;
    }
    std::vector<Weight> weight(tree.size());
    for (const BudgetEdit& e : tree.edits()) weight[e.allocation.value()] = e.after;
    for (const BudgetEdit& e : tree.edits()) {
      ASSERT_EQ(tree.weight(e.allocation), weight[e.allocation.value()]);
    }
  }
}

}  // namespace
}  // namespace tenure
