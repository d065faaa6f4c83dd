// SPDX-License-Identifier: Apache-2.0
#include "tenure/budget_tree.h"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tenure/archive.h"

namespace tenure {
namespace {

using std::chrono::hours;

TimePoint Hour(int h) { return TimePoint(hours(h)); }

AllocationId AddTo(BudgetTree& tree, const std::string& name, AllocationId parent = kRootAllocation,
                   double weight = 1) {
  absl::StatusOr<AllocationId> id = tree.Add(name, parent, Weight{weight});
  EXPECT_TRUE(id.ok()) << id.status();
  return id.value_or(kRootAllocation);
}

void ExpectError(const absl::Status& status, absl::StatusCode code, const std::string& part) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_NE(std::string(status.message()).find(part), std::string::npos) << status;
}

std::vector<std::int64_t> Values(std::span<const MilliGpu> amounts) {
  std::vector<std::int64_t> out;
  for (const MilliGpu m : amounts) out.push_back(m.value());
  return out;
}

std::vector<std::int64_t> Entitlements(const BudgetTree& tree, std::int64_t capacity) {
  std::vector<MilliGpu> out;
  tree.Entitlements(MilliGpu(capacity), out);
  return Values(out);
}

std::vector<std::int64_t> Fill(const BudgetTree& tree, std::int64_t capacity,
                               const std::vector<std::int64_t>& demand,
                               const std::vector<std::int64_t>& multiplier = {}) {
  std::vector<MilliGpu> wanted;
  for (const std::int64_t d : demand) wanted.emplace_back(d);
  WaterFillScratch scratch;
  std::vector<MilliGpu> out;
  tree.WaterFill(MilliGpu(capacity), wanted, multiplier, scratch, out);
  return Values(out);
}

using Integers = std::vector<std::int64_t>;

TEST(BudgetTree, StartsWithTheRoot) {
  const BudgetTree tree;
  EXPECT_EQ(tree.size(), 1u);
  EXPECT_TRUE(tree.contains(kRootAllocation));
  EXPECT_FALSE(tree.contains(AllocationId(1)));
  EXPECT_EQ(tree.name(kRootAllocation), "");
  EXPECT_EQ(tree.path(kRootAllocation), "");
  EXPECT_EQ(tree.parent(kRootAllocation), kRootAllocation);
  EXPECT_EQ(tree.depth(kRootAllocation), 0);
  EXPECT_TRUE(tree.is_leaf(kRootAllocation));
  EXPECT_EQ(tree.leaves().size(), 1u);
  EXPECT_EQ(tree.next_edit(), kNever);
  EXPECT_EQ(Entitlements(tree, 8000), Integers({8000}));
  EXPECT_EQ(Fill(tree, 8000, {3000}), Integers({3000}));
}

TEST(BudgetTree, KeepsNamesPathsAndParents) {
  BudgetTree tree;
  const AllocationId nlp = AddTo(tree, "nlp", kRootAllocation, 35);
  const AllocationId pre = AddTo(tree, "pretraining", nlp, 3);
  const AllocationId odd = AddTo(tree, std::string("f\xfcr\0 \"dich\n", 12), nlp);
  EXPECT_EQ(nlp, AllocationId(1));
  EXPECT_EQ(pre, AllocationId(2));
  EXPECT_EQ(tree.path(pre), "nlp/pretraining");
  EXPECT_EQ(tree.depth(pre), 2);
  EXPECT_EQ(tree.parent(pre), nlp);
  EXPECT_EQ(tree.weight(nlp), Weight{35});
  EXPECT_FALSE(tree.is_leaf(nlp));
  EXPECT_TRUE(tree.is_leaf(pre));
  ASSERT_EQ(tree.children(nlp).size(), 2u);
  EXPECT_EQ(tree.children(nlp)[0], pre);
  EXPECT_EQ(tree.name(odd), std::string("f\xfcr\0 \"dich\n", 12));
  EXPECT_EQ(tree.Find(tree.path(odd)).value(), odd);
  EXPECT_EQ(tree.Find("nlp/pretraining").value(), pre);
  EXPECT_EQ(tree.Find("").value(), kRootAllocation);
}

TEST(BudgetTree, FindNamesWhatItMisses) {
  BudgetTree tree;
  AddTo(tree, "a");
  for (const char* path : {"b", "a/b", "/", "/a", "a/", "a//"}) {
    ExpectError(tree.Find(path).status(), absl::StatusCode::kNotFound, path);
  }
}

TEST(BudgetTree, AddRefusesBadNames) {
  BudgetTree tree;
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  ExpectError(tree.Add("", kRootAllocation, Weight{1}).status(), kInvalid, "name is empty");
  ExpectError(tree.Add("a/b", kRootAllocation, Weight{1}).status(), kInvalid, "\"a/b\"");
  ExpectError(tree.Add(std::string(4097, 'x'), kRootAllocation, Weight{1}).status(), kInvalid,
              "4097 bytes");
  EXPECT_TRUE(tree.Add(std::string(4096, 'x'), kRootAllocation, Weight{1}).ok());
  EXPECT_EQ(tree.size(), 2u);
}

TEST(BudgetTree, AddRefusesBadWeights) {
  BudgetTree tree;
  for (const double bad : {-1.0, -1e-300, std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity(), std::nan("")}) {
    ExpectError(tree.Add("a", kRootAllocation, Weight{bad}).status(),
                absl::StatusCode::kInvalidArgument, "weight is ");
  }
  EXPECT_EQ(tree.size(), 1u);
  AddTo(tree, "zero", kRootAllocation, 0);
  AddTo(tree, "tiny", kRootAllocation, std::numeric_limits<double>::denorm_min());
  AddTo(tree, "huge", kRootAllocation, std::numeric_limits<double>::max());
  EXPECT_EQ(tree.units(AllocationId(1)), 0);
  EXPECT_EQ(tree.units(AllocationId(2)), 1);
}

TEST(BudgetTree, AddRefusesAnUnknownParent) {
  BudgetTree tree;
  ExpectError(tree.Add("a", AllocationId(1), Weight{1}).status(), absl::StatusCode::kNotFound,
              "no parent allocation 1");
  EXPECT_EQ(tree.size(), 1u);
}

TEST(BudgetTree, AddRefusesATwinUnlessItIsClosed) {
  BudgetTree tree;
  const AllocationId a = AddTo(tree, "a");
  const AllocationId b = AddTo(tree, "b");
  ExpectError(tree.Add("a", kRootAllocation, Weight{2}).status(), absl::StatusCode::kAlreadyExists,
              "allocation 1");
  AddTo(tree, "a", b);  // another parent
  ASSERT_TRUE(tree.Close(a).ok());
  const AllocationId again = AddTo(tree, "a");
  EXPECT_EQ(again, AllocationId(4));
  EXPECT_EQ(tree.Find("a").value(), again);
  EXPECT_EQ(tree.path(a), "a");
  EXPECT_FALSE(tree.Add("a", kRootAllocation, Weight{1}).ok());
  EXPECT_EQ(tree.size(), 5u);
}

TEST(BudgetTree, AddRefusesAClosedOrChargedParent) {
  BudgetTree tree;
  const AllocationId a = AddTo(tree, "a");
  const AllocationId b = AddTo(tree, "b");
  ASSERT_TRUE(tree.Close(a).ok());
  tree.MarkCharged(b);
  EXPECT_TRUE(tree.charged(b));
  ExpectError(tree.Add("x", a, Weight{1}).status(), absl::StatusCode::kFailedPrecondition,
              "parent allocation 1 is closed");
  ExpectError(tree.Add("x", b, Weight{1}).status(), absl::StatusCode::kFailedPrecondition,
              "parent allocation 2 was charged");
  EXPECT_TRUE(tree.is_leaf(b));
}

TEST(BudgetTree, CloseTakesTheSubtreeOutOfTheShares) {
  BudgetTree tree;
  const AllocationId a = AddTo(tree, "a", kRootAllocation, 1);
  const AllocationId b = AddTo(tree, "b", kRootAllocation, 3);
  const AllocationId c = AddTo(tree, "c", a);
  EXPECT_EQ(Entitlements(tree, 1000), Integers({1000, 250, 750, 250}));
  ASSERT_TRUE(tree.Close(a).ok());
  EXPECT_TRUE(tree.closed(a));
  EXPECT_TRUE(tree.closed(c));
  EXPECT_FALSE(tree.closed(b));
  EXPECT_EQ(tree.weight(a), Weight{1});
  EXPECT_EQ(tree.units(a), 0);
  EXPECT_EQ(Entitlements(tree, 1000), Integers({1000, 0, 1000, 0}));
  ExpectError(tree.Find("a").status(), absl::StatusCode::kNotFound, "a");
  ExpectError(tree.Find("a/c").status(), absl::StatusCode::kNotFound, "a/c");
  EXPECT_EQ(tree.path(c), "a/c");
}

TEST(BudgetTree, CloseRefusesTheRootUnknownAndClosed) {
  BudgetTree tree;
  const AllocationId a = AddTo(tree, "a");
  ExpectError(tree.Close(kRootAllocation), absl::StatusCode::kInvalidArgument, "root");
  ExpectError(tree.Close(AllocationId(9)), absl::StatusCode::kNotFound, "allocation 9");
  ASSERT_TRUE(tree.Close(a).ok());
  ExpectError(tree.Close(a), absl::StatusCode::kFailedPrecondition, "already closed");
}

// L35: the share changes at the date of the edit; the log says who and why.
TEST(BudgetTree, EditsTakeEffectAtTheirDate) {
  BudgetTree tree;
  const AllocationId a = AddTo(tree, "a");
  AddTo(tree, "b");
  EXPECT_EQ(tree.units(a), 1);
  ASSERT_TRUE(tree.ScheduleWeight(a, Weight{3}, Hour(2), "ada", "review").ok());
  EXPECT_EQ(tree.next_edit(), Hour(2));
  EXPECT_FALSE(tree.ApplyEdits(Hour(1)));
  EXPECT_EQ(Entitlements(tree, 1000), Integers({1000, 500, 500}));
  EXPECT_TRUE(tree.ApplyEdits(Hour(2)));
  EXPECT_EQ(Entitlements(tree, 1000), Integers({1000, 750, 250}));
  EXPECT_EQ(tree.next_edit(), kNever);
  EXPECT_FALSE(tree.ApplyEdits(Hour(3)));
  ASSERT_EQ(tree.edits().size(), 1u);
  EXPECT_EQ(tree.edits()[0], (BudgetEdit{a, Weight{1}, Weight{3}, Hour(2), "ada", "review"}));
}

TEST(BudgetTree, EditsApplyByDateThenOrderOfPlanning) {
  BudgetTree tree;
  const AllocationId a = AddTo(tree, "a");
  ASSERT_TRUE(tree.ScheduleWeight(a, Weight{5}, Hour(5), "", "second").ok());
  ASSERT_TRUE(tree.ScheduleWeight(a, Weight{6}, Hour(5), "", "third").ok());
  ASSERT_TRUE(tree.ScheduleWeight(a, Weight{4}, Hour(4), "", "first").ok());
  ASSERT_TRUE(tree.ScheduleWeight(a, Weight{6}, Hour(6), "", "no change").ok());
  EXPECT_EQ(tree.next_edit(), Hour(4));
  EXPECT_TRUE(tree.ApplyEdits(Hour(5)));
  EXPECT_EQ(tree.weight(a), Weight{6});
  EXPECT_EQ(tree.next_edit(), Hour(6));
  EXPECT_FALSE(tree.ApplyEdits(Hour(6)));
  ASSERT_EQ(tree.edits().size(), 4u);
  EXPECT_EQ(tree.edits()[0].reason, "first");
  EXPECT_EQ(tree.edits()[1].reason, "second");
  EXPECT_EQ(tree.edits()[1].before, Weight{4});
  EXPECT_EQ(tree.edits()[2].reason, "third");
}

TEST(BudgetTree, ScheduleWeightRefusesWhatCannotApply) {
  BudgetTree tree;
  const AllocationId a = AddTo(tree, "a");
  const auto schedule = [&](AllocationId id, double weight, TimePoint at) {
    return tree.ScheduleWeight(id, Weight{weight}, at, "", "");
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  ExpectError(schedule(a, -1, Hour(0)), kInvalid, "allocation 1: weight is -1");
  ExpectError(schedule(a, std::nan(""), Hour(0)), kInvalid, "weight is nan");
  ExpectError(schedule(a, std::numeric_limits<double>::infinity(), Hour(0)), kInvalid, "inf");
  ExpectError(schedule(kRootAllocation, 1, Hour(0)), kInvalid, "root");
  ExpectError(schedule(a, 1, kNever), kInvalid, "effective is 9223372036854775807 us");
  ExpectError(schedule(AllocationId(7), 1, Hour(0)), absl::StatusCode::kNotFound, "allocation 7");
  ASSERT_TRUE(tree.Close(a).ok());
  ExpectError(schedule(a, 1, Hour(0)), absl::StatusCode::kFailedPrecondition, "is closed");
  EXPECT_EQ(tree.next_edit(), kNever);
}

TEST(BudgetTree, AnEditOfWhatWasClosedMeanwhileIsOnRecordOnly) {
  BudgetTree tree;
  const AllocationId a = AddTo(tree, "a");
  AddTo(tree, "b");
  ASSERT_TRUE(tree.ScheduleWeight(a, Weight{9}, Hour(2), "", "").ok());
  ASSERT_TRUE(tree.Close(a).ok());
  tree.ApplyEdits(Hour(2));
  EXPECT_EQ(tree.weight(a), Weight{9});
  EXPECT_EQ(tree.edits().size(), 1u);
  EXPECT_EQ(Entitlements(tree, 1000), Integers({1000, 0, 1000}));
}

TEST(BudgetTree, OrderIsByNameNotByCreationAndClosedLast) {
  BudgetTree tree;
  const AllocationId c = AddTo(tree, "c");
  const AllocationId a = AddTo(tree, "a");
  const AllocationId b = AddTo(tree, "b");
  const AllocationId cz = AddTo(tree, "z", c);
  const AllocationId cy = AddTo(tree, "y", c);
  const AllocationId high = AddTo(tree, "\xff");
  ASSERT_TRUE(tree.Close(a).ok());
  const std::vector<AllocationId> expected = {kRootAllocation, b, c, cy, cz, high, a};
  EXPECT_EQ(std::vector(tree.preorder().begin(), tree.preorder().end()), expected);
  const std::vector<AllocationId> leaves = {b, cy, cz, high, a};
  EXPECT_EQ(std::vector(tree.leaves().begin(), tree.leaves().end()), leaves);
  for (std::uint32_t i = 0; i < expected.size(); ++i) EXPECT_EQ(tree.order(expected[i]), i);
}

TEST(BudgetTree, UnitsKeepDecimalWeightsExact) {
  BudgetTree tree;
  AddTo(tree, "a", kRootAllocation, 0.35);
  AddTo(tree, "b", kRootAllocation, 0.65);
  EXPECT_EQ(tree.units(AllocationId(1)), 7);
  EXPECT_EQ(tree.units(AllocationId(2)), 13);
  EXPECT_EQ(Entitlements(tree, 1'024'000), Integers({1'024'000, 358'400, 665'600}));
}

TEST(BudgetTree, EntitlementsDoNotDependOnTheScaleOfTheWeights) {
  for (const double scale : {1e-9, 1.0, 1e9}) {
    BudgetTree tree;
    AddTo(tree, "a", kRootAllocation, 0.35 * scale);
    AddTo(tree, "b", kRootAllocation, 0.65 * scale);
    EXPECT_EQ(Entitlements(tree, 1'024'000), Integers({1'024'000, 358'400, 665'600})) << scale;
  }
}

// L24: weights 2^53 and 1.
TEST(BudgetTree, ExtremeWeightsStayOrdered) {
  BudgetTree tree;
  const AllocationId big = AddTo(tree, "big", kRootAllocation, 0x1p53);
  const AllocationId small = AddTo(tree, "small", kRootAllocation, 1);
  EXPECT_GT(tree.units(big), tree.units(small));
  EXPECT_GT(tree.units(small), 0);
  const Integers e = Entitlements(tree, ToMilli(GpuCount(kMaxClusterGpus)).value());
  EXPECT_GE(e[big.value()], e[0] - 2);
  EXPECT_GE(e[small.value()], 0);
}

TEST(BudgetTree, AFamilyWithoutWeightsHasNoEntitlement) {
  BudgetTree tree;
  AddTo(tree, "a", kRootAllocation, 0);
  AddTo(tree, "b", kRootAllocation, 0);
  EXPECT_EQ(Entitlements(tree, 1000), Integers({1000, 0, 0}));
  EXPECT_EQ(Fill(tree, 1000, {0, 900, 900}), Integers({1000, 500, 500}));
  EXPECT_EQ(Entitlements(tree, -5), Integers({0, 0, 0}));
}

// L41: entitled 3, 3, 6 of 12.
TEST(WaterFill, GivesIdleShareToSiblings) {
  BudgetTree tree;
  AddTo(tree, "a", kRootAllocation, 1);
  AddTo(tree, "b", kRootAllocation, 1);
  AddTo(tree, "c", kRootAllocation, 2);
  EXPECT_EQ(Entitlements(tree, 12'000), Integers({12'000, 3000, 3000, 6000}));
  EXPECT_EQ(Fill(tree, 12'000, {0, 2000, 10'000, 1000}), Integers({12'000, 2000, 9000, 1000}));
  EXPECT_EQ(Fill(tree, 12'000, {0, 9000, 9000, 9000}), Integers({12'000, 3000, 3000, 6000}));
  EXPECT_EQ(Fill(tree, 12'000, {0, 9000, 9000, 2000}), Integers({12'000, 5000, 5000, 2000}));
  EXPECT_EQ(Fill(tree, 12'000, {0, 1000, 1000, 1000}), Integers({3000, 1000, 1000, 1000}));
  EXPECT_EQ(Fill(tree, 0, {0, 1000, 1000, 1000}), Integers({0, 0, 0, 0}));
}

// Idle share stays in the subtree as long as somebody there wants it.
TEST(WaterFill, GivesIdleShareWithinTheSubtreeFirst) {
  BudgetTree tree;
  const AllocationId p = AddTo(tree, "p");
  const AllocationId q = AddTo(tree, "q");
  const AllocationId p1 = AddTo(tree, "1", p);
  const AllocationId p2 = AddTo(tree, "2", p);
  const AllocationId q1 = AddTo(tree, "1", q);
  Integers demand(tree.size(), 0);
  demand[p1.value()] = 0;
  demand[p2.value()] = 8000;
  demand[q1.value()] = 8000;
  demand[p.value()] = 123'456;  // not read
  EXPECT_EQ(Fill(tree, 8000, demand), Integers({8000, 4000, 4000, 0, 4000, 4000}));
}

TEST(WaterFill, MultipliersTiltTheWeights) {
  BudgetTree tree;
  AddTo(tree, "a");
  AddTo(tree, "b");
  const Integers demand = {0, 9000, 9000};
  EXPECT_EQ(Fill(tree, 10'000, demand, {65536, 65536, 65536}), Integers({10'000, 5000, 5000}));
  EXPECT_EQ(Fill(tree, 10'000, demand, {65536, 4 * 65536, 65536}), Integers({10'000, 8000, 2000}));
  EXPECT_EQ(Fill(tree, 10'000, demand, {0, 65536 / 4, 65536}), Integers({10'000, 2000, 8000}));
  EXPECT_EQ(Fill(tree, 10'000, demand, {65536}), Integers({10'000, 5000, 5000})) << "missing = 1";
  EXPECT_EQ(Fill(tree, 10'000, demand, {0, 0, -1}), Integers({10'000, 5000, 5000}));
  EXPECT_EQ(Fill(tree, 10'000, demand, {0, 65536, 0}), Integers({10'000, 9000, 1000}));
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(Fill(tree, 10'000, demand, {0, huge, huge}), Integers({10'000, 5000, 5000}));
  EXPECT_EQ(Fill(tree, 10'000, demand, {0, huge, 1}), Integers({10'000, 9000, 1000}));
}

