// SPDX-License-Identifier: Apache-2.0
#include "tenure/pending_queue.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "tenure/sim/random.h"

namespace tenure {
namespace {

constexpr auto kAny = [](PendingQueue::Bucket&) { return true; };

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
    PendingQueue::Bucket* bucket = queue.Next(1, kAny);
    ASSERT_NE(bucket, nullptr);
    EXPECT_EQ(bucket->waiting.begin()->id, expected.id);
    queue.Erase(bucket->shape, *bucket->waiting.begin());
  }
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.Next(1, kAny), nullptr);
}

TEST(PendingQueue, SkippedShapesComeBackInTheNextRound) {
  PendingQueue queue;
  queue.Insert(1, Key(true, 0, 0, 1));
  queue.Insert(2, Key(true, 0, 1, 2));
  queue.Next(7, kAny)->skipped = 7;
  EXPECT_EQ(queue.Next(7, kAny)->shape, 2u);
  queue.Next(7, kAny)->skipped = 7;
  EXPECT_EQ(queue.Next(7, kAny), nullptr);
  EXPECT_EQ(queue.Next(8, kAny)->shape, 1u);
}

TEST(PendingQueue, AnswersLikeASortedList) {
  sim::Rng rng(3);
  for (int world = 0; world < 30; ++world) {
    PendingQueue queue;
    std::map<ShapeId, std::set<QueueKey>> naive;
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
      std::size_t size = 0;
      const QueueKey* first = nullptr;
      for (const auto& [s, keys] : naive) {
        size += keys.size();
        if (!keys.empty() && (first == nullptr || *keys.begin() < *first)) first = &*keys.begin();
      }
      ASSERT_EQ(queue.size(), size);
      PendingQueue::Bucket* bucket = queue.Next(1, kAny);
      ASSERT_EQ(bucket == nullptr, first == nullptr);
      if (first != nullptr) {
        ASSERT_TRUE(*bucket->waiting.begin() == *first);
      }
    }
  }
}

}  // namespace
}  // namespace tenure
