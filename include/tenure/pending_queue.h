// SPDX-License-Identifier: Apache-2.0
//
// Waiting work, grouped by shape: all requests of a shape wait in one bucket, because where one
// finds no place, none does. A pass therefore looks at each shape once, not at each request.
//
// Order inside a queue: express first, then priority (larger first), then the time of the first
// submission, then id. Complexity, for J requests in B buckets: insert and erase O(log J), and O(B)
// if the first of a bucket changes; the n-th bucket O(1).
#ifndef TENURE_PENDING_QUEUE_H_
#define TENURE_PENDING_QUEUE_H_

#include <algorithm>
#include <compare>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "tenure/cluster.h"
#include "tenure/index_map.h"
#include "tenure/types.h"

namespace tenure {

using ShapeId = std::uint32_t;

struct QueueKey {
  bool ordinary = true;    // false: express
  std::int32_t yield = 0;  // minus the priority
  TimePoint since;
  WorkloadId id;
  RunSlot slot = kNoSlot;
  friend auto operator<=>(const QueueKey&, const QueueKey&) = default;
};

class PendingQueue {
 public:
  struct Bucket {
    ShapeId shape = 0;
    std::uint64_t skipped = 0;  // number of the round in which it is not looked at any more
    QueueKey first;             // of waiting: compared without touching the set
    absl::btree_set<QueueKey> waiting;
  };

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  std::vector<Bucket>& buckets() { return buckets_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  // The bucket whose first request is the n-th of all first requests; n < buckets().size().
  Bucket& InOrder(std::size_t n) { return buckets_[order_[n]]; }

  void Insert(ShapeId shape, const QueueKey& key) {
    const auto [it, added] = bucket_of_.emplace(shape, static_cast<std::uint32_t>(buckets_.size()));
    Bucket* bucket = nullptr;
    if (added) {
      bucket = &buckets_.emplace_back();
      bucket->shape = shape;
    } else {
      bucket = &buckets_[it->second];
    }
    size_ += bucket->waiting.insert(key).second;
    if (!added && !(key < bucket->first)) return;
    if (!added) Unorder(it->second);
    bucket->first = key;
    Order(it->second);
  }
  void Erase(ShapeId shape, const QueueKey& key) {
    const auto it = bucket_of_.find(shape);
    if (it == bucket_of_.end()) return;
    const std::uint32_t gap = it->second;
    Bucket& bucket = buckets_[gap];
    size_ -= bucket.waiting.erase(key);
    if (key != bucket.first) return;
    Unorder(gap);
    if (!bucket.waiting.empty()) {
      bucket.first = *bucket.waiting.begin();
      Order(gap);
      return;
    }
    // Keep the list dense: the last bucket takes the place of the empty one.
    bucket_of_.erase(it);
    const auto last = static_cast<std::uint32_t>(buckets_.size() - 1);
    if (gap != last) {
      *Position(last) = gap;
      buckets_[gap] = std::move(buckets_.back());
      bucket_of_.find(buckets_[gap].shape)->second = gap;
    }
    buckets_.pop_back();
  }

 private:
  // Where `bucket` is in order_, or would be.
  std::vector<std::uint32_t>::iterator Position(std::uint32_t bucket) {
    return std::lower_bound(order_.begin(), order_.end(), bucket,
                            [&](std::uint32_t a, std::uint32_t b) {
                              const Bucket &x = buckets_[a], &y = buckets_[b];
                              return x.first != y.first ? x.first < y.first : x.shape < y.shape;
                            });
  }
  void Order(std::uint32_t bucket) { order_.insert(Position(bucket), bucket); }
  void Unorder(std::uint32_t bucket) { order_.erase(Position(bucket)); }

  std::size_t size_ = 0;
  std::vector<Bucket> buckets_;       // none is empty; their order carries no meaning
  std::vector<std::uint32_t> order_;  // of buckets_: every one once, by its first request
  internal::IndexMap<ShapeId, std::uint32_t> bucket_of_;
};

}  // namespace tenure

#endif  // TENURE_PENDING_QUEUE_H_