TEST(WaterFill, WeightZeroGetsOnlyWhatIsLeftOver) {
  BudgetTree tree;
  AddTo(tree, "a", kRootAllocation, 1);
  AddTo(tree, "b", kRootAllocation, 2);
  AddTo(tree, "x", kRootAllocation, 0);
  AddTo(tree, "y", kRootAllocation, 0);
  EXPECT_EQ(Fill(tree, 1000, {0, 900, 900, 900, 900}), Integers({1000, 333, 666, 0, 0}));
  EXPECT_EQ(Fill(tree, 1000, {0, 100, 500, 900, 900}), Integers({1000, 100, 500, 200, 200}));
  EXPECT_EQ(Fill(tree, 1000, {0, 100, 500, 50, 900}), Integers({1000, 100, 500, 50, 350}));
  ASSERT_TRUE(tree.Close(AllocationId(2)).ok());
  EXPECT_EQ(Fill(tree, 1000, {0, 400, 900, 900, 900}), Integers({1000, 400, 200, 200, 200}));
}

TEST(WaterFill, SurvivesMissingNegativeAndHugeDemand) {
  BudgetTree tree;
  AddTo(tree, "a");
  AddTo(tree, "b");
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(Fill(tree, 1000, {}), Integers({0, 0, 0}));
  EXPECT_EQ(Fill(tree, 1000, {0, 700}), Integers({700, 700, 0}));
  EXPECT_EQ(Fill(tree, 1000, {0, -5, 10}), Integers({10, 0, 10}));
  EXPECT_EQ(Fill(tree, 1000, {0, huge, huge}), Integers({1000, 500, 500}));
  EXPECT_EQ(Fill(tree, -1000, {0, huge, huge}), Integers({0, 0, 0}));
}

