// SPDX-License-Identifier: Apache-2.0
//
// What is known to find no place, against a list of all that has failed.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "random_shape.h"
#include "random_world.h"
#include "tenure/failed_shapes.h"
#include "tenure/pending_queue.h"
#include "tenure/placement.h"
#include "tenure/round_failures.h"
#include "tenure/sim/random.h"

namespace tenure::test {
namespace {

Shape AnyShape(sim::Rng& rng) {
  Shape s = RandomShape(rng);
  s.workload_class = static_cast<WorkloadClass>(rng.Below(4));
  s.funded = rng.Chance(4, 5);
  s.band = static_cast<std::uint8_t>(rng.Chance(1, 3) ? 0 : rng.Below(kBands));
  if (rng.Chance(1, 3)) s.user = UserId(static_cast<std::uint32_t>(rng.Below(3)));
  return s;
}

bool Naive(const std::vector<Shape>& failed, const Shape& shape) {
  return std::any_of(failed.begin(), failed.end(),
                     [&](const Shape& f) { return shape.Dominates(f); });
}

TEST(FailedShapes, CoverWhatDominatesOneOfThem) {
  std::int64_t covered = 0, free = 0;
  for (std::uint64_t seed = 1; seed <= Worlds(200); ++seed) {
    sim::Rng rng(seed);
    internal::FailedShapes failed;
    for (int round = 0; round < 6; ++round) {
      failed.Clear();
      std::vector<Shape> list;
      for (int i = 0; i < 25; ++i) {
        for (int ask = 0; ask < 20; ++ask) {
          const Shape shape = AnyShape(rng);
          ASSERT_EQ(failed.Cover(shape), Naive(list, shape)) << "world " << seed;
          ++(Naive(list, shape) ? covered : free);
        }
        list.push_back(AnyShape(rng));
        failed.Add(list.back());
      }
    }
  }
  EXPECT_GT(covered, 10'000);
  EXPECT_GT(free, 10'000);
}

// A survey stands for a while: what it rules out is as good as failed, for all whom it bounds.
TEST(RoundFailures, KnowWhatHasFailedForWhomItCounts) {
  for (std::uint64_t seed = 1; seed <= Worlds(200); ++seed) {
    sim::Rng rng(seed);
    std::vector<Shape> shapes;
    for (int i = 0; i < 30; ++i) shapes.push_back(AnyShape(rng));
    internal::RoundFailures failures;
    for (int round = 0; round < 8; ++round) {
      failures.Begin();
      ASSERT_EQ(failures.round(), static_cast<std::uint64_t>(round + 1));
      std::vector<Shape> others, all, ruled_others, ruled_all;
      std::vector<std::vector<Shape>> own(3);
      for (int i = 0; i < 60; ++i) {
        const auto id = static_cast<ShapeId>(rng.Below(30));
        const Shape& shape = shapes[id];
        const bool more = rng.Chance(1, 3);
        const AllocationId leaf(static_cast<std::uint32_t>(rng.Below(3)));
        // Settled ones for sure; others at least for the shape itself.
        std::vector<Shape>& list = more ? all : others;
        if (Naive(list, shape)) {
          ASSERT_TRUE(failures.Know(id, shape, more)) << "world " << seed;
        } else if (failures.Know(id, shape, more)) {
          const std::vector<Shape>& ruled = more ? ruled_all : ruled_others;
          ASSERT_NE(std::find(ruled.begin(), ruled.end(), shape), ruled.end());
        }
        ASSERT_EQ(failures.KnowOf(leaf, shape), Naive(own[leaf.value()], shape));
        switch (rng.Below(5)) {
          case 0:
            failures.Add(id, shape, more);
            others.push_back(shape);
            if (more) all.push_back(shape);
            break;
          case 1:
            failures.AddRuledOut(id, more);
            ruled_others.push_back(shape);
            if (more) ruled_all.push_back(shape);
            break;
          case 2:
            failures.AddOf(leaf, shape);
            own[leaf.value()].push_back(shape);
            break;
          case 3:
            if (rng.Chance(1, 3)) {
              failures.Settle(shapes);
              others.insert(others.end(), ruled_others.begin(), ruled_others.end());
              all.insert(all.end(), ruled_all.begin(), ruled_all.end());
              ruled_others.clear();
              ruled_all.clear();
            }
            break;
          default:
            break;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tenure::test
