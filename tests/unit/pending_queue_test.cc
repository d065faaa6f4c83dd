// SPDX-License-Identifier: Apache-2.0
#include "tenure/pending_queue.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tenure/sim/random.h"

namespace tenure {
namespace {

QueueKey Key(bool ordinary, int yield, int since, int id) {
  QueueKey key;
  key.ordinary = ordinary;
  key.yield = yield;
  key.since = TimePoint(Duration(since));
  key.id = WorkloadId(static_cast<std::uint64_t>(id));
  return key;
}

TEST(PendingQueue, OrdersByExpressThenPriorityThenTimeThenId) {
  const std::vector<QueueKey> order = {Key(false, 5, 9, 9), Key(true, -1, 7, 8), Key(true, 0, 1, 7),
                                       Key(true, 0, 2, 1), Key(true, 0, 2, 2)};
  PendingQueue queue;
  for (std::size_t i = order.size(); i-- > 0;) {
    queue.Insert(static_cast<ShapeId>(i % 2), order[i]);
  }
  for (const QueueKey& expected : order) {
    ASSERT_FALSE(queue.buckets().empty());
    const PendingQueue::Bucket& bucket = queue.bucket(queue.order()[0]);
    EXPECT_EQ(bucket.first.id, expected.id);
    queue.Erase(bucket.shape, QueueKey(bucket.first));
  }
  EXPECT_TRUE(queue.empty());
  EXPECT_TRUE(queue.buckets().empty());
}

TEST(PendingQueue, AnswersLikeASortedList) {
  sim::Rng rng(3);
  for (int world = 0; world < 30; ++world) {
    PendingQueue queue;
    std::map<ShapeId, std::set<QueueKey>> naive;
    std::vector<ShapeId> before;
    for (int i = 0; i < 400; ++i) {
      const auto shape = static_cast<ShapeId>(rng.Below(6));
      const QueueKey key = Key(rng.Chance(4, 5), static_cast<int>(rng.Below(3)),
                               static_cast<int>(rng.Below(5)), static_cast<int>(rng.Below(40)));
      if (rng.Chance(1, 2)) {
        queue.Insert(shape, key);
        naive[shape].insert(key);
      } else {
        queue.Erase(shape, key);
        naive[shape].erase(key);
      }
      // Every shape that waits once, by its first request.
      std::vector<std::pair<QueueKey, ShapeId>> expected;
      std::size_t size = 0;
      for (const auto& [s, keys] : naive) {
        size += keys.size();
        if (!keys.empty()) expected.emplace_back(*keys.begin(), s);
      }
      std::sort(expected.begin(), expected.end());
      ASSERT_EQ(queue.size(), size);
      ASSERT_EQ(queue.buckets().size(), expected.size());
      for (std::size_t n = 0; n < expected.size(); ++n) {
        const PendingQueue::Place& place = queue.order()[n];
        const PendingQueue::Bucket& bucket = queue.bucket(place);
        ASSERT_EQ(place.shape, bucket.shape);
        ASSERT_EQ(bucket.shape, expected[n].second);
        ASSERT_TRUE(bucket.first == expected[n].first);
        ASSERT_TRUE(*bucket.waiting.begin() == expected[n].first);
        ASSERT_EQ(bucket.waiting.size(), naive[bucket.shape].size());
      }
      // A summary is made anew exactly when another set of shapes waits.
      std::vector<ShapeId> shapes;
      for (const auto& [key_of_first, s] : expected) shapes.push_back(s);
      std::sort(shapes.begin(), shapes.end());
      bool made = false;
      const PendingQueue::Summary& summary = queue.summary(
          [&](PendingQueue::Summary& of, std::span<const PendingQueue::Place> places) {
            made = true;
            for (const PendingQueue::Place& place : places) of.least.push_back(place.shape);
          });
      std::vector<ShapeId> summarised = summary.least;
      std::sort(summarised.begin(), summarised.end());
      ASSERT_EQ(summarised, shapes);
      ASSERT_TRUE(made || shapes == before) << "was not made anew";
      before = shapes;
    }
  }
}

}  // namespace
}  // namespace tenure