TEST(WaterFill, LargeFamiliesAreFilledLikeSmallOnes) {
  BudgetTree tree;
  Integers demand = {0};
  for (int i = 0; i < 100; ++i) {
    AddTo(tree, "n" + std::to_string(i), kRootAllocation, 1 + i % 3);
    demand.push_back(i < 50 ? 10 : 100'000);
  }
  const Integers out = Fill(tree, 100'000, demand);
  // The first 50 want little; the others have weights 17 x 1, 16 x 2, 17 x 3.
  std::int64_t weights = 0;
  for (int i = 50; i < 100; ++i) weights += 1 + i % 3;
  for (int i = 0; i < 100; ++i) {
    const std::int64_t expected = i < 50 ? 10 : (100'000 - 500) * (1 + i % 3) / weights;
    EXPECT_EQ(out[static_cast<std::size_t>(i) + 1], expected) << i;
  }
}

BudgetTree Sample() {
  BudgetTree tree;
  const AllocationId b = AddTo(tree, "b", kRootAllocation, 0.3);
  const AllocationId a = AddTo(tree, "a", kRootAllocation, 0.7);
  AddTo(tree, "x", a, 1);
  AddTo(tree, "y", a, std::sqrt(2.0));
  EXPECT_TRUE(tree.Close(b).ok());
  const AllocationId again = AddTo(tree, "b", kRootAllocation, 0.1);
  tree.MarkCharged(again);
  EXPECT_TRUE(tree.ScheduleWeight(a, Weight{0.9}, Hour(1), "ada", "more").ok());
  EXPECT_TRUE(tree.ScheduleWeight(again, Weight{2}, Hour(5), "bob", "later").ok());
  tree.ApplyEdits(Hour(2));
  return tree;
}

void ExpectSame(const BudgetTree& a, const BudgetTree& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::uint32_t i = 0; i < a.size(); ++i) {
    const AllocationId id(i);
    EXPECT_EQ(a.path(id), b.path(id));
    EXPECT_EQ(a.order(id), b.order(id));
    EXPECT_EQ(a.units(id), b.units(id));
    EXPECT_EQ(a.closed(id), b.closed(id));
    EXPECT_EQ(a.charged(id), b.charged(id));
    EXPECT_EQ(a.weight(id), b.weight(id));
    EXPECT_EQ(a.depth(id), b.depth(id));
  }
  EXPECT_EQ(Entitlements(a, 12'345), Entitlements(b, 12'345));
  EXPECT_EQ(a.next_edit(), b.next_edit());
  EXPECT_TRUE(std::equal(a.edits().begin(), a.edits().end(), b.edits().begin(), b.edits().end()));
}

TEST(BudgetTree, RoundTrips) {
  BudgetTree tree = Sample();
  BudgetTree restored;
  AddTo(restored, "old");
  EXPECT_EQ(restored.order(AllocationId(1)), 1u);
  ASSERT_TRUE(internal::Unpack(internal::Pack(tree), restored).ok());
  ExpectSame(tree, restored);
  EXPECT_EQ(restored.Find("b").value(), AllocationId(5));
  EXPECT_FALSE(restored.Find("old").ok());
  EXPECT_FALSE(restored.Add("b", kRootAllocation, Weight{1}).ok());
  EXPECT_TRUE(restored.ApplyEdits(Hour(5)));
  tree.ApplyEdits(Hour(5));
  ExpectSame(tree, restored);
}

// A child before its parent cannot come from a tree.
TEST(BudgetTree, ReadsAnImpossibleTreeAsALoneRoot) {
  internal::ArchiveWriter out;
  std::vector<std::string> names = {"", "a"};
  std::int64_t count = 2;
  out(count);
  for (std::string& name : names) {
    Weight weight;
    AllocationId parent(7);
    bool no = false;
    out(name, weight, parent, no, no);
  }
  std::int64_t none = 0;
  out(none, none);
  internal::ArchiveReader in(out.out().data(), out.out().size());
  BudgetTree tree = Sample();
  tree.Serialize(in);
  EXPECT_EQ(in.left(), 0u);
  EXPECT_EQ(tree.size(), 1u);
  EXPECT_FALSE(tree.Find("a").ok());
  AddTo(tree, "a");
}

TEST(BudgetTree, CopiesAreIndependent) {
  BudgetTree tree = Sample();
  BudgetTree copy = tree;
  ExpectSame(tree, copy);
  AddTo(copy, "0");
  EXPECT_EQ(copy.order(AllocationId(6)), 1u);
  ExpectSame(tree, Sample());
  copy = tree;
  ExpectSame(tree, copy);
  const BudgetTree moved = std::move(copy);
  ExpectSame(tree, moved);
}

TEST(BudgetTree, ConstUseFromSeveralThreadsIsSafe) {
  for (int round = 0; round < 20; ++round) {
    BudgetTree tree;
    for (int i = 0; i < 200; ++i) AddTo(tree, "n" + std::to_string(i * 37 % 200));
    std::vector<std::thread> threads;
    std::vector<std::uint32_t> seen(4);
    for (std::size_t t = 0; t < seen.size(); ++t) {
      threads.emplace_back([&tree, &seen, t] {
        const BudgetTree copy = tree;
        seen[t] = tree.order(AllocationId(7)) + copy.order(AllocationId(9));
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::uint32_t s : seen) EXPECT_EQ(s, seen[0]);
  }
}

}  // namespace
}  // namespace tenure
