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
#include <span>
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
    QueueKey first;  // of waiting: compared without touching the set
    absl::btree_set<QueueKey> waiting;
  };
  // What a walk over all buckets looks at, densely.
  struct Place {
    std::uint32_t bucket = 0;   // an index into buckets()
    ShapeId shape = 0;          // of it
    std::uint64_t skipped = 0;  // number of the round in which it is not looked at any more
  };

  struct Summary {
    std::vector<ShapeId> least;  // every shape that waits dominates one of these
    GpuCount fewest;             // that any of them asks for in all
    bool capped = false;         // some of them may be kept back by a cap
  };

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  const Bucket& bucket(const Place& place) const { return buckets_[place.bucket]; }
  // Every bucket once, by its first request.
  std::span<Place> order() { return order_; }
  // What can be said of all shapes that wait, for whoever would look at each. `summarise(summary,
  // order())` fills in an empty one; it is asked again only after a shape began or ceased to wait.
  template <class Summarise>
  const Summary& summary(const Summarise& summarise) {
    if (!summarised_) {
      summary_ = Summary();
      summarise(summary_, std::span<const Place>(order_));
      summarised_ = true;
    }
    return summary_;
  }

  void Insert(ShapeId shape, const QueueKey& key) {
    const auto [it, added] = bucket_of_.emplace(shape, static_cast<std::uint32_t>(buckets_.size()));
    Bucket* bucket = nullptr;
    if (added) {
      summarised_ = false;
      bucket = &buckets_.emplace_back();
      bucket->shape = shape;
    } else {
      bucket = &buckets_[it->second];
    }
    size_ += bucket->waiting.insert(key).second;
    if (!added && !(key < bucket->first)) return;
    const Place place = added ? Place{it->second, shape} : TakeOut(it->second);
    bucket->first = key;
    PutIn(place);
  }
  void Erase(ShapeId shape, const QueueKey& key) {
    const auto it = bucket_of_.find(shape);
    if (it == bucket_of_.end()) return;
    const std::uint32_t gap = it->second;
    Bucket& bucket = buckets_[gap];
    size_ -= bucket.waiting.erase(key);
    if (key != bucket.first) return;
    const Place place = TakeOut(gap);
    if (!bucket.waiting.empty()) {
      bucket.first = *bucket.waiting.begin();
      PutIn(place);
      return;
    }
    summarised_ = false;
    // Keep the list dense: the last bucket takes the place of the empty one.
    bucket_of_.erase(it);
    const auto last = static_cast<std::uint32_t>(buckets_.size() - 1);
    if (gap != last) {
      Find(last)->bucket = gap;
      buckets_[gap] = std::move(buckets_.back());
      bucket_of_.find(buckets_[gap].shape)->second = gap;
    }
    buckets_.pop_back();
  }

 private:
  // Where `bucket` is in order_, or would be.
  std::vector<Place>::iterator Find(std::uint32_t bucket) {
    return std::partition_point(order_.begin(), order_.end(), [&](const Place& place) {
      const Bucket &x = buckets_[place.bucket], &y = buckets_[bucket];
      return x.first != y.first ? x.first < y.first : x.shape < y.shape;
    });
  }
  Place TakeOut(std::uint32_t bucket) {
    const auto at = Find(bucket);
    const Place place = *at;
    order_.erase(at);
    return place;
  }
  void PutIn(const Place& place) { order_.insert(Find(place.bucket), place); }

  std::size_t size_ = 0;
  std::vector<Bucket> buckets_;  // none is empty; their order carries no meaning
  std::vector<Place> order_;
  Summary summary_;
  bool summarised_ = false;
  internal::IndexMap<ShapeId, std::uint32_t> bucket_of_;
};

}  // namespace tenure

#endif  // TENURE_PENDING_QUEUE_H_
