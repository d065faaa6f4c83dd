// SPDX-License-Identifier: Apache-2.0
#include "tenure/ranking.h"

#include <chrono>

#include "gtest/gtest.h"
#include "tenure/budget_tree.h"
#include "tenure/ledger.h"

namespace tenure {
namespace {

// A team without a share has used infinitely many hours of it, one that is owed time fewer than
// none: the way between them is no small number, and in no direction the wrong one.
TEST(Ranking, ATeamWithoutAShareIsFarAheadOfOneThatIsOwedTime) {
  BudgetTree tree;
  const AllocationId none = tree.Add("none", kRootAllocation, Weight{0}).value();
  const AllocationId owed = tree.Add("owed", kRootAllocation, Weight{1}).value();
  Ledger ledger;
  ledger.Open(tree);
  Ranking ranking;
  ranking.Refresh(tree, ledger, GpuCount(8), TimePoint(), [&](AllocationId a, GpuTime, MilliGpu) {
    return a == none ? Duration::max() : Duration(-std::chrono::hours(6));
  });
  EXPECT_TRUE(ranking.Before(tree, owed, none));
  EXPECT_EQ(ranking.Gap(tree, none, owed), Duration::min());
  EXPECT_EQ(ranking.Gap(tree, owed, none), Duration::max());
  EXPECT_EQ(ranking.Gap(tree, none, none), Duration(0));
}

}  // namespace
}  // namespace tenure
