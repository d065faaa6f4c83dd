// SPDX-License-Identifier: Apache-2.0
//
// Waiting work, grouped by shape: all requests of a shape wait in one bucket, because where one
// finds no place, none does. A pass therefore looks at each shape once, not at each request.
//
// Order inside a queue: express first, then priority (larger first), then the time of the first
// submission, then id. Complexity: insert and erase O(log J); candidate O(buckets).
#ifndef TENURE_PENDING_QUEUE_H_
#define TENURE_PENDING_QUEUE_H_

#include <compare>
#include <cstdint>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "tenure/cluster.h"
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

  void Insert(ShapeId shape, const QueueKey& key) {
    const auto [it, added] = bucket_of_.emplace(shape, buckets_.size());
    if (added) {
      buckets_.emplace_back();
      buckets_.back().shape = shape;
    }
    Bucket& bucket = buckets_[it->second];
    size_ += bucket.waiting.insert(key).second;
    bucket.first = *bucket.waiting.begin();
  }
  void Erase(ShapeId shape, const QueueKey& key) {
    const auto it = bucket_of_.find(shape);
    if (it == bucket_of_.end()) return;
    Bucket& bucket = buckets_[it->second];
    size_ -= bucket.waiting.erase(key);
    if (!bucket.waiting.empty()) {
      bucket.first = *bucket.waiting.begin();
      return;
    }
    // Keep the list dense: the last bucket takes the place of the empty one.
    const std::size_t gap = it->second;
    bucket_of_.erase(it);
    if (gap + 1 != buckets_.size()) {
      buckets_[gap] = std::move(buckets_.back());
      bucket_of_[buckets_[gap].shape] = gap;
    }
    buckets_.pop_back();
  }

  // The bucket whose first request comes first among those that are not skipped in `round` and for
  // which `eligible` is true, or nullptr. `eligible` may set `skipped`.
  template <class Eligible>
  Bucket* Next(std::uint64_t round, const Eligible& eligible) {
    Bucket* best = nullptr;
    for (Bucket& b : buckets_) {
      if (b.skipped == round || (best != nullptr && best->first < b.first) || !eligible(b))
        continue;
      best = &b;
    }
    return best;
  }

 private:
  std::size_t size_ = 0;
  std::vector<Bucket> buckets_;  // none is empty; their order carries no meaning
  absl::flat_hash_map<ShapeId, std::size_t> bucket_of_;  // look-up only
};

}  // namespace tenure

#endif  // TENURE_PENDING_QUEUE_H_
