// SPDX-License-Identifier: Apache-2.0

#include "tenure/sim/tree_shape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "tenure/budget_tree.h"
#include "tenure/sim/institute.h"
#include "tenure/sim/setup.h"

namespace tenure::sim {
namespace {

std::int64_t Whole(const std::vector<ShapedLeaf>& leaves) {
  std::int64_t sum = 0;
  for (const ShapedLeaf& leaf : leaves) sum += leaf.parts;
  return sum;
}

TEST(TreeShape, IsTheInstituteByDefault) {
  const std::vector<ShapedLeaf> leaves = ShapeTree({}).value();
  ASSERT_EQ(leaves.size(), 15u);
  EXPECT_EQ(leaves[0].spec.path, "language/pretraining");
  EXPECT_EQ(leaves[0].spec.weights, (std::vector<double>{0.45, 0.35}));
  EXPECT_EQ(Whole(leaves), 100);
}

// Every leaf has the depth asked for, and the tree gives it its part of the cluster.
TEST(TreeShape, SharesAreThePartsAtAnyDepth) {
  for (const auto& [leaves, levels, largest] :
       {std::tuple(1, 1, 0), std::tuple(3, 1, 0), std::tuple(15, 2, 0), std::tuple(300, 2, 0),
        std::tuple(300, 5, 0), std::tuple(15, 2, 90), std::tuple(7, 3, 50)}) {
    const std::vector<ShapedLeaf> shaped =
        ShapeTree({.leaves = leaves, .levels = levels, .largest_percent = largest}).value();
    ASSERT_EQ(shaped.size(), static_cast<std::size_t>(leaves));
    World world;
    std::set<std::string> paths;
    for (const ShapedLeaf& leaf : shaped) {
      EXPECT_EQ(std::count(leaf.spec.path.begin(), leaf.spec.path.end(), '/') + 1, levels);
      EXPECT_TRUE(paths.insert(leaf.spec.path).second) << leaf.spec.path;
      world.leaves.push_back(leaf.spec);
    }
    BudgetTree tree;
    const auto ids = AddLeaves(world, [&](const std::string& name, AllocationId up, Weight w) {
      return tree.Add(name, up, w);
    });
    ASSERT_TRUE(ids.ok()) << ids.status();
    std::vector<MilliGpu> entitlements;
    const GpuCount capacity(1 << 20);
    tree.Entitlements(ToMilli(capacity), entitlements);
    for (std::size_t i = 0; i < shaped.size(); ++i) {
      const double share =
          static_cast<double>(shaped[i].parts) / static_cast<double>(Whole(shaped));
      const double got = static_cast<double>(entitlements[(*ids)[i].value()].value()) /
                         static_cast<double>(ToMilli(capacity).value());
      EXPECT_NEAR(got, share, 1e-6) << shaped[i].spec.path;
    }
    if (largest > 0) {
      EXPECT_NEAR(static_cast<double>(shaped[0].parts) / static_cast<double>(Whole(shaped)),
                  largest / 100.0, 1e-6);
    }
  }
}

TEST(TreeShape, NamesWhatIsWrong) {
  const auto message = [](const TreeShape& shape) {
    return std::string(ShapeTree(shape).status().message());
  };
  EXPECT_EQ(message({.leaves = -1}), "leaves is -1, must be in [0, 10000]");
  EXPECT_EQ(message({.leaves = 3, .levels = 0}), "levels is 0, must be in [1, 8]");
  EXPECT_EQ(message({.leaves = 3, .largest_percent = 100}),
            "largest_percent is 100, must be in [0, 99], 0 for a single leaf");
}

// The work of the institute, dealt to other trees and clusters: as much of it as there was.
TEST(TreeShape, TheInstituteFillsEveryShape) {
  const auto funded = [](const InstituteOptions& options) {
    const World world = GenerateInstitute(options).value();
    double work = 0;
    for (const JobRow& job : world.jobs) {
      if (job.funded())
        work += static_cast<double>(job.gpus()) * static_cast<double>(job.runtime_us);
    }
    return work / (static_cast<double>(world.cluster.gpus()) * 86'400e6 * options.days);
  };
  for (const auto& [nodes, leaves, levels, largest] :
       {std::tuple(128, 300, 5, 0), std::tuple(128, 3, 1, 0), std::tuple(128, 15, 2, 90),
        std::tuple(11, 0, 2, 0), std::tuple(512, 0, 2, 0)}) {
    double load = 0;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      InstituteOptions options;
      options.nodes = nodes;
      options.seed = seed;
      options.warmup_days = 0;
      options.tree = {.leaves = leaves, .levels = levels, .largest_percent = largest};
      load += funded(options) / 3;
    }
    EXPECT_GT(load, 0.6) << nodes << " nodes, " << leaves << " leaves";
    EXPECT_LT(load, 1.4) << nodes << " nodes, " << leaves << " leaves";
  }
}

}  // namespace
}  // namespace tenure::sim
